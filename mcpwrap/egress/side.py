"""One of the two sockets of a connection, and what it is watched for."""

from __future__ import annotations

import select
import socket
import struct
from typing import TYPE_CHECKING, Final

from mcpwrap.egress.given import RANK

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.egress.given import Pumps

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT
ENDING: Final = select.POLLRDHUP
"""The other end sends no more; reported however many bytes lie before that."""

KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 120), (socket.TCP_KEEPINTVL, 30), (socket.TCP_KEEPCNT, 5))
"""Seconds of silence, then between probes, and how many: a NAT forgets a connection after some minutes."""

_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: close(2) sends RST, so that nobody takes an abort for the end of the data."""


class Side:
    """`late`: its end was seen while parked, with bytes before it: both wait."""

    __slots__ = ("_callback", "_hung", "_pumps", "_watched", "fd", "late", "socket", "wanted")

    def __init__(self, made: socket.socket, pumps: Pumps, callback: Callable[[int], None]) -> None:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A byte sent as urgent (MSG_OOB) is one like the others: out of line it would be lost.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        self.socket = made
        self.fd = made.fileno()
        self.wanted = 0
        self.late = False
        self._pumps = pumps
        self._callback = callback
        self._watched = False
        self._hung = False

    def watch(self, interest: int) -> None:
        """Watch for `interest`; of 0 still for errors, unless it has hung up already."""
        self.wanted = interest
        if self._watched:
            self._pumps.want(self.fd, interest)
        elif interest or not self._hung:
            self._hung = False
            self._watched = True
            self._pumps.add(self.fd, interest, self._callback, rank=RANK)

    def hang(self) -> None:
        """It hung up and nothing is wanted of it: poll(2) would report that again and again."""
        self._hung = True
        self._forget()

    def error(self) -> int:
        """Return the errno it broke with, 0 if it did not."""
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def keep_alive(self) -> None:
        """Have a peer that vanished found out."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            self.socket.setsockopt(socket.IPPROTO_TCP, option, value)

    def close(self, *, reset: bool) -> None:
        """Close it, with RST if `reset`."""
        self._forget()
        if reset:
            abort(self.socket)
        else:
            self.socket.close()

    def _forget(self) -> None:
        if self._watched:
            self._pumps.drop(self.fd)
            self._watched = False
        self.wanted = 0


def abort(made: socket.socket) -> None:
    """Close a socket with RST."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    made.close()
