"""Path sockets: files of the sandbox's own, or the host's where a `unix` rule says so; unix(7).

A socket of the host is found by the host's names, whatever of them is in the server's view: so one that a
restarted daemon has made anew is reached, and one in a directory that may only be read is not.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.broker.request import AT_FDCWD
from mcpwrap.broker.resolve import MAKING, failure
from mcpwrap.kernel import sockets
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session

PATH_BYTES: Final = 108
"""Of the path in struct sockaddr_un."""

NAME_CACHES: Final = ("/run/nscd/socket", "/var/run/nscd/socket")
"""Asked by every C library before each look-up, and given up at once if it is not there: no news to anybody."""

_HOST_SOCKET: Final = Decision(False, "host-socket")
_ABSTRACT: Final = Decision(False, "abstract-socket")
_FAMILY: Final = struct.pack("=H", sockets.AF_UNIX)


class Target(NamedTuple):
    """An O_PATH descriptor of a path socket; if it is the host's, also its real path and the one asked for."""

    fd: int
    real: str = ""
    written: str = ""


def path_of(raw: bytes) -> bytes | None:
    """Return the path of a path socket's address; None for unnamed and abstract ones, and other families."""
    if struct.unpack_from("=H", raw)[0] != sockets.AF_UNIX or len(raw) == 2 or raw[2] == 0:
        return None
    return raw[2:].split(b"\0", 1)[0]


def connect(session: Session, notification: int, caller: Caller, own: int, raw: bytes) -> bool:
    """Connect the server's AF_UNIX socket `own`; whether its call is still to be answered, with 0.

    An abstract address is one of the server's own where that is a network namespace of its own; the host's are
    refused, for the broker would reach whomever it names.
    Raises OSError with the errno it is to be refused with.
    """
    path = path_of(raw)
    if path is None:
        if session.terrain.bare and struct.unpack_from("=H", raw)[0] == sockets.AF_UNIX:
            raise abstract(session, caller, raw, "connect")
        return _connect(session, notification, own, raw)
    target = find(session, caller, path, "connect")
    try:
        # The broker's working directory is that of its descriptors: there this one's name is its number.
        return _connect(session, notification, own, _FAMILY + str(target.fd).encode() + b"\0", target)
    finally:
        os.close(target.fd)


def find(session: Session, caller: Caller, path: bytes, act: str) -> Target:
    """Return the socket `path` leads to, if it may be connected to; else OSError. Its descriptor is the caller's."""
    try:
        found = session.resolver.find(caller, AT_FDCWD, path)
    except (FileNotFoundError, NotADirectoryError):
        found = None
    if found is not None:
        if session.terrain.is_private(found.fd):
            if not stat.S_ISSOCK(found.stat.st_mode):
                found.close()
                raise failure(errno.ECONNREFUSED)
            return Target(found.fd)
        found.close()
    written = os.path.normpath(session.absolute(caller, AT_FDCWD, path))
    if written in NAME_CACHES:
        raise failure(errno.ENOENT)
    there = session.on_host(written)
    if there < 0:
        if found is not None:
            raise session.refuse(caller, act, Need.CONNECT, found.path, _HOST_SOCKET)
        raise session.absent(caller, AT_FDCWD, path, act, Need.CONNECT, creating=False)
    try:
        real = os.readlink(str(there))
        decision = _decide(session, real, written)
        if not decision.allowed:
            raise session.refuse(caller, act, Need.CONNECT, real, decision)
        session.verdicts.record(act, Need.CONNECT, real, decision, written=written, pid=caller.pid)
        if not stat.S_ISSOCK(os.fstat(there).st_mode):
            raise failure(errno.ECONNREFUSED)
        return Target(os.dup(there), real, written)
    finally:
        os.close(there)


def _decide(session: Session, real: str, written: str) -> Decision:
    """Return what the open windows say of a socket of the host."""
    return session.verdicts.effective.socket(real, written)


def bind(session: Session, caller: Caller, path: bytes) -> bytes:
    """Return the address to give a path socket, which makes a file, in the sandbox's own places only."""
    entry = session.resolver.entry(caller, AT_FDCWD, path, MAKING)
    try:
        if entry.stat is not None:
            raise failure(errno.EADDRINUSE)
        if not session.terrain.is_private(entry.parent):
            raise session.refuse(caller, "bind", Need.WRITE, entry.path, _HOST_SOCKET)
        session.require(caller, "bind", Need.WRITE, entry, regular=False)
        # Its real path: what is written may lead the broker elsewhere (/proc/self, a root of the server's own).
        absolute = os.fsencode(entry.path) + b"\0"
        if len(absolute) > PATH_BYTES:
            raise failure(errno.ENAMETOOLONG)
        return _FAMILY + absolute
    finally:
        entry.close()


def abstract(session: Session, caller: Caller, raw: bytes, act: str) -> OSError:
    """Return the error for an abstract address of the host's, where there is no other network."""
    where = "@" + os.fsdecode(raw[3:])
    return session.refuse(caller, act, Need.CONNECT, where, _ABSTRACT, error=errno.ECONNREFUSED)


def _connect(session: Session, notification: int, own: int, raw: bytes, target: Target | None = None) -> bool:
    """Connect without waiting, or in a process beside the broker if the listener's queue is full."""
    blocking = os.get_blocking(own)
    if blocking:
        os.set_blocking(own, False)
    try:
        sockets.connect(own, raw)
        return True
    except BlockingIOError:
        if not blocking:
            raise
    finally:
        if blocking:
            os.set_blocking(own, True)

    def wait() -> None:
        sockets.connect(own, raw)
        session.verdicts.refresh()
        if target is not None and target.real and not _decide(session, target.real, target.written).allowed:
            # The window has closed while the daemon was busy.
            sockets.shutdown(own)
            raise failure(errno.ECONNREFUSED)
        session.listener.answer(notification, 0)

    session.park(wait)
    return False
