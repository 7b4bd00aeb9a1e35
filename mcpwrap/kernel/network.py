"""The loopback interface of this network namespace, its routes and its settings; netdevice(7), rtnetlink(7)."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from typing import Final

from mcpwrap.kernel.libc import syscall
from mcpwrap.kernel.numbers import NR

_AF_INET, _AF_INET6, _AF_NETLINK = 2, 10, 16
_SOCK_DGRAM_CLOEXEC = 0o2000002
_SOCK_RAW_CLOEXEC = 0o2000003
_SIOCGIFFLAGS = 0x8913
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 0x1
_INTERFACE = struct.Struct("16sh22x")
"""struct ifreq: the name, then a union of 24 bytes whose first two are the flags."""

_NETLINK_ROUTE = 0
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence, port."""
_ROUTE = struct.Struct("=8BI")
"""struct rtmsg: family, length of destination, of source, tos, table, protocol, scope, type; flags."""
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = struct.Struct("=i")
_NLMSG_ERROR = 2
_RTM_NEWROUTE = 24
_REQUEST_ACK_CREATE_REPLACE = 0x1 | 0x4 | 0x400 | 0x100
_RT_TABLE_LOCAL, _RTPROT_STATIC, _RT_SCOPE_HOST, _RTN_LOCAL = 255, 4, 254, 2
_RTA_OIF, _RTA_PREFSRC = 4, 7
_LOOPBACK_INDEX = 1
"""`lo` is the first interface of every network namespace."""

_NO_IPV6: Final = {
    errno.EAFNOSUPPORT,
    errno.EOPNOTSUPP,
    errno.EACCES,
    errno.EPERM,
    errno.ENODEV,
    errno.EINVAL,
}
"""What a kernel without IPv6, or with IPv6 disabled, answers to a route of it."""

_SETTINGS: Final = {
    # A data segment in a SYN makes a connection where nobody is asked: sendmsg with MSG_FASTOPEN.
    "ipv4/tcp_fastopen": "0",
    # What stands for a host outside must listen on that host's ports, and holds no capability then.
    "ipv4/ip_unprivileged_port_start": "0",
}


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


def make_every_address_local() -> bool:
    """Let every address be one of this namespace's own ("AnyIP"): whatever is connected to ends here.

    Whether IPv6 has it too: not on a kernel without, or where it is disabled. Needs CAP_NET_ADMIN, and
    `lo` up. Raises OSError.
    """
    _add_local_route(_AF_INET, bytes((127, 0, 0, 1)))
    try:
        _add_local_route(_AF_INET6, b"")
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise
        return False
    return True


def set_for_brokered_connections() -> None:
    """Set what this network namespace must have before connections in it are made by a broker.

    Needs CAP_NET_ADMIN and a /proc whose net settings are those of this process. Raises OSError.
    """
    for name, value in _SETTINGS.items():
        fd = os.open(f"/proc/sys/net/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)


def _add_local_route(family: int, source: bytes) -> None:
    """Add `local default dev lo table local`, with a preferred source address if one is given.

    Without one the source of a connection is its destination, which then could be connected to itself.
    """
    body = _ROUTE.pack(family, 0, 0, 0, _RT_TABLE_LOCAL, _RTPROT_STATIC, _RT_SCOPE_HOST, _RTN_LOCAL, 0)
    body += _attribute(_RTA_OIF, struct.pack("=I", _LOOPBACK_INDEX))
    if source:
        body += _attribute(_RTA_PREFSRC, source)
    message = _HEADER.pack(_HEADER.size + len(body), _RTM_NEWROUTE, _REQUEST_ACK_CREATE_REPLACE, 1, 0) + body
    fd = syscall(NR["socket"], _AF_NETLINK, _SOCK_RAW_CLOEXEC, _NETLINK_ROUTE)
    try:
        os.write(fd, message)
        answer = os.read(fd, 4096)
    finally:
        os.close(fd)
    kind = _HEADER.unpack_from(answer)[1]
    error = -_ERROR.unpack_from(answer, _HEADER.size)[0] if kind == _NLMSG_ERROR else errno.EPROTO
    if error:
        raise OSError(error, os.strerror(error))


def _attribute(kind: int, value: bytes) -> bytes:
    """Return one attribute; all values here are 4 bytes long, so none needs padding."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value
