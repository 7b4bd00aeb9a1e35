"""The server's socket and one of the relay's, joined: by a listener that exists for this one connection.

Whoever else came by is sent away: the relay is given the other end of the very socket that was decided on.
"""

from __future__ import annotations

import errno
import os
import select
from typing import TYPE_CHECKING, Final

from mcpwrap.broker.address import LOOPBACK, Internet, internet
from mcpwrap.broker.place import BACKLOG
from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import sockets

if TYPE_CHECKING:
    from mcpwrap.broker.network import Network
    from mcpwrap.broker.session import Session
    from mcpwrap.policy.hosts import Peer

AT_ONCE_MS: Final = 5
"""A connect inside the sandbox is done within microseconds unless the other side's queue is full."""

BRIDGE_MS: Final = 250
"""A connection to the broker's own listener is made within microseconds, unless the machine is very busy or
the server has set its socket up to drop packets: it then holds up its own calls so long."""

VOID: Final = Internet(LOOPBACK, 0)
"""An address that leads nowhere, for connects whose address is not looked at."""
_DISSOLVE: Final = bytes(16)
"""AF_UNSPEC."""


class Socket:
    """A copy of the server's socket, and what it is."""

    __slots__ = ("blocking", "family", "fd", "protocol")

    def __init__(self, fd: int) -> None:
        """Raises OSError EAFNOSUPPORT for what is no internet socket."""
        self.fd = fd
        self.family, self.protocol = _kind(fd)
        self.blocking = os.get_blocking(fd)


def _kind(fd: int) -> tuple[int, str]:
    """Return family and protocol of an internet socket; OSError EAFNOSUPPORT for what is none."""
    family = sockets.option(fd, sockets.SOL_SOCKET, sockets.SO_DOMAIN)
    kind = sockets.option(fd, sockets.SOL_SOCKET, sockets.SO_TYPE)
    if family not in (sockets.AF_INET, sockets.AF_INET6) or kind not in (sockets.STREAM, sockets.DATAGRAM):
        raise failure(errno.EAFNOSUPPORT)
    return family, "tcp" if kind == sockets.STREAM else "udp"


def connect_without_waiting(socket: Socket, target: Internet) -> None:
    """Let the kernel connect without waiting. Raises OSError, BlockingIOError where waiting is needed."""
    if socket.blocking:
        os.set_blocking(socket.fd, False)
    try:
        sockets.connect(socket.fd, target.packed(socket.family))
    finally:
        if socket.blocking:
            os.set_blocking(socket.fd, True)


def _dissolve(socket: Socket) -> None:
    """Undo an attempt, so that the next connect of this socket is a first one."""
    try:
        sockets.connect(socket.fd, _DISSOLVE)
    except OSError:
        pass


def connect_at_once(socket: Socket, target: Internet) -> None:
    """Connect, and wait no longer than `AT_ONCE_MS`. Raises BlockingIOError if that is not enough."""
    try:
        connect_without_waiting(socket, target)
    except BlockingIOError as waiting:
        if waiting.errno != errno.EINPROGRESS or not _ready(socket.fd, select.POLLOUT, AT_ONCE_MS):
            raise
        error = sockets.error(socket.fd)
        if error:
            _dissolve(socket)
            raise failure(error) from None
        _complete(socket)


def _complete(socket: Socket) -> None:
    """Let the kernel note that a connection has been made: the next connect is then EISCONN, as it should be."""
    try:
        connect_without_waiting(socket, VOID)
    except OSError:
        pass  # ended already: whoever reads or writes will see it


def _ready(fd: int, interest: int, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(fd, interest)
    return bool(poll.poll(milliseconds))


def bridge(session: Session, network: Network, socket: Socket, target: Internet, peer: Peer) -> None:
    """Connect the server's socket to one that the relay is given. Raises OSError; ChannelFull."""
    channel = network.channel
    channel.require_room()
    listener, where = session.place.listener(target)
    try:
        if target.loopback and where != target and session.place.own:
            # Somebody inside holds that port. If it is listened on, that is who is meant.
            try:
                connect_at_once(socket, target)
                return
            except ConnectionRefusedError:
                pass
        connected = _connected(listener, socket, where)
    finally:
        os.close(listener)
    try:
        windows = session.verdicts.effective.windows
        channel.send(
            connected, kind="stream", name=peer.name, address=peer.address, port=peer.port, windows=windows
        )
    except OSError:
        sockets.reset(connected)
        _dissolve(socket)
        raise
    os.close(connected)


def _connected(listener: int, socket: Socket, where: Internet) -> int:
    """Connect the server's socket to `listener`, and return the other end of this very connection."""
    try:
        connect_without_waiting(socket, where)
    except BlockingIOError as waiting:
        if waiting.errno != errno.EINPROGRESS:
            raise
    if _ready(listener, select.POLLIN, BRIDGE_MS):
        for _ in range(BACKLOG + 1):
            try:
                fd = sockets.accept(listener)
            except BlockingIOError:
                break
            if _is_other_end(fd, socket.fd):
                _complete(socket)
                return fd
            sockets.reset(fd)
    error = sockets.error(socket.fd) or errno.ETIMEDOUT
    _dissolve(socket)
    raise failure(error)


def _is_other_end(accepted: int, own: int) -> bool:
    """Whether these two sockets are connected to each other."""
    try:
        return (internet(sockets.peer_name(accepted)), internet(sockets.own_name(accepted))) == (
            internet(sockets.own_name(own)),
            internet(sockets.peer_name(own)),
        )
    except OSError:
        return False  # not connected any more
