"""A tunnel through an HTTP proxy (RFC 9110, 9.3.6): what is asked, and how far the answer reaches. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from mcpwrap.operation import endpoint

MAX_HEAD: Final = 16 * 1024
"""Bytes of a proxy's answer before its empty line; curl takes 100 KiB, real ones send some hundred."""

_END: Final = b"\r\n\r\n"


class Proxy(NamedTuple):
    """`port` 0: named, and of no use; `problem` then says why. `authorization`: of its Basic header, or empty."""

    host: str
    port: int
    authorization: str = ""
    problem: str = ""

    @property
    def name(self) -> str:
        return endpoint(self.host, self.port)

    def request(self, host: str, port: int) -> bytes:
        """Return the request for a tunnel to `host`."""
        where = endpoint(host, port)
        lines = [f"CONNECT {where} HTTP/1.1", f"Host: {where}"]
        if self.authorization:
            lines.append(f"Proxy-Authorization: Basic {self.authorization}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")


def status(head: bytes) -> int:
    """Return the status code of an answer's head, 0 if it is no HTTP."""
    line = head.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(line) < 2 or not line[0].startswith(b"HTTP/1.") or len(line[1]) != 3 or not line[1].isdigit():
        return 0
    return int(line[1])


def end_of_head(head: bytes) -> int:
    """Return the length of an answer's head with its empty line, 0 if it is not all there."""
    found = head.find(_END)
    return found + len(_END) if found >= 0 else 0
