"""Kernel pipes between two sockets, borrowed while bytes are on their way and given back when they are not.

An idle connection holds none: 512 of them cost no pipe memory, of which all processes of a user share 64 MiB.
"""

from __future__ import annotations

import fcntl
import os
from typing import Final, NamedTuple

PIPE_BYTES: Final = 64 * 1024
"""What a pipe holds: the kernel's own default."""
WIDE_BYTES: Final = 1024 * 1024
"""What a pipe of a download holds, as much as an ordinary user may have: a quarter less work for each byte."""
WIDE: Final = 4
"""Wide pipes at once: what readers that stall can make them hold is 4 MiB, however many they are. One is kept."""
KEPT: Final = 16
"""Empty pipes kept for the next bytes; making one costs 5 µs."""


class Pipe(NamedTuple):
    out: int
    into: int
    size: int


class Pipes:
    """The empty pipes of one run."""

    def __init__(self) -> None:
        self._free: list[Pipe] = []
        self._wide: list[Pipe] = []
        self._may_widen = WIDE

    def take(self, *, wide: bool = False) -> Pipe:
        """Return an empty pipe, a wide one if it is wanted and to be had. Raises `OSError`: no descriptors are left."""
        if wide and self._wide:
            return self._wide.pop()
        pipe = self._free.pop() if self._free else Pipe(*os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK), PIPE_BYTES)
        return self._widened(pipe) if wide and self._may_widen else pipe

    def give(self, pipe: Pipe, *, empty: bool) -> None:
        """Take a pipe back; one that is not empty is closed with what it holds."""
        wide = pipe.size == WIDE_BYTES
        kept = self._wide if wide else self._free
        if empty and len(kept) < (1 if wide else KEPT):
            kept.append(pipe)
            return
        self._may_widen += wide
        os.close(pipe.out)
        os.close(pipe.into)

    def close(self) -> None:
        for kept in (self._free, self._wide):
            while kept:
                self.give(kept.pop(), empty=False)

    def _widened(self, pipe: Pipe) -> Pipe:
        try:
            fcntl.fcntl(pipe.into, fcntl.F_SETPIPE_SZ, WIDE_BYTES)
        except OSError:
            self._may_widen = 0  # The user's pipes have too much memory already, or the machine allows less.
            return pipe
        self._may_widen -= 1
        return pipe._replace(size=WIDE_BYTES)
