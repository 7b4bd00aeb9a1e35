"""Internet addresses as the kernel is given them: struct sockaddr in bytes, and their spelling; ip(7), ipv6(7)."""

from __future__ import annotations

import errno
import struct
from typing import NamedTuple

from mcpwrap.broker.resolve import failure
from mcpwrap.kernel.sockets import AF_INET, AF_INET6

_MAPPED = bytes(10) + b"\xff\xff"
_IN = struct.Struct("=H2s4s8x")
_IN6 = struct.Struct("=H2s4x16sI")
LOOPBACK = bytes((127, 0, 0, 1))
LOOPBACK6 = bytes(15) + b"\x01"


class Internet(NamedTuple):
    """A host (4 or 16 bytes; an IPv4-mapped one is its 4) and a port."""

    host: bytes
    port: int

    @property
    def loopback(self) -> bool:
        """127.0.0.0/8, ::1, and the unspecified addresses, which the kernel takes for loopback."""
        host = self.host
        if len(host) == 4:
            return host[0] == 127 or not any(host)
        return not any(host[:15]) and host[15] <= 1

    @property
    def unspecified(self) -> bool:
        """0.0.0.0 or ::, which is every address of the machine where a socket is named."""
        return not any(self.host)

    @property
    def text(self) -> str:
        """The host in its canonical spelling (RFC 5952); an unspecified one as the loopback it leads to."""
        host = self.host
        if self.unspecified:
            return "127.0.0.1" if len(host) == 4 else "::1"
        return ".".join(map(str, host)) if len(host) == 4 else _spell6(host)

    def packed(self, family: int) -> bytes:
        """Return the struct sockaddr of a socket of `family`: in IPv6's, IPv4 is mapped."""
        port = struct.pack(">H", self.port)
        if family == AF_INET:
            if len(self.host) != 4:
                raise failure(errno.EAFNOSUPPORT)
            return _IN.pack(AF_INET, port, self.host)
        return _IN6.pack(AF_INET6, port, self.host if len(self.host) == 16 else _MAPPED + self.host, 0)

    @property
    def family(self) -> int:
        """The family a socket of this very host has."""
        return AF_INET if len(self.host) == 4 else AF_INET6


def family_of(raw: bytes) -> int:
    """Return the address family of a struct sockaddr."""
    family: int = struct.unpack_from("=H", raw)[0]
    return family


def internet(raw: bytes, family: int | None = None) -> Internet:
    """Return the host and port of a struct sockaddr that is to be read as of `family`, if not its own.

    Raises OSError as the kernel would: EINVAL if it is too short, EAFNOSUPPORT for other families.
    """
    family = family_of(raw) if family is None else family
    if family not in (AF_INET, AF_INET6):
        raise failure(errno.EAFNOSUPPORT)
    if len(raw) < (16 if family == AF_INET else 24):
        raise failure(errno.EINVAL)
    port: int = struct.unpack_from(">H", raw, 2)[0]
    return Internet(raw[4:8] if family == AF_INET else raw[8:24].removeprefix(_MAPPED), port)


def _spell6(host: bytes) -> str:
    words = struct.unpack(">8H", host)
    begin = length = 0
    for start in range(8):
        end = start
        while end < 8 and not words[end]:
            end += 1
        if end - start > length:
            begin, length = start, end - start
    text = [f"{word:x}" for word in words]
    if length < 2:
        return ":".join(text)
    return ":".join(text[:begin]) + "::" + ":".join(text[begin + length :])
