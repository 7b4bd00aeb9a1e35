"""Every call that changes names, modes, owners, times or attributes: decided on real paths, done here.

Each call has two ends at most: an *object* (by path or by descriptor) or a *name* in a directory.
Both are held by descriptors before they are decided on, and the act uses those descriptors. The
descriptor forms (fchmod, fsetxattr, ...) are here because a descriptor opened for reading is enough
for them.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import TYPE_CHECKING

from mcpwrap.broker.links import require_target, require_unshared
from mcpwrap.broker.request import (
    AT_EMPTY_PATH,
    AT_FDCWD,
    AT_REMOVEDIR,
    AT_SYMLINK_FOLLOW,
    AT_SYMLINK_NOFOLLOW,
    Caller,
    as_int,
)
from mcpwrap.broker.resolve import MAKING, REMOVING, UNLINKING, Entry, Found, Nameless, failure
from mcpwrap.kernel import files
from mcpwrap.operation import Need
from mcpwrap.policy.decide import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.session import Session

XATTR_NAME_MAX = 255
XATTR_SIZE_MAX = 65_536
"""Limits of include/uapi/linux/limits.h."""

_SET_ID = stat.S_ISUID | stat.S_ISGID
_CREATABLE = (0, stat.S_IFREG, stat.S_IFIFO)
_TIMES = struct.Struct("=qqqq")


def _entry(
    session: Session, caller: Caller, dirfd: int, address: int, act: str, nameless: Nameless = MAKING
) -> Entry:
    path, making = caller.string(address), nameless is MAKING
    try:
        entry = session.resolver.entry(caller, dirfd, path, nameless)
    except FileNotFoundError:
        raise session.absent(caller, dirfd, path, act, Need.WRITE, creating=making) from None
    if making and act != "mkdir" and path.endswith(b"/") and entry.stat is None:
        entry.close()
        raise failure(errno.ENOENT)
    return entry


def find_object(session: Session, caller: Caller, dirfd: int, address: int, flags: int, act: str) -> Found:
    """Return the object of a path (or of `dirfd` itself, for an empty or null one)."""
    path = caller.string(address) if address else b""
    if not path and (flags & AT_EMPTY_PATH or not address):
        return Found(caller.directory(dirfd) if dirfd == AT_FDCWD else caller.descriptor(dirfd))
    try:
        return session.resolver.find(caller, dirfd, path, follow=not flags & AT_SYMLINK_NOFOLLOW)
    except FileNotFoundError:
        raise session.absent(caller, dirfd, path, act, Need.WRITE, creating=False) from None


def _change(session: Session, caller: Caller, target: Found, act: str, do: Callable[[int], None]) -> int:
    """Decide on `target`, then `do(fd)`; pipes and sockets have no name to protect."""
    try:
        if target.path.startswith("/"):
            session.require(caller, act, Need.WRITE, target, regular=stat.S_ISREG(target.stat.st_mode))
        do(target.fd)
        return 0
    finally:
        target.close()


# Names


def make_directory(session: Session, caller: Caller, dirfd: int, path: int, mode: int) -> int:
    """mkdir, mkdirat."""
    entry = _entry(session, caller, dirfd, path, "mkdir")
    try:
        if entry.stat is not None:
            raise failure(errno.EEXIST)
        session.require(caller, "mkdir", Need.WRITE, entry, regular=False)
        os.mkdir(entry.name, mode & 0o1777 & ~caller.umask(), dir_fd=entry.parent)
        session.verdicts.created(entry.path, directory=True)
        return 0
    finally:
        entry.close()


def make_node(session: Session, caller: Caller, dirfd: int, path: int, mode: int) -> int:
    """mknod, mknodat: regular files and FIFOs; devices and sockets are refused with EPERM."""
    kind = stat.S_IFMT(mode)
    if kind not in _CREATABLE:
        raise failure(errno.EPERM)
    entry = _entry(session, caller, dirfd, path, "create")
    try:
        if entry.stat is not None:
            raise failure(errno.EEXIST)
        session.require(caller, "create", Need.WRITE, entry)
        os.mknod(entry.name, kind | (mode & 0o777 & ~caller.umask()), dir_fd=entry.parent)
        return 0
    finally:
        entry.close()


def make_symlink(session: Session, caller: Caller, target: int, dirfd: int, path: int) -> int:
    """symlink, symlinkat: what it leads to must be readable by the grant in force."""
    text = caller.string(target)
    if not text:
        raise failure(errno.ENOENT)
    entry = _entry(session, caller, dirfd, path, "symlink")
    try:
        if entry.stat is not None:
            raise failure(errno.EEXIST)
        # It may stand for a file and for a directory.
        session.require(caller, "symlink", Need.WRITE, entry)
        decision = session.require(caller, "symlink", Need.WRITE, entry, regular=False)
        require_unshared(session, caller, "symlink", entry.path, errno.EPERM)
        # One on the host's ground is the host's to follow: it leads to the user's files, not to private ones.
        directory = entry.path.rpartition("/")[0] or "/"
        require_target(session, caller, "symlink", directory, text, host=decision.rule not in OWN)
        os.symlink(text, entry.name, dir_fd=entry.parent)
        return 0
    finally:
        entry.close()


def make_link(session: Session, caller: Caller, ends: tuple[int, int, int, int], flags: int) -> int:
    """link, linkat: write is needed at both ends, since either name can change the one file."""
    old_dirfd, old, new_dirfd, new = ends
    source = find_object(
        session, caller, old_dirfd, old, 0 if flags & AT_SYMLINK_FOLLOW else AT_SYMLINK_NOFOLLOW, "link"
    )
    try:
        if source.stat.st_nlink == 0 or not source.path.startswith("/"):
            raise failure(errno.ENOENT)
        if not stat.S_ISREG(source.stat.st_mode):
            raise failure(errno.EPERM)
        entry = _entry(session, caller, new_dirfd, new, "link")
        try:
            if entry.stat is not None:
                raise failure(errno.EEXIST)
            session.require(caller, "link", Need.WRITE, source)
            session.require(caller, "link", Need.WRITE, entry)
            for path in (source.path, entry.path):
                require_unshared(session, caller, "link", path, errno.EXDEV)
            session.terrain.require_one_ground(source.path, entry.path)
            files.link(session.host_proc, source.fd, entry.parent, entry.name)
            return 0
        finally:
            entry.close()
    finally:
        source.close()


def remove(session: Session, caller: Caller, dirfd: int, path: int, flags: int) -> int:
    """unlink, rmdir, unlinkat."""
    directory = bool(flags & AT_REMOVEDIR)
    act = "rmdir" if directory else "unlink"
    entry = _entry(session, caller, dirfd, path, act, REMOVING if directory else UNLINKING)
    try:
        if entry.stat is None:
            raise session.absent(caller, dirfd, caller.string(path), act, Need.WRITE, creating=False)
        session.require(caller, act, Need.WRITE, entry, regular=stat.S_ISREG(entry.stat.st_mode))
        session.terrain.require_loose(entry.path)
        if directory:
            os.rmdir(entry.name, dir_fd=entry.parent)
        else:
            os.unlink(entry.name, dir_fd=entry.parent)
        session.verdicts.removed(entry.path)
        return 0
    finally:
        entry.close()


# Objects


def change_mode(session: Session, caller: Caller, target: Found, mode: int) -> int:
    """chmod and kin; set-id bits are dropped."""
    return _change(session, caller, target, "chmod", lambda fd: os.chmod(str(fd), mode & 0o7777 & ~_SET_ID))


def change_owner(session: Session, caller: Caller, target: Found, uid: int, gid: int) -> int:
    """chown and kin."""
    return _change(session, caller, target, "chown", lambda fd: os.chown(str(fd), as_int(uid), as_int(gid)))


def change_times(
    session: Session, caller: Caller, target: Found, times: tuple[int, int, int, int] | None
) -> int:
    """utimensat and kin."""
    return _change(session, caller, target, "utimes", lambda fd: files.utimens(session.host_proc, fd, times))


def set_attribute(session: Session, caller: Caller, target: Found, args: tuple[int, ...]) -> int:
    """setxattr and kin; `args` are name, value, size, flags as the call has them after its target."""
    name, value, size, flags = args
    try:
        attribute = caller.string(name)
        if size > XATTR_SIZE_MAX or len(attribute) > XATTR_NAME_MAX:
            raise failure(errno.E2BIG if size > XATTR_SIZE_MAX else errno.ERANGE)
        data = caller.memory(value, size)
    except OSError:
        target.close()
        raise
    return _change(
        session,
        caller,
        target,
        "setxattr",
        lambda fd: os.setxattr(str(fd), attribute, data, as_int(flags)),
    )


def remove_attribute(session: Session, caller: Caller, target: Found, name: int) -> int:
    """removexattr and kin."""
    try:
        attribute = caller.string(name)
    except OSError:
        target.close()
        raise
    return _change(session, caller, target, "removexattr", lambda fd: os.removexattr(str(fd), attribute))


def truncate(session: Session, caller: Caller, path: int, length: int) -> int:
    """truncate."""
    target = find_object(session, caller, AT_FDCWD, path, 0, "write")
    if not stat.S_ISREG(target.stat.st_mode):
        target.close()
        raise failure(errno.EISDIR if stat.S_ISDIR(target.stat.st_mode) else errno.EINVAL)
    return _change(session, caller, target, "write", lambda fd: files.truncate(session.host_proc, fd, length))


def timespecs(caller: Caller, address: int) -> tuple[int, int, int, int] | None:
    """Return two struct timespec of the caller; None (now) for a null pointer."""
    if not address:
        return None
    first, first_ns, second, second_ns = _TIMES.unpack(caller.memory(address, _TIMES.size))
    return first, first_ns, second, second_ns


def timevals(caller: Caller, address: int) -> tuple[int, int, int, int] | None:
    """Return two struct timeval of the caller as timespecs; None (now) for a null pointer."""
    times = timespecs(caller, address)
    if times is None:
        return None
    if not (0 <= times[1] < 1_000_000 and 0 <= times[3] < 1_000_000):
        raise failure(errno.EINVAL)
    return times[0], times[1] * 1000, times[2], times[3] * 1000


def utimbuf(caller: Caller, address: int) -> tuple[int, int, int, int] | None:
    """Return a struct utimbuf of the caller as timespecs; None (now) for a null pointer."""
    if not address:
        return None
    access, modification = struct.unpack("=qq", caller.memory(address, 16))
    return access, 0, modification, 0
