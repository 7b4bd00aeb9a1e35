"""Kernel pipes between two sockets, borrowed while bytes are on their way and given back when they are not.

An idle connection holds none: 512 of them cost no pipe memory, of which all processes of a user share 64 MiB.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

PIPE_BYTES: Final = 64 * 1024
"""What a pipe holds: the kernel's own default. More per turn gains nothing over loopback."""
KEPT: Final = 16
"""Empty pipes kept for the next bytes; making one costs 5 µs."""


class Pipe(NamedTuple):
    out: int
    into: int


class Pipes:
    """The empty pipes of one run."""

    def __init__(self) -> None:
        self._free: list[Pipe] = []

    def take(self) -> Pipe:
        """Return an empty pipe. Raises `OSError`: no descriptors are left."""
        if self._free:
            return self._free.pop()
        return Pipe(*os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK))

    def give(self, pipe: Pipe, *, empty: bool) -> None:
        """Take a pipe back; one that is not empty is closed with what it holds."""
        if empty and len(self._free) < KEPT:
            self._free.append(pipe)
            return
        os.close(pipe.out)
        os.close(pipe.into)

    def close(self) -> None:
        while self._free:
            self.give(self._free.pop(), empty=False)
