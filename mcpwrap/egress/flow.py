"""One direction of a connection: bytes from one socket to another, by splice(2), through a pipe.

The kernel moves the pages; no byte is in this process but a TLS hello, which was judged. Where the kernel
refuses (sockets that cannot be spliced) bytes are copied, at most a pipe's worth at a time.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING, Final

from mcpwrap.egress.pipes import PIPE_BYTES

if TYPE_CHECKING:
    from mcpwrap.egress.pipes import Pipe, Pipes

_FLAGS: Final = getattr(os, "SPLICE_F_MOVE", 1) | getattr(os, "SPLICE_F_NONBLOCK", 2)
_REFUSED: Final = (errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP)
"""How splice(2) says that these two cannot be spliced, or may not be (a seccomp filter around mcpwrap)."""


class Flow:
    """Both sockets are non-blocking. `held`: bytes taken from `source` that `sink` has not taken yet.

    `ended`: the source has no more. `passed`: the sink was told so. `count`: bytes the sink has taken.
    """

    __slots__ = (
        "_copied",
        "_copying",
        "_full",
        "_pipe",
        "_pipes",
        "count",
        "ended",
        "held",
        "passed",
        "sink",
        "source",
    )

    def __init__(self, source: socket.socket, sink: socket.socket, pipes: Pipes, first: bytes = b"") -> None:
        """`first`: bytes that have been taken from `source` already."""
        self.source = source
        self.sink = sink
        self.held = len(first)
        self.ended = False
        self.passed = False
        self.count = 0
        self._pipes = pipes
        self._pipe: Pipe | None = None
        self._full = False
        self._copying = False
        self._copied = memoryview(first)

    def move(self, most: int) -> int:
        """Move up to about `most` bytes, and the end if there is one. Return how many the sink took.

        Raises `OSError`: one of the two sockets broke, or there are no descriptors for a pipe.
        """
        moved = 0
        try:
            while moved < most and not self.passed:
                if not self.held and not self.ended:
                    taken = self._take(first=not moved)
                    if taken:
                        self.held = taken
                    else:
                        self.ended = True
                if self.held:
                    given = self._give()
                    self.held -= given
                    moved += given
                elif self.ended:
                    self.passed = True
                    self._shut()
        except BlockingIOError:
            pass
        self.count += moved
        if not self.held:
            self._return_pipe(empty=True)
        return moved

    def close(self) -> None:
        """Forget what is held. The sockets stay the caller's."""
        self._return_pipe(empty=not self.held)
        self._copied = memoryview(b"")
        self.held = 0

    def _take(self, *, first: bool) -> int:
        """Return how many bytes were taken from the source. `first`: nothing was before, though it has some."""
        if not self._copying:
            if self._pipe is None:
                self._pipe = self._pipes.take(wide=self._full)
            pipe = self._pipe
            try:
                taken = os.splice(self.source.fileno(), pipe.into, pipe.size, flags=_FLAGS)
                # There is more than a small one holds: next time, a wide one.
                self._full = taken >= PIPE_BYTES
                return taken
            except BlockingIOError:
                # It stops at a byte that was sent as urgent, which poll(2) reports for as long as nobody takes it.
                if not first:
                    raise
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise
                self._copying = True
            self._return_pipe(empty=True)
        self._copied = memoryview(self.source.recv(PIPE_BYTES))
        return len(self._copied)

    def _give(self) -> int:
        if self._pipe is not None:
            try:
                return os.splice(self._pipe.out, self.sink.fileno(), self.held, flags=_FLAGS)
            except OSError as error:
                if error.errno not in _REFUSED:
                    raise
            self._copying = True
            self._copied = memoryview(os.read(self._pipe.out, self.held))
            self._return_pipe(empty=True)
        given = self.sink.send(self._copied, socket.MSG_NOSIGNAL)
        self._copied = self._copied[given:]
        return given

    def _shut(self) -> None:
        try:
            self.sink.shutdown(socket.SHUT_WR)
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise

    def _return_pipe(self, *, empty: bool) -> None:
        if self._pipe is not None:
            self._pipes.give(self._pipe, empty=empty)
            self._pipe = None
