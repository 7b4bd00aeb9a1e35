"""Acts on files that `os` lacks, most of them on an object that is already held by descriptor.

Where a function takes `procfs`, that is a directory descriptor (O_PATH will do) of a procfs of
this process's own pid namespace; the object is named by its magic link `self/fd/N` below it. Such
a link is no path: it leads to the very inode that was checked, whatever its name is by now. A
symlink held by an O_PATH descriptor is the object itself, it is not followed.

Sources: openat2(2), open(2), renameat2(2), link(2), proc_pid_fd(5), utimensat(2).
"""

from __future__ import annotations

import ctypes
import os
import sys

from mcpwrap.kernel.libc import LIBC, Path, encode, failure, syscall
from mcpwrap.kernel.numbers import NR

_AT_EMPTY_PATH = 0x1000

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_IN_ROOT = 0x10

RENAME_NOREPLACE = 1
RENAME_EXCHANGE = 2


class _OpenHow(ctypes.Structure):
    """struct open_how."""

    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _Times(ctypes.Structure):
    """Two struct timespec: of access, of modification."""

    _fields_ = tuple((name, ctypes.c_long) for name in ("atime", "atime_ns", "mtime", "mtime_ns"))


def openat2(dirfd: int, path: Path, flags: int, *, mode: int = 0, resolve: int = 0) -> int:
    """Open with RESOLVE_* rules on how the path may lead; close-on-exec.

    Raises OSError: EXDEV or ELOOP where a rule stopped it, EAGAIN after a race with a rename.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    return syscall(NR["openat2"], dirfd, encode(path), ctypes.byref(how), ctypes.sizeof(how), path=path)


def _reopen(procfs: int, fd: int, flags: int) -> int:
    """Open the object held by `fd` anew with `flags`; close-on-exec.

    O_NOFOLLOW must not be among them (it would refuse the magic link itself).
    """
    return os.open(f"self/fd/{fd}", flags | os.O_CLOEXEC, dir_fd=procfs)


def utimens(procfs: int, fd: int, times: tuple[int, int, int, int] | None) -> None:
    """Set the times of what `fd` holds.

    `times` is (atime s, atime ns, mtime s, mtime ns), the ns also UTIME_NOW or UTIME_OMIT (which
    `os.utime` cannot say); None is now, which needs only write access.
    """
    value = None if times is None else ctypes.byref(_Times(*times))
    syscall(NR["utimensat"], procfs, f"self/fd/{fd}".encode(), value, 0)


def truncate(procfs: int, fd: int, length: int) -> None:
    """Cut or extend the regular file that `fd` holds. Never blocks, if it is something else: EINVAL."""
    writable = _reopen(procfs, fd, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        os.ftruncate(writable, length)
    finally:
        os.close(writable)


def link(procfs: int, fd: int, new_dirfd: int, new_name: Path) -> None:
    """Give what `fd` holds (not a directory) the further name `new_name` below `new_dirfd`."""
    os.link(f"self/fd/{fd}", new_name, src_dir_fd=procfs, dst_dir_fd=new_dirfd, follow_symlinks=True)


def renameat2(old_dirfd: int, old: Path, new_dirfd: int, new: Path, flags: int = 0) -> None:
    """Rename with RENAME_* flags."""
    syscall(
        NR["renameat2"],
        old_dirfd,
        encode(old),
        new_dirfd,
        encode(new),
        flags,
        path=old,
        other=new,
    )


IN_DONT_FOLLOW = 0x02000000


def add_watch(procfs: int, inotify: int, fd: int, mask: int) -> int:
    """Watch what `fd` holds by the inotify instance `inotify`; returns the watch descriptor. inotify_add_watch(2)"""
    # There is no form with a directory: the working directory is that of this process's descriptors in any case.
    path = os.readlink("self", dir_fd=procfs)
    name = f"/proc/{path}/fd/{fd}".encode()
    return syscall(NR["inotify_add_watch"], inotify, name, mask & ~IN_DONT_FOLLOW)


_LOOKUP = _OpenHow(os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS)
_LOOKUP_LINK = _OpenHow(os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, 0, RESOLVE_NO_MAGICLINKS)


def look_up(dirfd: int, path: bytes, *, follow: bool = True) -> int:
    """Return an O_PATH descriptor (close-on-exec) of `path`, led to by no magic link.

    The broker's first act for every trapped path, so its structures are made once; `path` has no NUL.
    Raises OSError: ELOOP where a magic link stopped it.
    """
    fd: int = _look_up(_OPENAT2, dirfd, path, _LOOKUP_AT if follow else _LOOKUP_LINK_AT, _OPEN_HOW_SIZE)
    if fd == -1:
        raise failure()
    return fd


_OPENAT2 = NR.get("openat2", 0)
_OPEN_HOW_SIZE = ctypes.sizeof(_OpenHow)
_LOOKUP_AT = ctypes.addressof(_LOOKUP)
_LOOKUP_LINK_AT = ctypes.addressof(_LOOKUP_LINK)
_look_up = ctypes.CFUNCTYPE(
    ctypes.c_long,
    ctypes.c_long,
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    use_errno=True,
)(("syscall", LIBC))


_STATX_MNT_ID = 0x1000
_STATX_SIZE, _MNT_ID_AT = 256, 0x90
"""struct statx and the place of stx_mnt_id in it (include/uapi/linux/stat.h)."""


def mount_id(fd: int) -> int:
    """Return the id of the mount that what `fd` holds was reached through; statx(2), Linux 5.8."""
    buffer = bytearray(_STATX_SIZE)
    syscall(
        NR["statx"],
        fd,
        b"",
        _AT_EMPTY_PATH,
        _STATX_MNT_ID,
        ctypes.byref((ctypes.c_char * _STATX_SIZE).from_buffer(buffer)),
    )
    return int.from_bytes(buffer[_MNT_ID_AT : _MNT_ID_AT + 8], sys.byteorder)
