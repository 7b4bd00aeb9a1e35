"""connect and bind on an address in the kernel's own form (struct sockaddr as bytes); connect(2), bind(2)."""

from __future__ import annotations

import ctypes

from mcpwrap.kernel.libc import syscall
from mcpwrap.kernel.numbers import NR

AF_UNSPEC = 0
AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
AF_NETLINK = 16
_SOL_SOCKET, _SO_ERROR = 1, 4
# The same on every Linux; the `socket` module costs 4 ms before the server's start.


def connect(fd: int, address: bytes) -> None:
    """Connect the socket `fd`; blocks if the socket does and its peer's queue is full."""
    syscall(NR["connect"], fd, address, len(address))


def error(fd: int) -> int:
    """Return and clear the pending error of the socket `fd` (0: none); SO_ERROR of socket(7)."""
    value, size = ctypes.c_int(), ctypes.c_uint32(4)
    syscall(NR["getsockopt"], fd, _SOL_SOCKET, _SO_ERROR, ctypes.byref(value), ctypes.byref(size))
    return value.value


def bind(fd: int, address: bytes) -> None:
    """Name the socket `fd`."""
    syscall(NR["bind"], fd, address, len(address))
