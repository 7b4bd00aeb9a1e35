"""From the path a caller wrote to the object the kernel would act on, held by an O_PATH descriptor.

The fast path is one openat2 without magic links. What it cannot do is walked step by step: procfs
links are followed for the *caller* (`self`, `thread-self`, descriptors), never for the broker.
Within the tree all changes of names pass through the broker, one after the other; so what was
looked up stays true until the broker itself has acted on it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from mcpwrap.broker.request import AT_FDCWD, Caller
from mcpwrap.kernel import files

if TYPE_CHECKING:
    from mcpwrap.broker.terrain import Terrain

MAX_LINKS = 40
"""Symbolic links followed in one path: MAXSYMLINKS of include/linux/namei.h."""

_O_PATH = os.O_PATH | os.O_CLOEXEC
_DELETED = " (deleted)"


def failure(number: int) -> OSError:
    """Return the OSError the caller shall see as its errno."""
    return OSError(number, os.strerror(number))


class Found:
    """An existing object: an owned O_PATH `fd`, its real `path` in the server's view, its `stat`.

    Objects without a place in the file system (pipes, sockets) have a path without a leading slash.
    """

    __slots__ = ("fd", "path", "stat")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        try:
            path = os.readlink(str(fd))
            self.stat = os.fstat(fd)
        except OSError:
            os.close(fd)
            raise
        if self.stat.st_nlink == 0 and path.endswith(_DELETED):
            path = path[: -len(_DELETED)]
        self.path = path

    @property
    def anchor(self) -> int:
        """The descriptor that says through which mount this was reached."""
        return self.fd

    @property
    def identity(self) -> tuple[int, int]:
        """(device, inode)."""
        return self.stat.st_dev, self.stat.st_ino

    def reopen(self, flags: int) -> int:
        """Return a new descriptor on this very object with `flags`; acts only after the decision."""
        return os.open(str(self.fd), flags | os.O_CLOEXEC | os.O_NOCTTY)

    def close(self) -> None:
        """Give up the descriptor."""
        os.close(self.fd)


Nameless = Mapping[bytes, int]
MAKING: Final[Nameless] = dict.fromkeys((b"", b".", b".."), errno.EEXIST)
UNLINKING: Final[Nameless] = dict.fromkeys(MAKING, errno.EISDIR)
REMOVING: Final[Nameless] = {b"": errno.EBUSY, b".": errno.EINVAL, b"..": errno.ENOTEMPTY}
MOVING: Final[Nameless] = dict.fromkeys(MAKING, errno.EBUSY)
"""What the kernel says of `/`, `.` and `..` as a last name (fs/namei.c). tar and `mkdir -p` make `.` and go on."""


class Entry:
    """A name in a directory, for calls that act on names: the owned O_PATH `parent`, and the `name`.

    `path` is the parent's real path with the name; `stat` that of the name itself, None if absent.
    """

    __slots__ = ("name", "parent", "path", "stat")

    def __init__(self, parent: int, name: bytes) -> None:
        self.parent = parent
        self.name = name
        try:
            directory = os.readlink(str(parent))
            try:
                self.stat: os.stat_result | None = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                self.stat = None
        except OSError:
            os.close(parent)
            raise
        self.path = (directory if directory != "/" else "") + "/" + os.fsdecode(name)

    @property
    def anchor(self) -> int:
        """The descriptor that says through which mount this was reached."""
        return self.parent

    @property
    def identity(self) -> tuple[int, int] | None:
        """(device, inode) of what has the name, None if nothing has."""
        return (self.stat.st_dev, self.stat.st_ino) if self.stat else None

    def close(self) -> None:
        """Give up the descriptor."""
        os.close(self.parent)


class Resolver:
    """Looks names up in the server's view of the file system, which is the broker's root too."""

    def __init__(self, terrain: Terrain) -> None:
        self.terrain = terrain
        self.proc_device = terrain.proc_device
        memory = os.memfd_create("mcpwrap", os.MFD_CLOEXEC)
        self.memory_device = os.fstat(memory).st_dev
        os.close(memory)
        # Whether some process may have another root: set when one has been let one.
        self.roots_differ = False
        self._root = os.stat("/").st_dev, os.stat("/").st_ino

    def find(self, caller: Caller, dirfd: int, path: bytes, *, follow: bool = True) -> Found:
        """Return the object `path` leads to; OSError as the kernel would say (ENOENT, ELOOP, ...)."""
        if not path:
            raise failure(errno.ENOENT)
        rooted = not (self.roots_differ and self.has_own_root(caller))
        if not rooted and path.startswith(b"/"):
            raise failure(errno.EACCES)
        base = AT_FDCWD if path.startswith(b"/") else caller.directory(dirfd)
        try:
            try:
                if rooted:
                    found = Found(files.look_up(base, path, follow=follow))
                    if not self._led_to_broker(found):
                        return found
                    found.close()
            except OSError as error:
                # A magic link is ELOOP here; /proc/self is absent to the broker, from another pid namespace.
                if error.errno not in (errno.ELOOP, errno.ENOENT):
                    raise
            return Found(self._walk(caller, base, path, follow=follow, rooted=rooted))
        finally:
            if base != AT_FDCWD:
                os.close(base)

    def _led_to_broker(self, found: Found) -> bool:
        """Whether the kernel took `self` on the way for this process: where both see one /proc."""
        numbers = self.terrain.own_numbers
        if not numbers or found.stat.st_dev != self.proc_device:
            return False
        return found.path.removeprefix("/proc/").partition("/")[0] in numbers

    def entry(self, caller: Caller, dirfd: int, path: bytes, nameless: Nameless = MOVING) -> Entry:
        """Return the last name of `path` with its directory; the name itself is not followed.

        `nameless`: what is said of a path that ends in no name.
        """
        head, _, name = path.rstrip(b"/").rpartition(b"/")
        if not path:
            raise failure(errno.ENOENT)
        if not head and path.startswith(b"/"):
            head = b"/"
        parent = self.find(caller, dirfd, head or b".")
        if name in nameless or not stat.S_ISDIR(parent.stat.st_mode):
            parent.close()
            raise failure(nameless[name] if stat.S_ISDIR(parent.stat.st_mode) else errno.ENOTDIR)
        entry = Entry(parent.fd, name)
        # With a slash behind it a name is a directory's. What is in the way of a new one is said by who makes that.
        other = entry.stat is not None and not stat.S_ISDIR(entry.stat.st_mode)
        if path.endswith(b"/") and other and nameless is not MAKING:
            entry.close()
            raise failure(errno.ENOTDIR)
        return entry

    def has_own_root(self, caller: Caller) -> bool:
        """Whether names from / mean something else to the caller than to the broker; true if it cannot be told."""
        try:
            return caller.identity("root") != self._root
        except OSError:
            return True

    def _walk(self, caller: Caller, base: int, path: bytes, *, follow: bool, rooted: bool) -> int:
        here = os.open("/", _O_PATH) if path.startswith(b"/") else os.dup(base)
        todo = path.split(b"/")[::-1]
        links = 0
        try:
            while todo:
                name = todo.pop()
                if name in (b"", b"."):
                    if not stat.S_ISDIR(os.fstat(here).st_mode):
                        raise failure(errno.ENOTDIR)
                    continue
                there = os.open(name, _O_PATH | os.O_NOFOLLOW, dir_fd=here)
                mode = os.fstat(there)
                if not stat.S_ISLNK(mode.st_mode) or (not follow and not any(todo)):
                    os.close(here)
                    here = there
                    continue
                links += 1
                try:
                    if links > MAX_LINKS:
                        raise failure(errno.ELOOP)
                    target = self._target(caller, here, there, name, mode.st_dev)
                finally:
                    os.close(there)
                if isinstance(target, int):
                    os.close(here)
                    here = target
                    continue
                if target.startswith(b"/"):
                    if not rooted:
                        raise failure(errno.EACCES)
                    os.close(here)
                    here = os.open("/", _O_PATH)
                todo += target.split(b"/")[::-1]
            return here
        except OSError:
            os.close(here)
            raise

    def _target(self, caller: Caller, here: int, link: int, name: bytes, device: int) -> bytes | int:
        """Return the text of a link; for a magic link an O_PATH fd on its object, as the caller sees it."""
        if device != self.proc_device:
            return os.readlink(b"", dir_fd=link)
        directory = os.readlink(str(here)).split("/")[2:]  # below /proc
        if not directory:
            process, thread = caller.inner_ids()
            if name == b"self":
                return process.encode()
            if name == b"thread-self":
                return f"{process}/task/{thread}".encode()
            return os.readlink(b"", dir_fd=link)
        owner, kind = directory[0], directory[-1]
        if not owner.isdigit() or not self.terrain.in_tree(owner):
            raise failure(errno.EACCES)
        if kind == "fd" or name == b"exe" or (name == b"cwd" and owner == caller.inner_ids()[0]):
            return os.open(name, _O_PATH, dir_fd=here)
        raise failure(errno.EACCES)
