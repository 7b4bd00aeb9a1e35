"""Bounds the memory of a whole process tree where no cgroup of its own can be had: it is looked at, often."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from mcpwrap.limits import TREE_MEMORY_BYTES

_PAGE = os.sysconf("SC_PAGE_SIZE")
_SHMEM = re.compile(rb"^Shmem:\s+(\d+) kB", re.MULTILINE)
_RSS_SHMEM = re.compile(rb"^RssShmem:\s+(\d+) kB", re.MULTILINE)
_TOTAL = re.compile(rb"^MemTotal:\s+(\d+) kB", re.MULTILINE)
_MIB = 1 << 20


OOM_SCORE = 500
"""Added to the server's badness, of 1,000: before any desktop program, after what volunteers wholly."""


def default_limit(meminfo: bytes) -> int:
    """Return `TREE_MEMORY_BYTES`, or half the memory of a machine that has less than twice that."""
    found = _TOTAL.search(meminfo)
    return min(TREE_MEMORY_BYTES, int(found[1]) * 1024 // 2) if found else TREE_MEMORY_BYTES


class Watcher:
    """Counts what the processes of a tree hold of their own: `processes` lists them by their numbers in /proc,
    by default all that this procfs shows, which is that of the tree's own pid namespace.

    Private memory is counted as resident and not shared. Shared memory (anonymous or a memory file, mapped or
    only held open) is counted apart, but only while that of the machine has grown, and as no more than that.
    """

    def __init__(self, limit: int = 0, processes: Callable[[], list[str]] | None = None) -> None:
        self._processes = processes or _processes
        self._limit = limit or default_limit(_read("/proc/meminfo"))
        self._shared_at_start = self._shared()

    def check(self) -> str | None:
        """Return why the tree must end, or None. About 10 µs a process."""
        held = sum(self._private(pid) for pid in self._processes())
        grown = self._shared() - self._shared_at_start
        if grown > self._limit // 4:
            held += max(self._memory_files(), min(grown, self._mapped_shared()))
        if held <= self._limit:
            return None
        limit = f"their limit is {self._limit // _MIB} MiB"
        return f"the server and its children hold {held // _MIB} MiB of memory; {limit}"

    @staticmethod
    def _private(pid: str) -> int:
        fields = _read(f"/proc/{pid}/statm").split()
        return (int(fields[1]) - int(fields[2])) * _PAGE if len(fields) > 2 else 0

    @staticmethod
    def _shared() -> int:
        found = _SHMEM.search(_read("/proc/meminfo"))
        return int(found[1]) * 1024 if found else 0

    def _mapped_shared(self) -> int:
        """Return the shared memory that is mapped, counted once for each process that has it mapped."""
        found = (_RSS_SHMEM.search(_read(f"/proc/{pid}/status")) for pid in self._processes())
        return sum(int(each[1]) * 1024 for each in found if each)

    def _memory_files(self) -> int:
        seen: dict[tuple[int, int], int] = {}
        for pid in self._processes():
            directory = f"/proc/{pid}/fd"
            try:
                names = os.listdir(directory)
            except OSError:
                continue
            for name in names:
                try:
                    if os.readlink(f"{directory}/{name}").startswith("/memfd:"):
                        found = os.stat(f"{directory}/{name}")
                        seen[found.st_dev, found.st_ino] = found.st_blocks * 512
                except OSError:
                    continue
        return sum(seen.values())


class OomScore:
    """While it is entered, what is forked is the kernel's first choice when the machine runs out of memory."""

    def __init__(self) -> None:
        try:
            # Not dumpable any more, this process could not open it.
            self._fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
            self._own = os.read(self._fd, 16)
        except OSError:
            self._fd = -1  # the memory limit still holds

    def __enter__(self) -> None:
        if self._fd >= 0:
            os.pwrite(self._fd, str(max(OOM_SCORE, int(self._own))).encode(), 0)

    def __exit__(self, *_: object) -> None:
        if self._fd >= 0:
            os.pwrite(self._fd, self._own, 0)
            os.close(self._fd)


def _processes() -> list[str]:
    try:
        return [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, 1 << 16)
    except OSError:
        return b""
    finally:
        os.close(fd)
