"""What each Landlock ABI knows, and what is left of rights on an older one."""

from __future__ import annotations

import inspect
import itertools

import pytest

from mcpwrap.kernel import landlock
from mcpwrap.kernel.landlock import ABI, NEWEST_TESTED_ABI, Rights, downgrade

ALL = Rights(-1, -1, -1)

KNOWN = [
    (0, Rights(0, 0, 0)),
    (1, Rights(0x1FFF, 0, 0)),
    (2, Rights(0x3FFF, 0, 0)),
    (3, Rights(0x7FFF, 0, 0)),
    (4, Rights(0x7FFF, 3, 0)),
    (5, Rights(0xFFFF, 3, 0)),
    (6, Rights(0xFFFF, 3, 3)),
    (7, Rights(0xFFFF, 3, 3)),
]


@pytest.mark.parametrize(("abi", "known"), KNOWN)
def test_each_version_knows_what_the_kernel_documents(abi: int, known: Rights) -> None:
    assert downgrade(ALL, abi) == known == ABI[abi]


def test_the_table_ends_with_the_newest_tested_version() -> None:
    assert len(ABI) == NEWEST_TESTED_ABI + 1 == len(KNOWN)


def test_a_newer_kernel_is_used_as_the_newest_tested_version() -> None:
    assert downgrade(ALL, NEWEST_TESTED_ABI + 5) == ABI[NEWEST_TESTED_ABI]


def test_a_version_never_knows_less_than_the_one_before() -> None:
    for older, newer in itertools.pairwise(ABI):
        assert downgrade(older, ABI.index(newer)) == older


def test_a_downgrade_adds_nothing() -> None:
    asked = Rights(landlock.FS_TRUNCATE | landlock.FS_READ_FILE, 0, landlock.SCOPE_SIGNAL)
    assert downgrade(asked, 2) == Rights(landlock.FS_READ_FILE, 0, 0)


def test_constants_are_those_of_the_landlock_package() -> None:
    package = pytest.importorskip("landlock")
    theirs = {name: int(value) for name, value in vars(package.FSAccess).items() if name.isupper()}
    theirs = {name: value for name, value in theirs.items() if value and not value & (value - 1)}
    ours = {name: value for name, value in inspect.getmembers(landlock) if name.startswith("FS_")}
    assert len(theirs) >= 13
    for name, value in theirs.items():
        assert ours[f"FS_{name}"] == value, name
