"""The first bytes of a TLS connection: taken from the socket, judged, and sent on only then.

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


class Greeting:
    """What one connection begins with. `problem` is not empty once it is not what it has to be.

    `taken`: what has come, the holder's to send on once it fits.
    """

    seconds = SECONDS

    def __init__(self, name: str, made: socket.socket) -> None:
        self.problem = ""
        self.taken = b""
        self._name = name
        self._socket = made

    def look(self) -> bool:
        """Take what has come; return whether the hello is whole and names the host. Raises `OSError`: it broke."""
        try:
            data = self._socket.recv(hello.MAX_HELLO - len(self.taken))
        except BlockingIOError:
            return False
        self.taken += data
        found = hello.read(self.taken)
        if found == "more":
            if not data or len(self.taken) >= hello.MAX_HELLO:
                self.problem = "no whole TLS hello was sent"
            return False
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
