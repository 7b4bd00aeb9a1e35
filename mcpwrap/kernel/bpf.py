"""An assembler of seccomp filters: from verdicts by call number to classic BPF.

The kernel runs the program once per call that its cache of plain RET_ALLOW numbers (a bitmap, since
5.11) does not answer. So the numbers are found by halving: some eight jumps instead of three hundred.

Source: Documentation/userspace-api/seccomp_filter.rst, Documentation/networking/filter.rst.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mcpwrap.kernel.numbers import X32_SYSCALL_BIT
from mcpwrap.kernel.seccomp import INSTRUCTION, RET_KILL_PROCESS

_LOAD_WORD = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
_GO = 0x05  # BPF_JMP | BPF_JA
_IF_EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_RETURN = 0x06  # BPF_RET | BPF_K

_NUMBER_AT = 0
_ARCH_AT = 4
_ARGUMENTS_AT = 16
"""Offsets in struct seccomp_data: nr, arch, (instruction pointer), six args of 8 bytes."""

_FARTHEST = 255
"""A conditional jump counts its distance in one byte; MAX_INSTRUCTIONS is 4,096 (BPF_MAXINSNS)."""
MAX_INSTRUCTIONS = 4096


class Check(NamedTuple):
    """If 32 bits of an argument, cut to `mask`, are one of `values`: `then`, else `otherwise`.

    The bits are the low half, all the kernel looks at for an `int`; or the `high` one, which a
    pointer needs too. Little-endian machines only, as all of `numbers.AUDIT_ARCHES` are.
    """

    argument: int
    values: tuple[int, ...]
    then: Verdict
    otherwise: Verdict
    mask: int = 0xFFFFFFFF
    high: bool = False


Verdict = int | Check
"""What becomes of a call: a RET_* value with its data, or a `Check` that leads to one."""


class _Code:
    """The program, built from its end: so every jump knows how far its target is.

    A place is named by its distance from the end of the program.
    """

    def __init__(self) -> None:
        self.backwards: list[bytes] = []
        self.returns: dict[int, int] = {}

    def add(self, code: int, constant: int, if_true: int = 0, if_false: int = 0) -> int:
        self.backwards.append(INSTRUCTION.pack(code, if_true, if_false, constant))
        return len(self.backwards)

    def jump(self, code: int, constant: int, if_true: int, if_false: int) -> int:
        """Add a conditional jump to two places; through a `_GO` where one is too far away."""
        while True:
            here = len(self.backwards)
            if here - if_true > _FARTHEST - 1:
                if_true = self.add(_GO, here - if_true)
            elif here - if_false > _FARTHEST - 1:
                if_false = self.add(_GO, here - if_false)
            else:
                return self.add(code, constant, here - if_true, here - if_false)

    def verdict(self, verdict: Verdict) -> int:
        """Return a place that carries `verdict` out; equal RETs nearby are one."""
        if isinstance(verdict, int):
            place = self.returns.get(verdict)
            if place is None or len(self.backwards) - place > _FARTHEST // 2:
                place = self.returns[verdict] = self.add(_RETURN, verdict)
            return place
        otherwise = self.verdict(verdict.otherwise)
        then = self.verdict(verdict.then)
        for value in reversed(verdict.values):
            otherwise = self.jump(_IF_EQUAL, value, then, otherwise)
        if otherwise != len(self.backwards):
            otherwise = self.add(_GO, len(self.backwards) - otherwise)
        if verdict.mask != 0xFFFFFFFF:
            self.add(_AND, verdict.mask)
        return self.add(_LOAD_WORD, _ARGUMENTS_AT + 8 * verdict.argument + 4 * verdict.high)

    def tree(self, runs: list[tuple[int, Verdict]]) -> int:
        """Return a place that finds the loaded number among `runs` of (first number, verdict)."""
        if len(runs) == 1:
            return self.verdict(runs[0][1])
        middle = len(runs) // 2
        upper = self.tree(runs[middle:])
        lower = self.tree(runs[:middle])
        return self.jump(_IF_AT_LEAST, runs[middle][0], upper, lower)


def assemble(arch: int, verdicts: Mapping[int, Verdict], default: int) -> bytes:
    """Return the program that answers each call of `arch` as `verdicts` says, else with `default`.

    A call through another architecture's ABI kills the process; one through x32 gets `default`.
    """
    runs: list[tuple[int, Verdict]] = [(0, default)]
    following = 0
    for number in sorted(verdicts):
        verdict = verdicts[number]
        if number != following and runs[-1][1] != default:
            runs.append((following, default))
        if runs[-1][1] != verdict:
            if runs[-1][0] == number:
                runs.pop()
            runs.append((number, verdict))
        following = number + 1
    if runs[-1][1] != default:
        runs.append((following, default))
    assert following < X32_SYSCALL_BIT
    code = _Code()
    tree = code.tree(runs)
    if tree != len(code.backwards):
        code.add(_GO, len(code.backwards) - tree)
    code.add(_LOAD_WORD, _NUMBER_AT)
    # The check of the architecture: skip the RET if it is the right one.
    code.add(_RETURN, RET_KILL_PROCESS)
    code.add(_IF_EQUAL, arch, 1, 0)
    code.add(_LOAD_WORD, _ARCH_AT)
    assert len(code.backwards) <= MAX_INSTRUCTIONS
    return b"".join(reversed(code.backwards))
