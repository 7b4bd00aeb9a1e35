"""connect, bind, sendto: decided on a copy of the address, done by the broker with that copy.

The network namespace is empty, so an internet address can only lead to a socket of the sandbox
itself; path sockets are files and would lead out of it. So a path socket may be connected to only
where it was made inside: on the file systems that exist only in this sandbox.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
from typing import TYPE_CHECKING

from mcpwrap.broker.request import AT_FDCWD, Caller
from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import sockets
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.session import Session

MAX_ADDRESS = 128
"""sizeof(struct sockaddr_storage)."""

AT_ONCE_MS = 5
"""A connect inside the sandbox is done within microseconds unless the other side's queue is full."""

NAME_SERVICE = 53
"""Nobody can listen on it inside (a privileged port): who asks it wants a name of the outside."""

_OUTSIDE = Decision(False, "no-network")
_HOST_SOCKET = Decision(False, "host-socket")
_UNIX = struct.pack("=H", sockets.AF_UNIX)
_MAPPED = bytes(10) + b"\xff\xff"


def connect(session: Session, notification: int, caller: Caller, fd: int, address: int, size: int) -> None:
    """Answer one connect: inside the sandbox it is made, anything else is refused and recorded."""
    raw = _address(caller, address, size)
    _permit(session, caller, raw, "connect")
    own = caller.duplicate(fd)
    target = -1
    try:
        path = _unix_path(raw)
        if path is not None:
            target = _private_socket(session, caller, path)
            raw = _UNIX + str(target).encode() + b"\0"
        if not session.listener.alive(notification):
            return
        blocking = os.get_blocking(own)
        try:
            _connect_at_once(own, raw, blocking=blocking)
        except BlockingIOError:
            if not blocking:
                raise
            session.park(lambda: _connect_blocking(session, notification, own, raw))
            return
        except ConnectionRefusedError:
            if path is None:
                _tell_nobody_listens(session, caller, raw)
            raise
        session.listener.answer(notification, 0)
    finally:
        os.close(own)
        if target >= 0:
            os.close(target)


def _connect_at_once(own: int, raw: bytes, *, blocking: bool) -> None:
    """Connect, and wait no longer than `AT_ONCE_MS`. Raises BlockingIOError if that is not enough."""
    if blocking:
        os.set_blocking(own, False)
    try:
        sockets.connect(own, raw)
    except BlockingIOError as waiting:
        poll = select.poll()
        poll.register(own, select.POLLOUT)
        if waiting.errno != errno.EINPROGRESS or not poll.poll(AT_ONCE_MS):
            raise
        error = sockets.error(own)
        if error:
            raise failure(error) from None
    finally:
        if blocking:
            os.set_blocking(own, True)


def _connect_blocking(session: Session, notification: int, own: int, raw: bytes) -> None:
    sockets.connect(own, raw)
    session.listener.answer(notification, 0)


def _tell_nobody_listens(session: Session, caller: Caller, raw: bytes) -> None:
    """Record that the loopback of the sandbox is not the host's: what was meant may well run there."""
    family = struct.unpack_from("=H", raw)[0]
    if family in (sockets.AF_INET, sockets.AF_INET6):
        where = _spell(*_internet(raw, family))
        session.refuse(caller, "connect", Need.CONNECT, where, _OUTSIDE, error=errno.ECONNREFUSED)


def _private_socket(session: Session, caller: Caller, path: bytes) -> int:
    """Return an O_PATH descriptor of a path socket that was made inside."""
    found = session.resolver.find(caller, AT_FDCWD, path)
    if not stat.S_ISSOCK(found.stat.st_mode) or not session.resolver.is_private(found.stat):
        found.close()
        raise failure(errno.ECONNREFUSED)
    return found.fd


def send(session: Session, caller: Caller, address: int, size: int) -> None:
    """Decide one sendto with an address; returns if the kernel shall make it.

    Left to the kernel: datagrams of AF_UNIX cannot exist in the sandbox, and whatever a changed
    internet address may be, the empty network has no way to it.
    """
    _permit(session, caller, _address(caller, address, size), "send")


