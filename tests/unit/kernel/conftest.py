"""A machine for classic BPF as the kernel documents it: the oracle for what our filters say."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 200
"""A filter that takes more instructions for one call is a fault; the longest list of values has 60."""


def answer(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Return what `program` returns for one call."""
    args = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number - (1 << 32) if number >> 31 else number, arch, 0, *args)
    code = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    at = accumulator = 0
    for _ in range(STEPS):
        operation, if_true, if_false, constant = code[at]
        at += 1
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x54:
            accumulator &= constant
        elif operation == 0x05:
            at += constant
        elif operation == 0x15:
            at += if_true if accumulator == constant else if_false
        elif operation == 0x35:
            at += if_true if accumulator >= constant else if_false
        elif operation == 0x06:
            return int(constant)
        else:
            raise AssertionError(f"no such instruction: {operation:#x}")
    raise AssertionError("the filter takes too many steps")


@pytest.fixture
def machine() -> Callable[..., int]:
    """`machine(program, arch, number, arguments=())` → the RET value."""
    return answer
