"""The loopback interface of this network namespace; netdevice(7)."""

from __future__ import annotations

import fcntl
import os
import struct

from mcpwrap.kernel.libc import syscall
from mcpwrap.kernel.numbers import NR

_AF_INET = 2
_SOCK_DGRAM_CLOEXEC = 0o2000002
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_INTERFACE = struct.Struct("16sh22x")
"""struct ifreq: the name, then a union of 24 bytes whose first two are the flags."""


def bring_loopback_up() -> None:
    """Set IFF_UP on `lo`. Needs CAP_NET_ADMIN in the user namespace that owns this network namespace."""
    # A bare descriptor: importing `socket` costs 4 ms before the server's start.
    fd = syscall(NR["socket"], _AF_INET, _SOCK_DGRAM_CLOEXEC, 0)
    try:
        answer = fcntl.ioctl(fd, _SIOCGIFFLAGS, _INTERFACE.pack(b"lo", 0))
        flags = _INTERFACE.unpack(answer)[1]
        fcntl.ioctl(fd, _SIOCSIFFLAGS, _INTERFACE.pack(b"lo", flags | _IFF_UP))
    finally:
        os.close(fd)
