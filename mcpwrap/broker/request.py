"""What a caller handed to the kernel: its strings, its descriptors, its directories, its umask.

The caller's memory may change under the broker's eyes. So every argument is copied once and only
the copy is used, and every descriptor is an own O_PATH one on the object it stood for at that time.
"""

from __future__ import annotations

import errno
import os

from mcpwrap.kernel import process

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_REMOVEDIR = 0x200
AT_SYMLINK_FOLLOW = 0x400
AT_EMPTY_PATH = 0x1000

_NO_LEADER = (errno.EINVAL, errno.ENOENT)
"""What pidfd_open(2) says of a thread that is not its process's first: older kernels, and newer ones."""

_SERVERS = 1
"""Of the numbers a process has, from the broker's pid namespace inward, the one in the server's."""


def as_int(value: int) -> int:
    """Return a syscall argument as the C `int` the kernel takes it for (its low 32 bits, signed)."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


class Caller:
    """One thread of the server's tree, by its id as the broker's /proc numbers it.

    `proc` is a descriptor of the host's procfs.
    """

    __slots__ = ("pid", "proc")

    def __init__(self, pid: int, proc: int) -> None:
        self.pid = pid
        self.proc = proc

    def string(self, address: int) -> bytes:
        """Return the path at `address`; OSError EFAULT or ENAMETOOLONG as the kernel would say."""
        return process.read_string(self.pid, address)

    def memory(self, address: int, size: int) -> bytes:
        """Return `size` bytes of the caller's memory; OSError EFAULT if they are not all there."""
        return process.read_memory(self.pid, address, size)

    def directory(self, dirfd: int) -> int:
        """Return an own O_PATH fd on the caller's working directory (AT_FDCWD) or descriptor."""
        name = f"{self.pid}/cwd" if dirfd == AT_FDCWD else f"{self.pid}/fd/{dirfd}"
        return self._open(name)

    def descriptor(self, fd: int) -> int:
        """Return an own O_PATH fd on the object of the caller's descriptor; OSError EBADF if it has none."""
        if fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open(f"{self.pid}/fd/{fd}")

    def duplicate(self, fd: int) -> int:
        """Return a copy of the caller's descriptor itself (same open file); OSError EBADF, EPERM."""
        try:
            pidfd = process.pidfd_open(self.pid)
        except OSError as error:
            if error.errno not in _NO_LEADER:
                raise
            pidfd = process.pidfd_open(self.thread_group())
        try:
            return process.pidfd_getfd(pidfd, fd)
        finally:
            os.close(pidfd)

    def thread_group(self) -> int:
        """Return the id of the caller's process (its thread group)."""
        return int(self.status(b"Tgid:")[-1])

    def inner_ids(self) -> tuple[str, str]:
        """Return the caller's process id and thread id as the server's pid namespace numbers them.

        A process of a further namespace inside has one more number; /proc does not know that one.
        """
        processes, threads = self.status(b"NStgid:"), self.status(b"NSpid:")
        place = min(_SERVERS, len(processes) - 1)
        return processes[place].decode(), threads[place].decode()

    def umask(self) -> int:
        """Return the caller's file mode creation mask."""
        return int(self.status(b"Umask:")[0], 8)

    def read(self, name: str, size: int) -> bytes:
        """Return the first `size` bytes of a file of the caller's in /proc; OSError if it is gone."""
        fd = os.open(f"{self.pid}/{name}", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.proc)
        try:
            return os.read(fd, size)
        finally:
            os.close(fd)

    def layout(self) -> tuple[bytes, tuple[bytes, ...]]:
        """Return when the process started, and where its program, stack and arguments lie in memory.

        Every execution lays memory out anew, at random places (proc_pid_stat(5): starttime; startcode,
        endcode, startstack; start_data to env_end). OSError if it is gone.
        """
        fields = self.read("stat", 4096).rpartition(b")")[2].split()
        return fields[19], (*fields[23:26], *fields[42:49])

    def identity(self, name: str) -> tuple[int, int]:
        """Return (device, inode) of what `exe`, `cwd` or `root` of the caller is; OSError if it is gone."""
        status = os.stat(f"{self.pid}/{name}", dir_fd=self.proc)
        return status.st_dev, status.st_ino

    def status(self, field: bytes) -> list[bytes]:
        """Return the words of one field (with its colon) of the caller's `status` in /proc."""
        text = self.read("status", 4096)
        start = text.index(b"\n" + field) + 1 + len(field)
        return text[start : text.index(b"\n", start)].split()

    def _open(self, name: str) -> int:
        try:
            return os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=self.proc)
        except FileNotFoundError:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF)) from None
