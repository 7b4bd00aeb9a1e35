"""The first bytes of a TLS connection, looked at where they are: nothing is taken from the socket.

A server that was granted one name may send its bytes to that name's address and ask, inside TLS, for another
host of the same address (a CDN has millions). So the name in its hello must be the one it looked up.
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
    """What one connection begins with. `problem` is not empty once it is not what it has to be."""

    seconds = SECONDS

    def __init__(self, name: str, made: socket.socket) -> None:
        self.problem = ""
        self._name = name
        self._socket = made

    def look(self) -> bool:
        """Return whether the hello is there and names the host. Raises `OSError` if the socket broke."""
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
        if found == "not-tls":
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
