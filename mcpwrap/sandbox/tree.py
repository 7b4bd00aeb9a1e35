"""A process and all its descendants, where no pid namespace holds them together.

Whoever asks is a subreaper (prctl(2)): what a descendant leaves behind becomes its child, in whatever
session, so a descendant stays one until it ends, and nothing else ever becomes one.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from mcpwrap.kernel import process

END_SECONDS = 5.0
"""After that what is left is given up: it hangs in the kernel, and a pending SIGKILL is its end."""
_PAUSE_SECONDS = 0.002
_DEPTH = 4_096
"""Parents followed before it is taken for a circle made by numbers that were given out anew meanwhile."""
_GONE = b"ZX"


def within(pid: int, root: int) -> bool:
    """Whether process (or thread) `pid` is a descendant of the process `root`, now; never `root` itself."""
    for _ in range(_DEPTH):
        pid = _stat(pid)[1]
        if pid <= 1:
            return False
        if pid == root:
            return True
    return False


def members(root: int) -> list[int]:
    """Return the descendants of `root` by the kernel's lists of children, quickly; one may be missed.

    For what is looked at again and again. Without CONFIG_PROC_CHILDREN as `descendants`.
    """
    found: list[int] = []
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        with suppress(FileNotFoundError, ProcessLookupError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                try:
                    with open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                        children = [int(word) for word in file.read().split()]
                except FileNotFoundError:
                    if os.path.exists("/proc/thread-self/children"):
                        continue
                    return descendants(root)
                found += children
                waiting += children
    return found


def descendants(root: int) -> list[int]:
    """Return the living descendants of `root`: all of them, but for those born while it looked."""
    below: dict[int, list[int]] = {}
    gone = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            state, parent = _stat(int(name))
            below.setdefault(parent, []).append(int(name))
            if state in _GONE:
                gone.add(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        children = below.pop(waiting.pop(), [])
        found += children
        waiting += children
    return [pid for pid in found if pid not in gone]


def end(root: int) -> dict[int, int]:
    """Kill all descendants of `root`, this process; return the wait statuses of those it buried.

    A look may miss one that is born meanwhile, the only one there is. That there are none is known when the
    kernel says that there is no child: whatever has lost its parent is one. Nobody may answer their calls any
    more, so that they have no more children.
    """
    deadline = time.monotonic() + END_SECONDS
    buried, childless = bury()
    while not childless and time.monotonic() < deadline:
        for pid in descendants(root):
            _signal(pid, root, signal.SIGKILL)
        time.sleep(_PAUSE_SECONDS)
        more, childless = bury()
        buried |= more
    return buried


def bury() -> tuple[dict[int, int], bool]:
    """Take leave of this process's children that have ended; return their wait statuses, and whether none is left."""
    buried: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return buried, False
            buried[pid] = status
    except ChildProcessError:
        return buried, True


def threads_of_user() -> int:
    """Return how many threads this user has, as RLIMIT_NPROC counts them (setrlimit(2))."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _signal(pid: int, root: int, number: int) -> None:
    with suppress(ProcessLookupError):
        pidfd = process.pidfd_open(pid)
        try:
            # Asked once it is held: another process may have got the number since.
            if within(pid, root):
                process.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)


def _stat(pid: int) -> tuple[bytes, int]:
    """Return (state, parent) of a process; ("X", 0) if it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b"X", 0
    try:
        # The name in parentheses may hold anything; the fields after the last one do not.
        fields = os.read(fd, 1024).rpartition(b")")[2].split()
        return fields[0], int(fields[1])
    except (OSError, IndexError, ValueError):
        return b"X", 0
    finally:
        os.close(fd)
