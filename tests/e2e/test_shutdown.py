"""However the launcher ends, no process of the server's tree outlives it by 5 s."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.e2e.client import text
from tests.e2e.victim import Victim

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

GONE_SECONDS = 5.0
Process = tuple[int, str]
"""A pid and its start time: together never used again."""


def _stat(pid: int) -> tuple[int, str, str] | None:
    """Return (parent, start time, state) of a process, or None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[1]), fields[19], fields[0]


def descendants(root: int) -> set[Process]:
    """Return `root` and all processes below it."""
    found = {
        int(name): status for name in os.listdir("/proc") if name.isdigit() and (status := _stat(int(name)))
    }
    tree = {root}
    while more := {pid for pid, (parent, _, _) in found.items() if parent in tree} - tree:
        tree |= more
    return {(pid, found[pid][1]) for pid in tree if pid in found}


def left(tree: set[Process], seconds: float) -> set[Process]:
    """Wait until the tree is gone, at most `seconds`; return what is left of it."""
    deadline = time.monotonic() + seconds
    while True:
        alive = {
            (pid, start)
            for pid, start in tree
            if (now := _stat(pid)) and now[1] == start and now[2] not in "ZX"
        }
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.02)


def parents(victim: Victim) -> list[int]:
    """Return the processes from the relay down to the parent of the server's tree."""
    found = {pid: _stat(pid) for pid, _ in descendants(victim.session.process.pid)}
    chain = [victim.session.process.pid]
    for _ in range(2):
        below = [pid for pid, status in found.items() if status and status[0] == chain[-1]]
        chain.append(min(below, key=lambda pid: int(found[pid][1] if found[pid] else 0)))  # type: ignore[index]
    return chain


def end(victim: Victim, how: str) -> None:
    if how == "EOF":
        victim.session.close_stdin()
    else:
        os.kill(victim.session.process.pid, getattr(signal, f"SIG{how}"))


@pytest.mark.parametrize("lacking", ["", "filter"], ids=["B", "C"])
@pytest.mark.parametrize("how", ["EOF", "INT", "TERM", "HUP", "KILL"])
@pytest.mark.parametrize(
    ("while_calling", "stubborn"),
    [(False, False), (True, False), (True, True)],
    ids=["idle", "in a call", "a server that ignores EOF and signals"],
)
def test_nothing_is_left(how: str, while_calling: bool, stubborn: bool, lacking: str) -> None:
    victim = Victim(f"end-{how}-{while_calling}-{stubborn}", lacking=lacking)
    try:
        assert text(victim.act("nothing", "leave_daemon")) == "left"
        if stubborn:
            assert text(victim.act("nothing", "stay")) == "staying"
        if while_calling:
            victim.start("sleeper", "sleep", seconds=300)
            assert text(victim.act("sleeper", "sleep", seconds=0)) == "slept"
        tree = descendants(victim.session.process.pid)
        assert len(tree) >= 5, "relay, stem, init, server, daemon"
        end(victim, how)
        victim.session.wait(GONE_SECONDS)
        assert left(tree, GONE_SECONDS) == set()
    finally:
        victim.close()


KILLED = {
    "relay": ((0,), ()),
    "stem": ((1,), ()),
    "keeper": ((2,), ()),
    "relay and stem": ((0, 1), ()),
    "relay and keeper": ((0, 2), ()),
    "relay, the stem is stopped": ((0,), (1,)),
    "relay, the keeper is stopped": ((0,), (2,)),
}


@pytest.mark.parametrize("whom", KILLED)
def test_whoever_is_killed_at_tier_c_nothing_is_left(whom: str) -> None:
    victim = Victim(f"killed-{whom.replace(' ', '-')}", lacking="filter")
    killed, stopped = KILLED[whom]
    try:
        assert text(victim.act("nothing", "leave_tree", count=4)) == "left"
        tree = descendants(victim.session.process.pid)
        assert len(tree) == 4 + 8, "relay, stem, keeper, server, and four daemons with a child each"
        chain = parents(victim)
        for each in stopped:
            os.kill(chain[each], signal.SIGSTOP)
        for each in killed:
            os.kill(chain[each], signal.SIGKILL)
        assert left(tree, GONE_SECONDS) == set()
    finally:
        victim.close()


def test_the_exit_status_is_the_servers_own() -> None:
    with Victim("status") as victim:
        assert victim.close() == 0


def test_a_killed_launcher_leaves_its_audit() -> None:
    victim = Victim("killed-audit")
    try:
        path = str(victim.case("case") / "b.txt")
        victim.act("nothing", "read", path=path)
        end(victim, "KILL")
        victim.session.wait(GONE_SECONDS)
        assert path in str(victim.place.audit())
    finally:
        victim.close()
