"""What the broker stands on: a view of its own, made of mounts, or the host's own file system.

Both answer the same questions: which places are the server's own, and which processes its own.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Protocol

from mcpwrap.kernel import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwrap.policy.facts import Facts

_ESCAPED = re.compile(rb"\\([0-7]{3})")
OWN_MEMORY = ("/tmp", "/dev/shm")
"""File systems that exist only in this sandbox."""
_DEPTH = 4_096
"""Parents followed before it is taken for a circle made by numbers that were given out anew meanwhile."""


class Terrain(Protocol):
    """`proc_device`: of the procfs in the server's sight. `own_numbers`: what this process is called in it."""

    proc_device: int
    own_numbers: frozenset[str]
    bare: bool

    def is_own(self, fd: int) -> bool:
        """Whether what `fd` holds is on the server's own ground: only this server's processes write there."""

    def is_private(self, fd: int) -> bool:
        """Whether a socket there can only be one that was made inside."""

    def is_name_only(self, device: int) -> bool:
        """Whether a directory on `device` holds nothing but the names of what is granted."""

    def in_tree(self, number: str) -> bool:
        """Whether /proc/`number` is a process of the server's tree."""

    def in_group(self, group: int) -> bool:
        """Whether `group` is a process group of the server's tree."""

    def require_one_ground(self, old: str, new: str) -> None:
        """Raise OSError EXDEV if a file with both names would be on own and other ground."""

    def require_loose(self, path: str) -> None:
        """Raise OSError EBUSY if the name `path` must stay what it is."""


class View:
    """A view of its own: places are told by their mounts, processes by the pid namespace."""

    own_numbers: frozenset[str] = frozenset()
    bare = False

    def __init__(self, host_proc: int, owns: Callable[[str], bool]) -> None:
        """`owns` tells whether a path is the server's own ground; asked now, while paths are as the plan made them."""
        self.proc_device = os.stat("/proc").st_dev
        self._root_device = os.stat("/").st_dev
        self._own_memory = {os.stat(place).st_dev for place in OWN_MEMORY}
        self._own_mounts = {number for number, place in _mounts(host_proc) if owns(place)}

    def is_own(self, fd: int) -> bool:
        # A path is not enough: a directory above a mount can be moved (by another run that shares the private
        # HOME), and what the user granted is then found under a name on that ground.
        return files.mount_id(fd) in self._own_mounts

    def is_private(self, fd: int) -> bool:
        return os.fstat(fd).st_dev in self._own_memory

    def is_name_only(self, device: int) -> bool:
        return device == self._root_device

    def in_tree(self, number: str) -> bool:
        return number != "1"

    def in_group(self, group: int) -> bool:  # noqa: ARG002
        return True  # it has no number for any other

    def require_one_ground(self, old: str, new: str) -> None:
        pass  # the kernel says EXDEV between mounts

    def require_loose(self, path: str) -> None:
        pass  # and EBUSY of a mount point


class Host:
    """The host's own file system and processes.

    That a real path below $STATE or $CACHE is own ground is sound for these reasons: nothing is mounted there
    in between (the mount is compared); no other server may write there, and this one cannot move the
    directories above (they are private); and no file comes to have a name on both sides, for the broker
    answers EXDEV where it would, as between the mounts of a view.
    """

    bare = True

    def __init__(self, facts: Facts, keeper: int) -> None:
        """`keeper` is the process whose descendants are the tree."""
        self.proc_device = os.stat("/proc").st_dev
        self.own_numbers = frozenset((str(os.getpid()),))
        self._keeper = str(keeper)
        self._proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        state, cache = facts.real(facts.state), facts.real(facts.cache)
        self._own = (f"{state}/", f"{cache}/")
        self._pinned = frozenset((*facts.own_homes, *facts.temporary, state, cache))
        self._temporary = tuple(f"{each}/" for each in facts.temporary)
        self._mounts = {_mount_of(place) for place in (state, cache)}

    def is_own(self, fd: int) -> bool:
        return self._lies_in(os.readlink(str(fd))) and files.mount_id(fd) in self._mounts

    def is_private(self, fd: int) -> bool:
        return (os.readlink(str(fd)) + "/").startswith(self._temporary) and self.is_own(fd)

    def is_name_only(self, device: int) -> bool:  # noqa: ARG002
        return False

    def in_tree(self, number: str) -> bool:
        # Only who holds a number is asked, and by way of a held object of /proc nobody else can be meant.
        for _ in range(_DEPTH):
            number = next(iter(_stat(self._proc, number)), b"").decode()
            if number == self._keeper:
                return True
            if number in ("", "0", "1"):
                return False
        return False

    def in_group(self, group: int) -> bool:
        wanted = str(group).encode()
        numbers = (name for name in os.listdir(self._proc) if name.isdigit())
        return any(_stat(self._proc, number)[1:2] == [wanted] and self.in_tree(number) for number in numbers)

    def require_one_ground(self, old: str, new: str) -> None:
        if self._lies_in(old) != self._lies_in(new):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def require_loose(self, path: str) -> None:
        if path in self._pinned:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    def _lies_in(self, path: str) -> bool:
        return (path + "/").startswith(self._own)


def _stat(proc: int, number: str) -> list[bytes]:
    """Return (parent, group) of a process or thread, nothing if it is gone."""
    try:
        fd = os.open(f"{number}/stat", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc)
    except OSError:
        return []
    try:
        # The name in parentheses may hold anything; the fields after the last one do not.
        return os.read(fd, 1024).rpartition(b")")[2].split()[1:3]
    except OSError:
        return []
    finally:
        os.close(fd)


def _mount_of(path: str) -> int:
    fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        return files.mount_id(fd)
    finally:
        os.close(fd)


def _mounts(host_proc: int) -> Iterator[tuple[int, str]]:
    """Yield (mount id, mount point) of every mount in view; proc_pid_mountinfo(5)."""
    fd = os.open("self/mountinfo", os.O_RDONLY | os.O_CLOEXEC, dir_fd=host_proc)
    with open(fd, "rb", buffering=0) as file:
        for line in file.read().splitlines():
            number, _, _, _, place, *_ = line.split(b" ")
            yield int(number), os.fsdecode(_ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), place))
