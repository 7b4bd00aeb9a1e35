"""Sockets by their descriptors, addresses in the kernel's own form (struct sockaddr as bytes); socket(7).

The `socket` module costs 4 ms before the server's start, and knows no descriptors that are not its own.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence

from mcpwrap.kernel.libc import syscall
from mcpwrap.kernel.numbers import NR

AF_UNSPEC = 0
AF_UNIX = 1
AF_INET = 2
AF_INET6 = 10
AF_NETLINK = 16

STREAM = 1
DATAGRAM = 2
SEQPACKET = 5
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC

SOL_SOCKET = 1
SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_LINGER, SO_DOMAIN = 2, 3, 4, 13, 39
IPPROTO_TCP, TCP_INFO = 6, 11
IPPROTO_IPV6, IPV6_FREEBIND = 41, 78
TCP_CLOSE = 7
"""State of a TCP socket that is neither connected nor connecting nor listening (net/tcp_states.h)."""

MSG_CTRUNC = 0x8
MSG_DONTWAIT = 0x40
MSG_NOSIGNAL = 0x4000
MSG_FASTOPEN = 0x20000000
_MSG_CMSG_CLOEXEC = 0x40000000
_SCM_RIGHTS = 1
_SHUT_RDWR = 2
_CONTROL = struct.Struct("=QiiiI")
"""struct cmsghdr with one descriptor and its padding."""
_CONTROL_HEADER = struct.Struct("=Qii")
_ADDRESS_BYTES = 128
"""sizeof(struct sockaddr_storage)."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct msghdr."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("name_size", ctypes.c_uint32),
        ("vectors", ctypes.c_void_p),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_char_p),
        ("control_size", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


def make(family: int, kind: int) -> int:
    """Return a new socket, close-on-exec, that never blocks."""
    return syscall(NR["socket"], family, kind | _NONBLOCK_CLOEXEC, 0)


def new(family: int, kind: int, protocol: int) -> int:
    """Return a socket as a program asked for it, except that it is close-on-exec."""
    return syscall(NR["socket"], family, kind | os.O_CLOEXEC, protocol)


def pair(kind: int) -> tuple[int, int]:
    """Return two connected AF_UNIX sockets, close-on-exec, that never block."""
    fds = (ctypes.c_int * 2)()
    syscall(NR["socketpair"], AF_UNIX, kind | _NONBLOCK_CLOEXEC, 0, fds)
    return fds[0], fds[1]


def connect(fd: int, address: bytes) -> None:
    """Connect the socket `fd`; blocks if the socket does and its peer's queue is full."""
    syscall(NR["connect"], fd, address, len(address))


def bind(fd: int, address: bytes) -> None:
    """Name the socket `fd`."""
    syscall(NR["bind"], fd, address, len(address))


def listen(fd: int, backlog: int) -> None:
    """Let connections to the socket `fd` be accepted."""
    syscall(NR["listen"], fd, backlog)


def accept(fd: int) -> int:
    """Return the next connection made to `fd`, close-on-exec, never blocking. BlockingIOError: there is none."""
    return syscall(NR["accept4"], fd, None, None, _NONBLOCK_CLOEXEC)


def own_name(fd: int) -> bytes:
    """Return the address `fd` itself has."""
    return _name("getsockname", fd)


def peer_name(fd: int) -> bytes:
    """Return the address `fd` is connected to. Raises OSError ENOTCONN."""
    return _name("getpeername", fd)


def _name(call: str, fd: int) -> bytes:
    buffer, size = ctypes.create_string_buffer(_ADDRESS_BYTES), ctypes.c_uint32(_ADDRESS_BYTES)
    syscall(NR[call], fd, buffer, ctypes.byref(size))
    return buffer.raw[: size.value]


def option(fd: int, level: int, name: int) -> int:
    """Return an option of `fd` whose value is one int."""
    value, size = ctypes.c_int(), ctypes.c_uint32(4)
    syscall(NR["getsockopt"], fd, level, name, ctypes.byref(value), ctypes.byref(size))
    return value.value


def set_option(fd: int, level: int, name: int, value: int) -> None:
    """Set an option of `fd` whose value is one int."""
    set_option_bytes(fd, level, name, struct.pack("=i", value))


def set_option_bytes(fd: int, level: int, name: int, value: bytes) -> None:
    """Set any other option of `fd`."""
    syscall(NR["setsockopt"], fd, level, name, value, len(value))


def error(fd: int) -> int:
    """Return and clear the pending error of the socket `fd` (0: none); SO_ERROR of socket(7)."""
    return option(fd, SOL_SOCKET, SO_ERROR)


def tcp_state(fd: int) -> int:
    """Return the state of the TCP socket `fd`: the first byte of struct tcp_info."""
    state, size = ctypes.c_uint8(), ctypes.c_uint32(1)
    syscall(NR["getsockopt"], fd, IPPROTO_TCP, TCP_INFO, ctypes.byref(state), ctypes.byref(size))
    return state.value


def shutdown(fd: int) -> None:
    """End the connection of `fd` in both directions, for every process that holds it."""
    syscall(NR["shutdown"], fd, _SHUT_RDWR)


def reset(fd: int) -> None:
    """Close the TCP connection `fd` so that its other end sees it reset, not ended."""
    try:
        set_option_bytes(fd, SOL_SOCKET, SO_LINGER, struct.pack("=ii", 1, 0))
    finally:
        os.close(fd)


def send_to(fd: int, data: bytes, flags: int, address: bytes) -> int:
    """Send `data` to `address`; returns the number of bytes sent. Blocks only if `fd` does and `flags` let it."""
    return syscall(NR["sendto"], fd, data, len(data), flags, address, len(address))


def receive_from(fd: int, size: int) -> tuple[bytes, bytes]:
    """Return one datagram, cut to `size`, and its sender's address. BlockingIOError: there is none."""
    buffer = ctypes.create_string_buffer(size)
    name, length = ctypes.create_string_buffer(_ADDRESS_BYTES), ctypes.c_uint32(_ADDRESS_BYTES)
    got = syscall(NR["recvfrom"], fd, buffer, size, MSG_DONTWAIT, name, ctypes.byref(length))
    return buffer.raw[:got], name.raw[: length.value]


def send_with(fd: int, data: bytes, passed: int | None = None) -> None:
    """Send one message over the connected AF_UNIX socket `fd`, with a copy of the descriptor `passed`.

    Raises BlockingIOError if there is no room, BrokenPipeError (and never a signal) if nobody is there.
    """
    vector = _Vector(data, len(data))
    message = _Message(vectors=ctypes.addressof(vector), vector_count=1)
    if passed is not None:
        # The length is that of header and descriptor, without the padding.
        message.control = _CONTROL.pack(_CONTROL_HEADER.size + 4, SOL_SOCKET, _SCM_RIGHTS, passed, 0)
        message.control_size = _CONTROL.size
    syscall(NR["sendmsg"], fd, ctypes.byref(message), MSG_NOSIGNAL | MSG_DONTWAIT)


def receive_with(fd: int, size: int) -> tuple[bytes, Sequence[int]]:
    """Return one message, cut to `size`, and the descriptors (close-on-exec) that came with it, at most one.

    Empty bytes: the other end is closed. Raises BlockingIOError if there is none.
    """
    buffer, control = ctypes.create_string_buffer(size), ctypes.create_string_buffer(_CONTROL.size)
    vector = _Vector(ctypes.cast(buffer, ctypes.c_char_p), size)
    message = _Message(vectors=ctypes.addressof(vector), vector_count=1)
    message.control = ctypes.cast(control, ctypes.c_char_p)
    message.control_size = _CONTROL.size
    got = syscall(NR["recvmsg"], fd, ctypes.byref(message), MSG_DONTWAIT | _MSG_CMSG_CLOEXEC)
    fds: tuple[int, ...] = ()
    if message.control_size >= _CONTROL_HEADER.size:
        length, level, kind = _CONTROL_HEADER.unpack_from(control.raw)
        if (level, kind) == (SOL_SOCKET, _SCM_RIGHTS):
            count = (length - _CONTROL_HEADER.size) // 4
            fds = struct.unpack_from(f"={count}i", control.raw, _CONTROL_HEADER.size)
    return buffer.raw[:got], fds
