"""Mounts of this process's mount namespace.

Sources: mount(2), umount2(2), pivot_root(2), mount_setattr(2), open_tree(2), move_mount(2).
"""

from __future__ import annotations

import ctypes

from mcpwrap.kernel.libc import LIBC, Path, encode, failure, syscall
from mcpwrap.kernel.numbers import NR

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000

MNT_DETACH = 0x2

MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_NOSUID = 0x2
MOUNT_ATTR_NODEV = 0x4
MOUNT_ATTR_NOEXEC = 0x8
MOUNT_ATTR_IDMAP = 0x100000

OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = 0o2000000
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOVE_MOUNT_T_EMPTY_PATH = 0x40

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
AT_SYMLINK_NOFOLLOW = 0x100

_mount = LIBC.mount
_mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)


class _MountAttributes(ctypes.Structure):
    """struct mount_attr."""

    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount(
    source: Path | None, target: Path, kind: str | None, flags: int = 0, data: str | None = None
) -> None:
    """Mount `source` (of file system `kind`, with options `data`) on `target`.

    Raises OSError with both names.
    """
    result = _mount(
        None if source is None else encode(source),
        encode(target),
        None if kind is None else kind.encode(),
        flags,
        None if data is None else encode(data),
    )
    if result == -1:
        raise failure(target) if source is None else failure(source, target)


def umount_detach(target: Path) -> None:
    """Take the mounts at and below `target` out of the tree; they end with their last user."""
    syscall(NR["umount2"], encode(target), MNT_DETACH, path=target)


def pivot_root(new_root: Path, put_old: Path) -> None:
    """Make `new_root` the root of this mount namespace and move the old one to `put_old`."""
    syscall(NR["pivot_root"], encode(new_root), encode(put_old), path=new_root, other=put_old)


def mount_setattr(
    path: Path,
    *,
    set_: int = 0,
    clear: int = 0,
    recursive: bool = False,
    dirfd: int = AT_FDCWD,
    userns_fd: int = 0,
) -> None:
    """Change MOUNT_ATTR_* flags of the mount at `path`, with `recursive` of all below it too.

    With an empty `path` the mount is the one `dirfd` stands for. `userns_fd` is the user
    namespace whose map MOUNT_ATTR_IDMAP takes. All mounts change, or none does.
    """
    attributes = _MountAttributes(set_, clear, 0, userns_fd)
    flags = AT_SYMLINK_NOFOLLOW | (AT_RECURSIVE if recursive else 0) | (0 if path else AT_EMPTY_PATH)
    syscall(
        NR["mount_setattr"],
        dirfd,
        encode(path),
        flags,
        ctypes.byref(attributes),
        ctypes.sizeof(attributes),
        path=path,
    )


def open_tree(path: Path, *, clone: bool, recursive: bool = False, dirfd: int = AT_FDCWD) -> int:
    """Return an O_PATH descriptor (close-on-exec) of the mount at `path`.

    With `clone` it is a detached copy (with `recursive`, of all mounts below too), which
    `move_mount` can attach. With an empty `path` the place is `dirfd` itself.
    """
    flags = OPEN_TREE_CLOEXEC | (0 if path else AT_EMPTY_PATH)
    if clone:
        flags |= OPEN_TREE_CLONE | (AT_RECURSIVE if recursive else 0)
    return syscall(NR["open_tree"], dirfd, encode(path), flags, path=path)


def move_mount(tree: int, target: Path, *, dirfd: int = AT_FDCWD) -> None:
    """Attach the mount `tree` stands for at `target`; with an empty `target`, at `dirfd`."""
    flags = MOVE_MOUNT_F_EMPTY_PATH | (0 if target else MOVE_MOUNT_T_EMPTY_PATH)
    syscall(NR["move_mount"], tree, b"", dirfd, encode(target), flags, path=target)
