"""Sockets where the network is the host's: what may listen, what may be named, and who makes them.

A socket on the host's loopback, or by an abstract name, may be anybody's. So without a rule of the grant
none is connected to or named; streams by a path in the server's own temporary place are its own.
"""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from mcpwrap.broker.resolve import failure
from mcpwrap.broker.unix import path_of
from mcpwrap.kernel import sockets
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session

MAX_HELD = 256
"""Sockets kept that have not been connected or listened with yet; the oldest goes first."""

_NO_LISTENING = Decision(False, "no-listen")
Identity = tuple[int, int]


class Held:
    """Sockets the broker made for the server, kept until they are connected or listened with.

    Where no descriptor can be copied out of another process (Docker's default filter), the broker makes every
    socket itself and gives the server a copy: the same open file, so nothing of it is lost. After a connect or
    listen its own copy is closed, for the other end must see the server's close.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[Identity, int] = OrderedDict()

    def make(self, session: Session, notification: int, family: int, kind: int, protocol: int) -> None:
        """Answer one socket(2) that the filter let through."""
        fd = sockets.new(family, kind, protocol)
        session.listener.give(notification, fd, cloexec=bool(kind & os.O_CLOEXEC))
        status = os.fstat(fd)
        self._held[status.st_dev, status.st_ino] = fd
        if len(self._held) > MAX_HELD:
            os.close(self._held.popitem(last=False)[1])

    def copy(self, caller: Caller, fd: int) -> int:
        """Return a copy of the caller's socket `fd`. Raises OSError EOPNOTSUPP if it is not kept (any more)."""
        held = caller.descriptor(fd)
        try:
            status = os.fstat(held)
        finally:
            os.close(held)
        kept = self._held.get((status.st_dev, status.st_ino))
        if kept is None:
            raise failure(errno.EOPNOTSUPP)
        return os.dup(kept)

    def let_go(self, own: int) -> None:
        """Close the copy that is kept of the socket `own`, if one is."""
        status = os.fstat(own)
        kept = self._held.pop((status.st_dev, status.st_ino), None)
        if kept is not None:
            os.close(kept)


def listen(session: Session, caller: Caller, fd: int, backlog: int) -> int:
    """listen(2): of a socket with a path, which only the broker gives; every other would be at a place of the host.

    That it has a name is not enough: a connection that was given up leaves its port, one that failed may leave
    an abstract name of the kernel's choice (unix(7), autobind).
    """
    own = session.copy(caller, fd)
    try:
        if path_of(sockets.own_name(own)) is None:
            raise session.refuse(caller, "listen", Need.CONNECT, "a port of the host", _NO_LISTENING)
        if not session.listener.alive(session.current):
            raise failure(errno.ESRCH)
        sockets.listen(own, backlog)
        session.held.let_go(own)
    finally:
        os.close(own)
    return 0
