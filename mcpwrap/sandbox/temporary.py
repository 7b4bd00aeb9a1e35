"""The place for temporary files of a server without a view of its own: a directory, empty at the start."""

from __future__ import annotations

import fcntl
import os
import shutil
import time

EMPTYING_TRIES = 50
_PAUSE_SECONDS = 0.02


def hold(path: str) -> int:
    """Empty the directory `path` unless another run of the same server uses it; return what keeps it so.

    That is a descriptor: while some process holds it, no other run empties the directory.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        pass
    else:
        # By way of the descriptor: the name itself is in a place the server may write.
        for name in os.listdir(fd):
            _remove(name, fd)
    for _ in range(EMPTYING_TRIES):
        # Another run may be emptying it; and a server may hold such a lock as long as it likes.
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except OSError:
            time.sleep(_PAUSE_SECONDS)
    return fd


def _remove(name: str, directory: int) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        shutil.rmtree(name, ignore_errors=True, dir_fd=directory)
    except OSError:
        pass  # what cannot be removed stays: it is the server's own
