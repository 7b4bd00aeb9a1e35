"""What is laid over the list of system calls without namespaces, or without a broker: each refusal, by raw calls.

The same call under the list alone gets something else, so a group that is left out turns a test red.
"""

from __future__ import annotations

import errno
import json
from functools import cache

import pytest

from mcpwrap.kernel.numbers import NR
from mcpwrap.sandbox import bare_calls, seccomp
from tests.kernel.test_seccomp_refused import BAD, answers

pytestmark = pytest.mark.needs("seccomp")

EPERM, EACCES, ENOSYS = errno.EPERM, errno.EACCES, errno.ENOSYS
FAST_OPEN = 0x20000000
NOBODY = 0x3FFFFFFE
"""No process, group or user has this number: the kernel says so, if it is asked."""

CASES: list[tuple[str, list[int | str | list[int]], int]] = [
    ("setsockopt", [-1, 0, 4, BAD, 0], errno.ENOPROTOOPT),
    ("setsockopt", [-1, 1, 25, BAD, 0], errno.ENOPROTOOPT),
    ("setsockopt", [-1, 6, 30, BAD, 0], errno.ENOPROTOOPT),
    ("setsockopt", [-1, 41, 57, BAD, 0], errno.ENOPROTOOPT),
    ("socket", [2, 2, 0], EACCES),
    ("socket", [10, 2, 17], EACCES),
    ("socket", [2, 3, 1], EACCES),
    ("socket", [16, 3, 0], errno.EAFNOSUPPORT),
    ("sendto", [-1, BAD, 0, FAST_OPEN, 0, 0], errno.EOPNOTSUPP),
    ("sendto", [-1, BAD, 0, FAST_OPEN | 0x40, BAD, 16], errno.EOPNOTSUPP),
    ("sendmsg", [-1, BAD, FAST_OPEN], errno.EOPNOTSUPP),
    ("sendmmsg", [-1, BAD, 1, FAST_OPEN], errno.EOPNOTSUPP),
    ("setpriority", [1, NOBODY, 0], EPERM),
    ("setpriority", [2, NOBODY, 0], EPERM),
    ("getpriority", [2, 0], EPERM),
    ("ioprio_set", [2, NOBODY, 0], EPERM),
    ("ioprio_set", [3, NOBODY, 0], EPERM),
    ("msgget", [0, 0o1600], ENOSYS),
    ("semget", [0, 1, 0o1600], ENOSYS),
    ("mq_open", [BAD, 0, 0, 0], ENOSYS),
    ("mq_notify", [-1, 0], ENOSYS),
    ("ioctl", [-1, 0x8912, BAD], errno.ENOTTY),
    ("ioctl", [-1, 0x8927, BAD], errno.ENOTTY),
    ("fcntl", [0, 8, 0], EPERM),
    ("fcntl", [0, 10, 0], EPERM),
    ("fcntl", [0, 15, BAD], EPERM),
    ("pidfd_open", [NOBODY, 0], ENOSYS),
    ("pidfd_send_signal", [-1, 0, 0, 0], ENOSYS),
]
PRESENT = [case for case in CASES if case[0] in NR]


@cache
def made(how: str) -> list[int]:
    return answers(how, json.dumps([(name, arguments) for name, arguments, _ in PRESENT]))


@pytest.mark.parametrize("at", range(len(PRESENT)), ids=[f"{case[0]}-{n}" for n, case in enumerate(PRESENT)])
def test_a_call_is_refused_without_namespaces_and_only_there(at: int) -> None:
    wanted = PRESENT[at][2]
    assert made("tier C")[at] == wanted
    assert made("filtered")[at] != wanted, "the test would pass without what is laid over"


def test_each_refusing_group_has_a_call_tried_here() -> None:
    tried = {name for name, _, _ in CASES}
    for group in bare_calls.groups(scoped=False, copies=True):
        if any(name in NR for name in group.calls.split()) and not _only_traps(group):
            assert tried & set(group.calls.split()), group.name


def _only_traps(group: object) -> bool:
    trapping = ("new processes", "clone", "listening", "watching names", "processes by number", "signals")
    return getattr(group, "name", "") in trapping


def test_what_only_the_broker_can_tell_is_trapped() -> None:
    trapped = seccomp.trapped(bare_calls.groups(scoped=False, copies=True))
    wanted = {"listen", "inotify_add_watch", "kill", "tgkill", "setpriority", "sched_setaffinity", "setpgid"}
    assert wanted <= trapped
    scoped = seccomp.trapped(bare_calls.groups(scoped=True, copies=True))
    assert "kill" not in scoped
    assert "socket" not in scoped
    assert "socket" in seccomp.trapped(bare_calls.groups(scoped=True, copies=False))


def test_without_a_broker_there_are_no_socket_files() -> None:
    cases = json.dumps([("socket", [1, 1, 0]), ("socket", [1, 5, 0]), ("socket", [2, 1, 0])])
    assert answers("tier B-", cases) == [EACCES, EACCES, 0]
    assert answers("filtered", cases) == [0, 0, 0]
