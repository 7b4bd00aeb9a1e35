"""The assembler says of every call what it was told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.kernel.bpf import Check, Verdict, assemble
from mcpwrap.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS, RET_USER_NOTIF
from tests.unit.kernel.conftest import answer

if TYPE_CHECKING:
    from collections.abc import Callable

ARCH = 0xC000003E
DEFAULT = RET_ERRNO | 38

plain = st.sampled_from([RET_ALLOW, RET_USER_NOTIF, DEFAULT, RET_ERRNO | 1, RET_ERRNO])
words = st.one_of(st.integers(0, 20), st.integers(0, 2**64 - 1))
verdicts = st.recursive(
    plain,
    lambda inner: st.builds(
        Check,
        st.integers(0, 5),
        st.lists(st.integers(0, 20), max_size=4).map(tuple),
        inner,
        inner,
        st.sampled_from([0xFFFFFFFF, 0xF, 0x3]),
        st.booleans(),
    ),
    max_leaves=6,
)


def expected(verdict: Verdict, arguments: list[int]) -> int:
    while isinstance(verdict, Check):
        bits = arguments[verdict.argument] >> 32 if verdict.high else arguments[verdict.argument] & 0xFFFFFFFF
        verdict = verdict.then if bits & verdict.mask in verdict.values else verdict.otherwise
    return verdict


@given(st.dictionaries(st.integers(0, 500), verdicts, max_size=150), st.integers(0, 520), st.data())
def test_a_filter_answers_as_its_table_says(
    table: dict[int, Verdict], number: int, data: st.DataObject
) -> None:
    arguments = data.draw(st.lists(words, min_size=6, max_size=6))
    program = assemble(ARCH, table, DEFAULT)
    for asked in {number, *table}:
        want = expected(table.get(asked, DEFAULT), arguments)
        assert answer(program, ARCH, asked, tuple(arguments)) == want


def test_far_jumps_arrive(machine: Callable[..., int]) -> None:
    wide = {n: Check(0, tuple(range(n, n + 60)), RET_ALLOW, RET_ERRNO | n) for n in range(0, 100, 2)}
    program = assemble(ARCH, wide, DEFAULT)
    for number, check in wide.items():
        assert machine(program, ARCH, number, (number,)) == RET_ALLOW
        assert machine(program, ARCH, number, (number + 60,)) == check.otherwise
        assert machine(program, ARCH, number + 1) == DEFAULT


def test_another_architecture_is_killed(machine: Callable[..., int]) -> None:
    program = assemble(ARCH, {1: RET_ALLOW}, DEFAULT)
    assert machine(program, 0x40000003, 1) == RET_KILL_PROCESS


@pytest.mark.parametrize("number", [0x40000000, 0x40000001, 0x40000200, 0x7FFFFFFF, 0xFFFFFFFF])
def test_x32_numbers_and_negative_ones_get_the_default(machine: Callable[..., int], number: int) -> None:
    program = assemble(ARCH, dict.fromkeys(range(500), RET_ALLOW), DEFAULT)
    assert machine(program, ARCH, number) == DEFAULT
