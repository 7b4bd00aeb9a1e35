"""Calls that name processes, where numbers are the host's: those of the server's tree pass.

All arguments that are decided on are in registers, so that what the kernel does after the answer is what
was decided. That a process of the tree ends, and its number is given to a foreign one, between the answer
and the act is left: microseconds, in which the whole space of numbers would have to be gone through.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from mcpwrap.broker.request import AT_FDCWD, Caller, as_int
from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import files
from mcpwrap.kernel.numbers import NR

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.session import Session

Args = tuple[int, ...]


def _number(session: Session, number: int) -> None:
    """Raise OSError ESRCH unless `number` is zero, or a process or thread of the tree."""
    if number and not (number > 0 and session.terrain.in_tree(str(number))):
        raise failure(errno.ESRCH)


def _signal(session: Session, target: int) -> None:
    """Decide on a target as kill(2) takes it."""
    if target == -1:
        raise failure(errno.EPERM)  # everybody: of the user, not of the tree
    if target >= 0:
        return _number(session, target)
    # A group lies within one session, and the tree is in sessions of its own: one member is as good as all.
    if not session.terrain.in_group(-target):
        raise failure(errno.ESRCH)
    return None


def _thread(session: Session, group: int, thread: int) -> None:
    _number(session, group)
    _number(session, thread)
    if group <= 0 or thread <= 0:
        raise failure(errno.EINVAL)


_PROCESSES: dict[str, Callable[[Session, Args], None]] = {
    "kill": lambda s, a: _signal(s, as_int(a[0])),
    "tkill": lambda s, a: _thread(s, as_int(a[0]), as_int(a[0])),
    "tgkill": lambda s, a: _thread(s, as_int(a[0]), as_int(a[1])),
    "rt_sigqueueinfo": lambda s, a: _thread(s, as_int(a[0]), as_int(a[0])),
    "rt_tgsigqueueinfo": lambda s, a: _thread(s, as_int(a[0]), as_int(a[1])),
    "setpgid": lambda s, a: _number(s, as_int(a[0])),
    "getpriority": lambda s, a: _number(s, as_int(a[1])),
    "setpriority": lambda s, a: _number(s, as_int(a[1])),
    "ioprio_get": lambda s, a: _number(s, as_int(a[1])),
    "ioprio_set": lambda s, a: _number(s, as_int(a[1])),
} | {
    name: lambda s, a: _number(s, as_int(a[0]))
    for name in (
        *("getpgid", "getsid", "sched_getaffinity", "sched_setaffinity", "sched_getparam", "sched_setparam"),
        *(
            "sched_getscheduler",
            "sched_setscheduler",
            "sched_rr_get_interval",
            "sched_getattr",
            "sched_setattr",
        ),
    )
}

PROCESSES = {NR[name]: row for name, row in _PROCESSES.items() if name in NR}
"""Decided, then left to the kernel."""


def watch(session: Session, caller: Caller, fd: int, path: int, mask: int) -> int:
    """inotify_add_watch: what tells names is read, so it needs what reading a directory does."""
    follow = not mask & files.IN_DONT_FOLLOW
    written = caller.string(path)
    found = session.resolver.find(caller, AT_FDCWD, written, follow=follow)
    try:
        session.require_readable(caller, found, written)
        own = caller.duplicate(fd)
        try:
            return files.add_watch(session.host_proc, own, found.fd, mask & 0xFFFFFFFF)
        finally:
            os.close(own)
    finally:
        found.close()
