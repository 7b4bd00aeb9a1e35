"""The limit on a whole tree's memory."""

from __future__ import annotations

from mcpwrap.limits import TREE_MEMORY_BYTES
from mcpwrap.sandbox.memory import Watcher, default_limit


def test_a_small_machine_keeps_half_of_its_memory() -> None:
    assert default_limit(b"MemTotal:        4194304 kB\nMemFree: 1 kB\n") == 2 * 1024**3


def test_a_large_machine_has_the_named_limit() -> None:
    assert default_limit(b"MemTotal:        134217728 kB\n") == TREE_MEMORY_BYTES
    assert default_limit(b"") == TREE_MEMORY_BYTES


def test_the_reason_names_what_is_held_and_the_limit() -> None:
    reason = Watcher(1 << 20).check()
    assert reason is not None
    assert reason.endswith("their limit is 1 MiB")


def test_there_is_no_reason_below_the_limit() -> None:
    assert Watcher(1 << 60).check() is None
