"""What a sandbox inside the sandbox asks for (`nested_sandbox`): an empty root, the maps of a user namespace, a
filter of system calls.

A filter of its own answers before the broker does, so it could hide what a process executes: who has one
executes nothing, and who executes gets none until the new program has been seen. A root of its own changes what
names mean: who has one opens only what it names from a descriptor, and executes nothing.
"""

from __future__ import annotations

import errno
import os
from fcntl import ioctl
from typing import TYPE_CHECKING

from mcpwrap.broker.procfs import FURNISHED, WRITABLE
from mcpwrap.broker.request import AT_FDCWD, Caller
from mcpwrap.broker.resolve import Found, failure
from mcpwrap.kernel import process
from mcpwrap.kernel.numbers import NR
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from mcpwrap.broker.session import Session

MAPS = FURNISHED - WRITABLE
"""The kernel takes each map once, and of who has no capability outside only one that leads to this very user."""

MAX_FILTERED = 4_096
"""Processes remembered to have been let a filter of their own; beyond, no further one is."""

_NS_GET_PARENT = 0xB702
"""include/uapi/linux/nsfs.h"""


class Inner:
    """The state of one broker's inner sandboxes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._filtered: dict[int, bytes] = {}
        # What mcpwrap was started under, and the server's own filter.
        self._filters = _filters(Caller(os.getpid(), session.host_proc)) + 1
        self._namespace = os.stat("self/ns/user", dir_fd=session.host_proc).st_ino

    def change_root(self, caller: Caller, path: bytes) -> None:
        """Decide one chroot; returns if the kernel shall make it. Raises OSError if not.

        The kernel reads the path again; so what a name means is asked anew from now on, for every caller.
        """
        session = self._session
        found = session.resolver.find(caller, AT_FDCWD, path)
        try:
            if found.path != f"/proc/{caller.inner_ids()[0]}/fdinfo":
                raise session.refuse(caller, "chroot", Need.READ, found.path, Decision(False, "own-root"))
        finally:
            found.close()
        session.resolver.roots_differ = True

    def add_filter(self, caller: Caller, program: int, executing: Container[int]) -> None:
        """Decide one filter; returns if the kernel shall put it on. Raises OSError if not.

        `executing`: processes whose new program has not been seen yet.
        """
        if not program:
            return  # asked whether there are filters: EFAULT is the answer
        group = Caller(caller.thread_group(), caller.proc)
        if group.pid in executing:
            raise self._session.refuse(caller, "filter", Need.EXEC, "seccomp", Decision(False, "own-filter"))
        if len(self._filtered) >= MAX_FILTERED:
            self._filtered = {pid: began for pid, began in self._filtered.items() if self._lives(pid, began)}
            if len(self._filtered) >= MAX_FILTERED:
                raise failure(errno.EAGAIN)
        self._filtered[group.pid] = group.layout()[0]

    def require_plain(self, caller: Caller, group: Caller, path: str) -> None:
        """Raise OSError EACCES for an execution by who has a filter or a root of its own."""
        rule = ""
        began = self._filtered.get(group.pid)
        if (began is not None and self._lives(group.pid, began)) or _filters(caller) > self._filters:
            rule = "own-filter"
        elif self._session.resolver.has_own_root(caller):
            rule = "own-root"
        if rule:
            raise self._session.refuse(caller, "exec", Need.EXEC, path, Decision(False, rule))

    def map_opener(self, caller: Caller, found: Found, flags: int) -> Callable[[], int] | None:
        """Return what opens a map where the broker itself may not; None where it may.

        A map is written by who is in the namespace or in its parent (user_namespaces(7)). Of a namespace made
        in one made here that is neither the broker nor what the server had: the returned function enters the
        parent, for good.
        """
        if found.path.rpartition("/")[2] not in MAPS:
            return None
        own = os.open(f"{caller.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC, dir_fd=caller.proc)
        try:
            if os.fstat(own).st_ino == self._namespace:
                return None
            parent = ioctl(own, _NS_GET_PARENT)
        finally:
            os.close(own)
        if os.fstat(parent).st_ino == self._namespace:
            os.close(parent)
            return None

        def opened() -> int:
            process.setns(parent, process.CLONE_NEWUSER)
            return found.reopen(flags)

        return opened

    def _lives(self, pid: int, began: bytes) -> bool:
        try:
            return Caller(pid, self._session.host_proc).layout()[0] == began
        except OSError:
            return False


def _filters(caller: Caller) -> int:
    return int(caller.status(b"Seccomp_filters:")[0])


def _chroot(inner: Inner, caller: Caller, args: tuple[int, ...], _: Container[int]) -> None:
    inner.change_root(caller, caller.string(args[0]))


def _seccomp(inner: Inner, caller: Caller, args: tuple[int, ...], executing: Container[int]) -> None:
    inner.add_filter(caller, args[2], executing)


INNER: dict[int, Callable[[Inner, Caller, tuple[int, ...], Container[int]], None]] = {
    NR[name]: handler
    for name, handler in (("chroot", _chroot), ("seccomp", _seccomp), ("prctl", _seccomp))
    if name in NR
}
"""Decided, then left to the kernel: what they act on is in registers, but for the path of chroot."""