def bind(session: Session, caller: Caller, fd: int, address: int, size: int) -> int:
    """Answer one bind: a path socket makes a file, and may do so in the sandbox's own places only."""
    raw = _address(caller, address, size)
    path = _unix_path(raw)
    if path is not None:
        entry = session.resolver.entry(caller, AT_FDCWD, path)
        try:
            if entry.stat is not None:
                raise failure(errno.EADDRINUSE)
            if not session.resolver.is_private(os.fstat(entry.parent)):
                raise session.refuse(caller, "bind", Need.WRITE, entry.path, _HOST_SOCKET)
            session.require(caller, "bind", Need.WRITE, entry, regular=False)
            if not path.startswith(b"/"):
                raw = _UNIX + os.fsencode(entry.path) + b"\0"
                if len(raw) > 110:
                    raise failure(errno.ENAMETOOLONG)
        finally:
            entry.close()
    own = caller.duplicate(fd)
    try:
        if not session.listener.alive(session.current):
            raise failure(errno.ESRCH)
        os.umask(caller.umask())
        sockets.bind(own, raw)
    finally:
        os.umask(0)
        os.close(own)
    return 0


def _permit(session: Session, caller: Caller, raw: bytes, act: str) -> None:
    family = struct.unpack_from("=H", raw)[0]
    if family in (sockets.AF_UNSPEC, sockets.AF_NETLINK):
        return  # to nobody; to the kernel, whose routing of the empty network may be read
    if family == sockets.AF_UNIX:
        path = _unix_path(raw)
        if path is not None:
            _permit_path(session, caller, path)
        return
    host, port = _internet(raw, family)
    if _loopback(host) and port != NAME_SERVICE:
        return
    raise session.refuse(caller, act, Need.CONNECT, _spell(host, port), _OUTSIDE, error=errno.ECONNREFUSED)


def _permit_path(session: Session, caller: Caller, path: bytes) -> None:
    try:
        found = session.resolver.find(caller, AT_FDCWD, path)
    except FileNotFoundError:
        raise session.absent(caller, AT_FDCWD, path, "connect", Need.CONNECT, creating=False) from None
    try:
        if not session.resolver.is_private(found.stat):
            raise session.refuse(caller, "connect", Need.CONNECT, found.path, _HOST_SOCKET)
    finally:
        found.close()


def _address(caller: Caller, address: int, size: int) -> bytes:
    if not 2 <= size <= MAX_ADDRESS:
        raise failure(errno.EINVAL)
    return caller.memory(address, size)


def _unix_path(raw: bytes) -> bytes | None:
    """Return the path of a path socket's address; None for any other address."""
    if struct.unpack_from("=H", raw)[0] != sockets.AF_UNIX or len(raw) == 2 or raw[2] == 0:
        return None
    return raw[2:].split(b"\0", 1)[0]


def _internet(raw: bytes, family: int) -> tuple[bytes, int]:
    """Return the address (4 or 16 bytes; an IPv4-mapped one as its 4) and the port."""
    if family == sockets.AF_INET and len(raw) >= 8:
        return raw[4:8], struct.unpack_from(">H", raw, 2)[0]
    if family == sockets.AF_INET6 and len(raw) >= 24:
        host = raw[8:24]
        return host.removeprefix(_MAPPED), struct.unpack_from(">H", raw, 2)[0]
    raise failure(errno.EAFNOSUPPORT)


def _loopback(host: bytes) -> bool:
    """127.0.0.0/8, ::1, and the unspecified addresses, which the kernel takes for loopback."""
    if len(host) == 4:
        return host[0] == 127 or not any(host)
    return not any(host[:15]) and host[15] <= 1


def _spell(host: bytes, port: int) -> str:
    if len(host) == 4:
        return ".".join(map(str, host)) + f":{port}"
    return (
        "["
        + ":".join(f"{high:02x}{low:02x}" for high, low in zip(host[::2], host[1::2], strict=True))
        + f"]:{port}"
    )
