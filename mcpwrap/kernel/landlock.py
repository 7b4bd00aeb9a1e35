"""Landlock rulesets, and what each ABI version of it knows.

Sources: Documentation/userspace-api/landlock.rst, include/uapi/linux/landlock.h at Linux 6.18.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from typing import NamedTuple, Self

from mcpwrap.kernel.libc import Path, syscall
from mcpwrap.kernel.numbers import NR

FS_EXECUTE = 1 << 0
FS_WRITE_FILE = 1 << 1
FS_READ_FILE = 1 << 2
FS_READ_DIR = 1 << 3
FS_REMOVE_DIR = 1 << 4
FS_REMOVE_FILE = 1 << 5
FS_MAKE_CHAR = 1 << 6
FS_MAKE_DIR = 1 << 7
FS_MAKE_REG = 1 << 8
FS_MAKE_SOCK = 1 << 9
FS_MAKE_FIFO = 1 << 10
FS_MAKE_BLOCK = 1 << 11
FS_MAKE_SYM = 1 << 12
FS_REFER = 1 << 13
FS_TRUNCATE = 1 << 14
FS_IOCTL_DEV = 1 << 15

FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV
"""The rights a rule on something other than a directory may name; any other one is EINVAL."""

NET_BIND_TCP = 1 << 0
NET_CONNECT_TCP = 1 << 1

SCOPE_ABSTRACT_UNIX_SOCKET = 1 << 0
SCOPE_SIGNAL = 1 << 1

NEWEST_TESTED_ABI = 7
"""A newer kernel is used as this version: what it adds was not reviewed."""

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1
_PATH_BENEATH = struct.Struct("=Qi")
"""struct landlock_path_beneath_attr, packed: allowed_access, parent_fd."""


class Rights(NamedTuple):
    """What a ruleset handles: what it does not allow by a rule, it denies."""

    fs: int = 0
    net: int = 0
    scopes: int = 0


ABI: tuple[Rights, ...] = (
    Rights(),
    Rights(fs=(FS_REFER - 1)),
    Rights(fs=(FS_TRUNCATE - 1)),
    Rights(fs=(FS_IOCTL_DEV - 1)),
    Rights(fs=(FS_IOCTL_DEV - 1), net=NET_BIND_TCP | NET_CONNECT_TCP),
    Rights(fs=(FS_IOCTL_DEV << 1) - 1, net=NET_BIND_TCP | NET_CONNECT_TCP),
    Rights(
        (FS_IOCTL_DEV << 1) - 1, NET_BIND_TCP | NET_CONNECT_TCP, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
    ),
    Rights(
        (FS_IOCTL_DEV << 1) - 1, NET_BIND_TCP | NET_CONNECT_TCP, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL
    ),
)
"""What each ABI version can handle: none, 1 (5.13), 2 (5.19: REFER), 3 (6.2: TRUNCATE), 4 (6.7: TCP),
5 (6.10: IOCTL_DEV), 6 (6.12: scopes), 7 (6.15: only flags for its log)."""


def abi() -> int:
    """Return the ABI version to use, at most `NEWEST_TESTED_ABI`; 0 where there is no Landlock."""
    try:
        found = syscall(NR["landlock_create_ruleset"], None, 0, _CREATE_RULESET_VERSION)
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EOPNOTSUPP):
            return 0
        raise
    return min(found, NEWEST_TESTED_ABI)


def downgrade(rights: Rights, abi: int) -> Rights:
    """Return what of `rights` version `abi` can handle."""
    known = ABI[min(abi, NEWEST_TESTED_ABI)]
    return Rights(rights.fs & known.fs, rights.net & known.net, rights.scopes & known.scopes)


class Ruleset:
    """A ruleset in the making; a context manager that closes its descriptor.

    `fs`, `net` and `scopes` are the wanted rights, cut down to `abi`; `handled` says what is left.

    Raises OSError: ENOMSG if nothing is left.
    """

    def __init__(self, fs: int = 0, scopes: int = 0, *, net: int = 0, abi: int) -> None:
        self.handled = downgrade(Rights(fs, net, scopes), abi)
        attributes = struct.pack("=QQQ", *self.handled)
        size = 8 if abi < 4 else 16 if abi < 6 else 24
        self._fd = syscall(NR["landlock_create_ruleset"], attributes, size, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor; a restriction that was made stays."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def allow(self, place: int | Path, rights: int) -> None:
        """Allow `rights` on `place` (a descriptor, O_PATH will do, or a path) and all below it.

        Rights that are not handled, and rights only directories have on something else, are left out.

        Raises OSError: of opening the path; EBADFD if the descriptor is of no file system object.
        """
        fd = place if isinstance(place, int) else os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            allowed = rights & self.handled.fs
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                allowed &= FS_OF_FILES
            if allowed:
                rule = _PATH_BENEATH.pack(allowed, fd)
                syscall(NR["landlock_add_rule"], self._fd, _RULE_PATH_BENEATH, rule, 0)
        finally:
            if fd is not place:
                os.close(fd)

    def restrict_self(self) -> None:
        """Put this thread, and all it starts from now on, into a new domain with these rules.

        Needs no_new_privs, or CAP_SYS_ADMIN. Raises OSError: E2BIG beyond 16 nested domains.
        """
        syscall(NR["landlock_restrict_self"], self._fd, 0)
        self.close()
