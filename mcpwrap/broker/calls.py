"""The table of trapped calls: which arguments of each go to which handler.

Every row names its arguments as the man page does; aarch64 simply lacks the older calls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

from mcpwrap.broker import connect as sockets
from mcpwrap.broker import hostsockets, mutate
from mcpwrap.broker.ask import ask
from mcpwrap.broker.foreign import watch
from mcpwrap.broker.mutate import timespecs, timevals, utimbuf
from mcpwrap.broker.open import open_at
from mcpwrap.broker.rename import rename
from mcpwrap.broker.request import AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_NOFOLLOW, Caller, as_int
from mcpwrap.broker.resolve import Found
from mcpwrap.kernel.numbers import NR

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.session import Session

Args = tuple[int, ...]
_Row = TypeVar("_Row")
_CREAT = os.O_CREAT | os.O_WRONLY | os.O_TRUNC


def _open(s: Session, ident: int, c: Caller, dirfd: int, path: int, flags: int, mode: int) -> None:
    open_at(s, ident, c, as_int(dirfd), c.string(path), as_int(flags), mode & 0o7777)


_OPENS: dict[str, Callable[[Session, int, Caller, Args], None]] = {
    "open": lambda s, i, c, a: _open(s, i, c, AT_FDCWD, a[0], a[1], a[2]),
    "openat": lambda s, i, c, a: _open(s, i, c, a[0], a[1], a[2], a[3]),
    "creat": lambda s, i, c, a: _open(s, i, c, AT_FDCWD, a[0], _CREAT, a[1]),
}


def _at(s: Session, c: Caller, dirfd: int, path: int, flags: int, act: str) -> Found:
    return mutate.find_object(s, c, as_int(dirfd), path, as_int(flags), act)


def _fd(c: Caller, fd: int) -> Found:
    return Found(c.descriptor(as_int(fd)))


_HERE = AT_FDCWD
_SELF = AT_SYMLINK_NOFOLLOW

_VALUES: dict[str, Callable[[Session, Caller, Args], int]] = {
    "mkdir": lambda s, c, a: mutate.make_directory(s, c, _HERE, a[0], a[1]),
    "mkdirat": lambda s, c, a: mutate.make_directory(s, c, as_int(a[0]), a[1], a[2]),
    "mknod": lambda s, c, a: mutate.make_node(s, c, _HERE, a[0], a[1]),
    "mknodat": lambda s, c, a: mutate.make_node(s, c, as_int(a[0]), a[1], a[2]),
    "symlink": lambda s, c, a: mutate.make_symlink(s, c, a[0], _HERE, a[1]),
    "symlinkat": lambda s, c, a: mutate.make_symlink(s, c, a[0], as_int(a[1]), a[2]),
    "link": lambda s, c, a: mutate.make_link(s, c, (_HERE, a[0], _HERE, a[1]), 0),
    "linkat": lambda s, c, a: mutate.make_link(s, c, (as_int(a[0]), a[1], as_int(a[2]), a[3]), as_int(a[4])),
    "unlink": lambda s, c, a: mutate.remove(s, c, _HERE, a[0], 0),
    "rmdir": lambda s, c, a: mutate.remove(s, c, _HERE, a[0], AT_REMOVEDIR),
    "unlinkat": lambda s, c, a: mutate.remove(s, c, as_int(a[0]), a[1], as_int(a[2])),
    "rename": lambda s, c, a: rename(s, c, (_HERE, a[0], _HERE, a[1]), 0),
    "renameat": lambda s, c, a: rename(s, c, (as_int(a[0]), a[1], as_int(a[2]), a[3]), 0),
    "renameat2": lambda s, c, a: rename(s, c, (as_int(a[0]), a[1], as_int(a[2]), a[3]), as_int(a[4])),
    "truncate": lambda s, c, a: mutate.truncate(s, c, a[0], a[1]),
    "chmod": lambda s, c, a: mutate.change_mode(s, c, _at(s, c, _HERE, a[0], 0, "chmod"), a[1]),
    "fchmodat": lambda s, c, a: mutate.change_mode(s, c, _at(s, c, a[0], a[1], 0, "chmod"), a[2]),
    "fchmod": lambda s, c, a: mutate.change_mode(s, c, _fd(c, a[0]), a[1]),
    "chown": lambda s, c, a: mutate.change_owner(s, c, _at(s, c, _HERE, a[0], 0, "chown"), a[1], a[2]),
    "lchown": lambda s, c, a: mutate.change_owner(s, c, _at(s, c, _HERE, a[0], _SELF, "chown"), a[1], a[2]),
    "fchownat": lambda s, c, a: mutate.change_owner(s, c, _at(s, c, a[0], a[1], a[4], "chown"), a[2], a[3]),
    "fchown": lambda s, c, a: mutate.change_owner(s, c, _fd(c, a[0]), a[1], a[2]),
    "utimensat": lambda s, c, a: mutate.change_times(
        s, c, _at(s, c, a[0], a[1], a[3], "utimes"), timespecs(c, a[2])
    ),
    "utimes": lambda s, c, a: mutate.change_times(
        s, c, _at(s, c, _HERE, a[0], 0, "utimes"), timevals(c, a[1])
    ),
    "futimesat": lambda s, c, a: mutate.change_times(
        s, c, _at(s, c, a[0], a[1], 0, "utimes"), timevals(c, a[2])
    ),
    "utime": lambda s, c, a: mutate.change_times(s, c, _at(s, c, _HERE, a[0], 0, "utimes"), utimbuf(c, a[1])),
    "setxattr": lambda s, c, a: mutate.set_attribute(s, c, _at(s, c, _HERE, a[0], 0, "setxattr"), a[1:5]),
    "lsetxattr": lambda s, c, a: mutate.set_attribute(
        s, c, _at(s, c, _HERE, a[0], _SELF, "setxattr"), a[1:5]
    ),
    "fsetxattr": lambda s, c, a: mutate.set_attribute(s, c, _fd(c, a[0]), a[1:5]),
    "removexattr": lambda s, c, a: mutate.remove_attribute(
        s, c, _at(s, c, _HERE, a[0], 0, "removexattr"), a[1]
    ),
    "lremovexattr": lambda s, c, a: mutate.remove_attribute(
        s, c, _at(s, c, _HERE, a[0], _SELF, "removexattr"), a[1]
    ),
    "fremovexattr": lambda s, c, a: mutate.remove_attribute(s, c, _fd(c, a[0]), a[1]),
    "bind": lambda s, c, a: sockets.bind(s, c, as_int(a[0]), a[1], as_int(a[2])),
    "listen": lambda s, c, a: hostsockets.listen(s, c, as_int(a[0]), as_int(a[1])),
    "inotify_add_watch": lambda s, c, a: watch(s, c, as_int(a[0]), a[1], as_int(a[2])),
}


def _connect(s: Session, ident: int, c: Caller, a: Args) -> None:
    sockets.connect(s, ident, c, as_int(a[0]), a[1], as_int(a[2]))


def _sendto(s: Session, ident: int, c: Caller, a: Args) -> None:
    sockets.send(s, ident, c, as_int(a[0]), (a[1], a[2]), as_int(a[3]), (a[4], as_int(a[5])))


def _by_number(table: dict[str, _Row]) -> dict[int, _Row]:
    return {NR[name]: row for name, row in table.items() if name in NR}


OPENS = _by_number(_OPENS)
"""Answered by the handler itself, with a descriptor."""

VALUES = _by_number(_VALUES)
"""Answered with the value the handler returns."""


def _socket(s: Session, ident: int, _c: Caller, a: Args) -> None:
    s.held.make(s, ident, as_int(a[0]), as_int(a[1]), as_int(a[2]))


SOCKETS = _by_number({"connect": _connect, "sendto": _sendto, "socket": _socket})
"""Answered by the handler itself."""

EXECS: dict[int, Callable[[Caller, Args], tuple[int, bytes, int]]] = _by_number(
    {
        "execve": lambda c, a: (AT_FDCWD, c.string(a[0]), 0),
        "execveat": lambda c, a: (as_int(a[0]), c.string(a[1]), as_int(a[4])),
    }
)
"""(directory, path, flags) of an execution; decided, then left to the kernel."""

ASKS: dict[int, Callable[[Session, Caller, Args], None]] = _by_number(
    {
        "access": lambda s, c, a: ask(s, c, AT_FDCWD, a[0]),
        "faccessat": lambda s, c, a: ask(s, c, as_int(a[0]), a[1]),
        "faccessat2": lambda s, c, a: ask(s, c, as_int(a[0]), a[1]),
    }
)
"""Refused, or left to the kernel, which opens nothing for them."""

DIRECT = frozenset(
    NR[name] for name in ("arch_prctl", "set_tid_address", "fork", "vfork", "clone") if name in NR
)
"""Left to the kernel. The first two are made by every C library once after an execution: trapped so that the new
image can be verified. The others where a tree of processes is ended one by one: while nobody answers, none is born."""
