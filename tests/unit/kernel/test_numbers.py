"""The tables of numbers agree with the kernel's own headers, where those are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mcpwrap.kernel.numbers import AUDIT_ARCHES, table

HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"),
    "aarch64": ("/usr/include/asm-generic/unistd.h",),
}
OTHER_NAMES = {"fstatat": "newfstatat"}
NOT_CALLS = {"syscalls", "arch_specific_syscall", "umount", "sync_file_range2"}
FIRST_OF_32_BIT = 403
"""From here to 423 are the 64-bit time calls of 32-bit machines; above, a header may be newer than ours."""


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_those_of_the_headers(machine: str) -> None:
    header = next((path for path in map(Path, HEADERS[machine]) if path.exists()), None)
    if header is None:
        pytest.skip("no kernel headers")
    known = table(machine)
    found: dict[str, str] = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\s", header.read_text()))
    for name, number in found.items():
        ours: str = OTHER_NAMES.get(name, name)
        if ours not in NOT_CALLS and (ours in known or int(number) < FIRST_OF_32_BIT):
            assert known.get(ours) == int(number), name


def test_the_newest_reviewed_call_has_its_number_everywhere() -> None:
    for machine in AUDIT_ARCHES:
        assert table(machine)["file_setattr"] == 469
        assert max(table(machine).values()) == 469


def test_an_unknown_machine_has_no_calls() -> None:
    assert table("pdp11") == {}
