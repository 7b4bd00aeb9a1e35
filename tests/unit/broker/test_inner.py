"""A filter of its own and an execution exclude each other, in whatever order a process asks for them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mcpwrap.broker.inner import INNER, Inner
from mcpwrap.broker.request import Caller
from mcpwrap.kernel.numbers import NR
from mcpwrap.sandbox import nested_calls, seccomp

PROGRAM = 0x7000


class Process:
    """A caller of group `group`: what `Caller` tells of it."""

    def __init__(self, group: int, *, began: bytes = b"1", filters: int = 0) -> None:
        self.pid = group
        self.began = began
        self.filters = filters


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[int, Process]:
    """Processes by number; the first is the broker's own."""
    found = {os.getpid(): Process(os.getpid())}

    def layout(caller: Caller) -> tuple[bytes, tuple[bytes, ...]]:
        if caller.pid not in found:
            raise ProcessLookupError
        return found[caller.pid].began, ()

    monkeypatch.setattr(Caller, "thread_group", lambda caller: caller.pid)
    monkeypatch.setattr(Caller, "layout", layout)
    monkeypatch.setattr(Caller, "status", lambda caller, _: [b"%d" % found[caller.pid].filters])
    return found


@pytest.fixture
def inner() -> Iterator[Inner]:
    proc = os.open("/proc", os.O_RDONLY)
    told = SimpleNamespace(
        host_proc=proc,
        refuse=lambda *_, **__: OSError(errno.EACCES, "refused"),
        resolver=SimpleNamespace(has_own_root=lambda _: False),
    )
    yield Inner(cast(Any, told))
    os.close(proc)


def executes(inner: Inner, pid: int) -> bool:
    caller = Caller(pid, 0)
    try:
        inner.require_plain(caller, caller, "/usr/bin/cat")
    except OSError:
        return False
    return True


@pytest.mark.usefixtures("machine")
def test_every_call_trapped_for_it_has_its_handler() -> None:
    plain = seccomp.verdicts()
    wide = seccomp.verdicts(overlay=nested_calls.GROUPS)
    trapped = {
        NR[group.calls]
        for group in nested_calls.GROUPS
        if wide[group.calls] != plain[group.calls] and seccomp._traps(wide[group.calls])
    }
    assert trapped == set(INNER)


def test_who_was_let_a_filter_executes_nothing(machine: dict[int, Process], inner: Inner) -> None:
    machine[7] = Process(7, filters=1)
    assert executes(inner, 7)
    inner.add_filter(Caller(7, 0), PROGRAM, ())
    assert not executes(inner, 7)


def test_another_process_under_its_number_executes(machine: dict[int, Process], inner: Inner) -> None:
    machine[7] = Process(7, filters=1)
    inner.add_filter(Caller(7, 0), PROGRAM, ())
    machine[7].began = b"2"
    assert executes(inner, 7)


def test_a_child_that_inherited_a_filter_executes_nothing(machine: dict[int, Process], inner: Inner) -> None:
    machine[8] = Process(8, filters=2)
    assert not executes(inner, 8)


def test_who_is_executing_gets_no_filter(machine: dict[int, Process], inner: Inner) -> None:
    machine[7] = Process(7, filters=1)
    with pytest.raises(OSError, match="refused"):
        inner.add_filter(Caller(7, 0), PROGRAM, {7: None})


def test_asking_whether_there_are_filters_is_no_filter(machine: dict[int, Process], inner: Inner) -> None:
    machine[7] = Process(7, filters=1)
    inner.add_filter(Caller(7, 0), 0, {7: None})
    assert executes(inner, 7)


def test_the_memory_of_filters_ends(
    machine: dict[int, Process], inner: Inner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpwrap.broker.inner.MAX_FILTERED", 2)
    for pid in (7, 8):
        machine[pid] = Process(pid, filters=1)
        inner.add_filter(Caller(pid, 0), PROGRAM, ())
    machine[9] = Process(9, filters=1)
    with pytest.raises(OSError, match=os.strerror(errno.EAGAIN)):
        inner.add_filter(Caller(9, 0), PROGRAM, ())
    del machine[7]
    inner.add_filter(Caller(9, 0), PROGRAM, ())
    assert not executes(inner, 8)
    assert not executes(inner, 9)
