"""The first bytes of a TLS connection: looked at where they are until they are whole, then taken and judged.

A server that was granted one name may send its bytes to that name's address and ask, inside TLS, for another
host of the same address (a CDN has millions). So the name in its hello must be the one it looked up.

What lies in a socket need not stay what it is: bytes sent by sendfile(2), splice(2) or vmsplice(2) are the
sender's own pages until somebody copies them. So what is sent on is the very copy that was judged.
"""

from __future__ import annotations

import socket
from typing import Final

from mcpwrap.egress import hello

SECONDS: Final = 5.0
"""A TLS client speaks first, and at once."""

_ESTABLISHED: Final = 1
"""In `tcpi_state`; whoever connected and has not closed is in it."""


class Greeting:
    """What one connection begins with. `problem` is not empty once it is not what it has to be.

    `taken`: the hello and what came with it, once it fits; it is the holder's to send on.
    """

    seconds = SECONDS

    def __init__(self, name: str, made: socket.socket) -> None:
        self.problem = ""
        self.taken = b""
        self._name = name
        self._socket = made

    def look(self) -> bool:
        """Return whether the hello was there, named the host and has been taken. Raises `OSError`: it broke."""
        try:
            data = self._socket.recv(hello.MAX_HELLO, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        found = hello.read(data)
        if found == "more":
            if self._ended() or len(data) >= hello.MAX_HELLO:
                self.problem = "no whole TLS hello was sent"
            # What is there stays there, and must not wake the loop again.
            self._wake_at(len(data) + 1)
            return False
        self._wake_at(1)
        self.taken = self._socket.recv(len(data))
        found = hello.read(self.taken)
        if found == "more":
            self.problem = "no whole TLS hello was sent"
        elif found == "not-tls":
            self.problem = "it is not TLS"
        elif not found.name:
            self.problem = "its TLS hello names no host"
        elif found.name != self._name:
            self.problem = f"its TLS hello asks for {found.name}"
        return not self.problem

    def silence(self) -> str:
        """Return what is wrong if it took too long."""
        return "no TLS hello was sent"

    def _ended(self) -> bool:
        state: int = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return state != _ESTABLISHED

    def _wake_at(self, size: int) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
