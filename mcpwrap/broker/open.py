"""open, openat, creat: decided on the object itself, opened by the broker, handed over by ADDFD.

The order is the point: an O_PATH descriptor first, which touches nothing; then the decision on its
real path; then the reopening of that descriptor with the caller's flags, truncation included. A new
file is made by name in its checked parent with O_EXCL and O_NOFOLLOW, or it is looked up again.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from mcpwrap.broker import procfs, resolvconf
from mcpwrap.broker.resolve import MAX_LINKS, UNLINKING, Entry, Found, failure
from mcpwrap.broker.session import OWN_GROUND
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session

CREATE_RETRIES = 16
"""Rounds of "absent, so create" against "there is one, so open": the host may change names meanwhile."""

_LOOKUP_ONLY = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SET_ID = stat.S_ISUID | stat.S_ISGID


def open_at(
    session: Session, notification: int, caller: Caller, dirfd: int, path: bytes, flags: int, mode: int
) -> None:
    """Answer one open. Raises OSError with what the caller shall see; every refusal is recorded."""
    if flags & os.O_PATH:
        # The flags are in registers and stay so: whatever path the kernel reads, nothing is opened, and
        # every use of the descriptor (openat, a reopening, exec) is decided anew.
        return session.listener.proceed(notification)
    if flags & os.O_TMPFILE == os.O_TMPFILE:
        raise failure(errno.EOPNOTSUPP)  # has no name to decide on; every program has another way
    for _ in range(CREATE_RETRIES):
        try:
            found = session.resolver.find(
                caller, dirfd, path, follow=not flags & (os.O_NOFOLLOW | _exclusive(flags))
            )
        except FileNotFoundError:
            found = None
        if _need(flags) is Need.READ and resolvconf.is_meant(session, path, found):
            if found is not None:
                found.close()
            return _give(session, notification, resolvconf.opened(), flags)
        if found is not None:
            try:
                if _need(flags) is Need.WRITE:
                    session.require_as_written(caller, dirfd, path, found)
                return _existing(session, notification, caller, found, path, flags)
            finally:
                found.close()
        if not flags & os.O_CREAT:
            need = _need(flags)
            raise session.absent(caller, dirfd, path, need.value, need, creating=False)
        fd = _create(session, caller, dirfd, path, flags, mode)
        if fd is not None:
            return _give(session, notification, fd, flags)
    raise failure(errno.EAGAIN)


def _existing(
    session: Session, notification: int, caller: Caller, found: Found, path: bytes, flags: int
) -> None:
    kind = stat.S_IFMT(found.stat.st_mode)
    if flags & os.O_CREAT and flags & os.O_EXCL:
        raise failure(errno.EEXIST)
    if flags & os.O_DIRECTORY and kind != stat.S_IFDIR:
        raise failure(errno.ENOTDIR)
    if kind == stat.S_IFLNK:
        raise failure(errno.ELOOP)
    if kind == stat.S_IFDIR and not _reads(flags):
        raise failure(errno.EISDIR)
    if kind == stat.S_IFSOCK:
        raise failure(errno.ENXIO)
    _permit(session, caller, found, path, flags, kind)
    again = flags & ~_LOOKUP_ONLY
    if kind == stat.S_IFIFO and not flags & os.O_NONBLOCK:

        def wait() -> None:
            fd = found.reopen(again)
            session.verdicts.refresh()  # the call that asked may be over by now
            _permit(session, caller, found, path, flags, kind)
            _give(session, notification, fd, flags)

        return session.park(wait)
    if (
        session.inner is not None
        and _need(flags) is Need.WRITE
        and found.stat.st_dev == session.resolver.proc_device
    ):
        enter = session.inner.map_opener(caller, found, again)
        if enter is not None:
            return session.park(lambda: _give(session, notification, enter(), flags))
    fd = found.reopen(again)
    if not session.verdicts.unchanged():
        # The relay has published since: by the narrower of the two grants.
        session.verdicts.refresh()
        try:
            _permit(session, caller, found, path, flags, kind)
        except OSError:
            os.close(fd)
            raise
    return _give(session, notification, fd, flags)


def _permit(session: Session, caller: Caller, found: Found, path: bytes, flags: int, kind: int) -> None:
    need = _need(flags)
    device = found.stat.st_dev
    if not found.path.startswith("/"):
        if kind == stat.S_IFIFO:
            return  # a pipe the caller holds already, named by its descriptor
        raise session.refuse(caller, "open", need, found.path, Decision(False, "no-path"))
    if device == session.resolver.memory_device:
        return  # a memory file somebody in the tree made, named by its descriptor: it exists only there
    if device == session.resolver.proc_device:
        helper = session.is_helper(found.path.removeprefix("/proc/").split("/")[0])
        own, writable = caller.inner_ids()[0], procfs.WRITABLE if session.inner is None else procfs.FURNISHED
        decision = (
            procfs.REFUSED if helper else procfs.decide(found.path, need, own, session.terrain, writable)
        )
        if not decision.allowed:
            quiet = session.verdicts.effective.decide(need, found.path).quiet
            raise session.refuse(caller, need.value, need, found.path, decision._replace(quiet=quiet))
        return
    if kind == stat.S_IFDIR and session.terrain.is_name_only(device):
        return  # a directory of the fresh root: holds nothing but the names of what is granted
    regular = kind != stat.S_IFDIR  # what is no directory counts as a file: it is read, not listed
    decision = session.verdicts.effective.decide(need, found.path, identity=found.identity, regular=regular)
    if not (decision.allowed and decision.routine) or decision.rule in OWN_GROUND:
        session.require(caller, need.value, need, found, written=os.fsdecode(path), regular=regular)


def _create(session: Session, caller: Caller, dirfd: int, path: bytes, flags: int, mode: int) -> int | None:
    """Make the file and return its descriptor; None if something has that name by now."""
    if path.endswith(b"/"):
        raise failure(errno.EISDIR)
    entry = _creation_entry(session, caller, dirfd, path)
    try:
        if entry.stat is not None:
            return None
        session.require(caller, "create", Need.WRITE, entry, written=os.fsdecode(path))
        mode &= 0o7777 & ~_SET_ID & ~caller.umask()
        flags = flags & ~os.O_TRUNC | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(entry.name, flags, mode, dir_fd=entry.parent)
        except FileExistsError:
            return None
        session.verdicts.created(entry.path, directory=False)
        return fd
    finally:
        entry.close()


def _creation_entry(session: Session, caller: Caller, dirfd: int, path: bytes) -> Entry:
    """Return the name to create: the last one of `path`, or where a dangling link there points to."""
    for _ in range(MAX_LINKS):
        try:
            entry = session.resolver.entry(caller, dirfd, path, UNLINKING)
        except FileNotFoundError:
            raise session.absent(caller, dirfd, path, "create", Need.WRITE, creating=True) from None
        if entry.stat is None or not stat.S_ISLNK(entry.stat.st_mode):
            return entry
        target = os.readlink(entry.name, dir_fd=entry.parent)
        directory = os.fsencode(entry.path).rpartition(b"/")[0]
        entry.close()
        path = target if target.startswith(b"/") else directory + b"/" + target
    raise failure(errno.ELOOP)


def _give(session: Session, notification: int, fd: int, flags: int) -> None:
    try:
        session.listener.give(notification, fd, cloexec=bool(flags & os.O_CLOEXEC))
    finally:
        os.close(fd)


def _reads(flags: int) -> bool:
    return flags & os.O_ACCMODE == os.O_RDONLY and not flags & (os.O_TRUNC | os.O_CREAT)


def _need(flags: int) -> Need:
    return Need.READ if flags & os.O_ACCMODE == os.O_RDONLY and not flags & os.O_TRUNC else Need.WRITE


def _exclusive(flags: int) -> int:
    return flags & os.O_CREAT and flags & os.O_EXCL
