"""What a TLS ClientHello says before anything is encrypted: bytes in, the server's name out (RFC 8446, 6066).

Pure and incremental: given the first bytes of a connection it names the host, asks for more, or says
that this is not TLS. Records may cut the message anywhere (RFC 8446, 5.1).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

MAX_HELLO: Final = 16 * 1024
"""Bytes looked at: the most one record may hold. A hello with post-quantum key shares has 1,800."""

_HANDSHAKE, _CLIENT_HELLO, _MAJOR = 22, 1, 3
_SERVER_NAME, _HOST_NAME, _ENCRYPTED = 0, 0, 0xFE0D
_NAME: Final = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789-_.")


class Hello(NamedTuple):
    """`name`: lower-case, without a trailing dot; empty if none is given. `encrypted`: an encrypted hello is
    inside (or pretended to be: browsers do), and `name` is the outer one."""

    name: str
    encrypted: bool


Reading: TypeAlias = "Hello | Literal['more', 'not-tls']"


class _Malformed(Exception):
    pass


class _Bytes:
    """Reads big-endian fields off bytes that must be complete."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise _Malformed
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Bytes:
        """Read a length of `size` bytes, and so many bytes."""
        return _Bytes(self.take(self.number(size)))


def read(data: bytes) -> Reading:
    """Return what the first bytes of a connection are. Total: anything strange is "not-tls"."""
    message = bytearray()
    at = 0
    while True:
        header = data[at : at + 5]
        # Refused at its first wrong byte, so that no other protocol waits for an answer it will not get.
        if header[:1] not in (b"", bytes([_HANDSHAKE])) or header[1:2] not in (b"", bytes([_MAJOR])):
            return "not-tls"
        if len(header) < 5:
            return "more" if at + 5 <= MAX_HELLO else "not-tls"
        size = int.from_bytes(header[3:5], "big")
        if not 0 < size <= MAX_HELLO:
            return "not-tls"
        message += data[at + 5 : at + 5 + size]
        if message and message[0] != _CLIENT_HELLO:
            return "not-tls"
        if len(message) >= 4:
            length = int.from_bytes(message[1:4], "big")
            if length + 4 > MAX_HELLO:
                return "not-tls"
            if len(message) >= 4 + length:
                try:
                    return _hello(_Bytes(bytes(message[4 : 4 + length])))
                except _Malformed:
                    return "not-tls"
        at += 5 + size
        if at > len(data):
            return "more" if len(data) < MAX_HELLO else "not-tls"


def _hello(body: _Bytes) -> Hello:
    body.take(2 + 32)  # legacy_version, random
    body.vector(1)  # legacy_session_id
    body.vector(2)  # cipher_suites
    body.vector(1)  # legacy_compression_methods
    if not body.left:
        return Hello("", False)  # TLS 1.2 without extensions
    extensions = body.vector(2)
    if body.left:
        raise _Malformed
    name, encrypted = "", False
    seen: set[int] = set()
    while extensions.left:
        kind = extensions.number(2)
        content = extensions.vector(2)
        if kind in seen:  # Forbidden; and whoever reads the other one would read another name.
            raise _Malformed
        seen.add(kind)
        if kind == _SERVER_NAME:
            name = _server_name(content)
        elif kind == _ENCRYPTED:
            encrypted = True
    return Hello(name, encrypted)


def _server_name(content: _Bytes) -> str:
    names = content.vector(2)
    if content.left or names.number(1) != _HOST_NAME:
        raise _Malformed
    name = bytes(names.take(names.number(2))).lower()
    # Exactly one: with two, the host might serve the one that was not looked at.
    if names.left or not name or not _NAME.issuperset(name):
        raise _Malformed
    return name.decode("ascii").removesuffix(".")
