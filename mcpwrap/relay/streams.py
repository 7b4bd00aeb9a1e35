"""One end of a stream that never blocks, whatever the client made it of.

The client's descriptors are shared: setting O_NONBLOCK on one sets it for every process that holds
the same open file description (a terminal's shell, the client itself). So fifos and terminals are
opened anew, sockets are asked per operation, and what cannot be opened anew is only touched when
poll(2) says that it will not block.
"""

from __future__ import annotations

import fcntl
import os
import select
import socket
import stat
from collections import deque
from typing import Final, Protocol

SMALL_READ: Final = 64 * 1024
"""Bytes asked for at first: the kernel's own default for a pipe."""
LARGE_READ: Final = 1024 * 1024
"""Bytes asked for after a read that came back full; allocating this much each time costs 5 µs."""
PIPE_BYTES: Final = 1024 * 1024
"""Capacity a pipe is given once something large passes through it: a megabyte then passes in one turn. Not
before: all pipes of a user share 64 MiB (`pipe-user-pages-soft`), and 20 small servers would use them up."""
JOINED_WRITE: Final = 64 * 1024
"""Small pieces are joined up to so many bytes for one write."""


class Source(Protocol):
    """A readable end. `read` returns None if nothing is there now, `b""` at the end; raises `OSError`."""

    fd: int

    def read(self) -> bytes | None: ...


class Sink(Protocol):
    """A writable end. `write` returns how many bytes it took, 0 if none now; raises `OSError`."""

    fd: int

    def write(self, data: memoryview) -> int: ...


def _widen(fd: int) -> None:
    """Give a pipe room for `PIPE_BYTES`. Whoever is at its other end notices nothing but the speed."""
    try:
        if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
            fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass  # No pipe, or the user's share is used up: smaller turns, same bytes.


class PipeSource:
    """A descriptor whose open file description is ours alone and non-blocking."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._size = SMALL_READ
        self._narrow = True

    def read(self) -> bytes | None:
        try:
            data = os.read(self.fd, self._size)
        except BlockingIOError:
            return None
        if self._narrow and len(data) == SMALL_READ:
            self._narrow = False
            _widen(self.fd)
        self._size = LARGE_READ if len(data) == self._size or len(data) > SMALL_READ else SMALL_READ
        return data


class PolledSource:
    """A shared description, read only when poll says it is ready; regular files always are."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)

    def read(self) -> bytes | None:
        if not self._poll.poll(0):
            return None
        return os.read(self.fd, SMALL_READ)


class SocketSource:
    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self.fd = self._socket.fileno()
        self._size = SMALL_READ

    def read(self) -> bytes | None:
        try:
            data = self._socket.recv(self._size, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            return b""
        self._size = LARGE_READ if len(data) == self._size or len(data) > SMALL_READ else SMALL_READ
        return data


class PipeSink:
    """A descriptor whose open file description is ours alone and non-blocking."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._narrow = True

    def write(self, data: memoryview) -> int:
        try:
            taken = os.write(self.fd, data)
        except BlockingIOError:
            return 0
        if self._narrow and taken < len(data):
            self._narrow = False
            _widen(self.fd)
        return taken


class PolledSink:
    """A shared description, written only when poll says it is ready, and then only what surely fits."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        # POLLOUT of a pipe promises PIPE_BUF bytes and no more; a file never waits for a reader.
        self._most = LARGE_READ if stat.S_ISREG(os.fstat(fd).st_mode) else select.PIPE_BUF
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    def write(self, data: memoryview) -> int:
        ready = self._poll.poll(0)
        if not ready or not ready[0][1] & (select.POLLOUT | select.POLLERR | select.POLLNVAL):
            return 0
        return os.write(self.fd, data[: self._most])


class SocketSink:
    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self.fd = self._socket.fileno()

    def write(self, data: memoryview) -> int:
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0


def client_source(fd: int) -> Source:
    """Return a source for a descriptor somebody else made. Raises `OSError` if it is not open."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISSOCK(kind):
        return SocketSource(fd)
    if stat.S_ISFIFO(kind) or os.isatty(fd):
        own = _open_anew(fd, os.O_RDONLY)
        if own is not None:
            return PipeSource(own)
    return PolledSource(fd)


def client_sink(fd: int) -> Sink:
    """Return a sink for a descriptor somebody else made. Raises `OSError` if it is not open."""
    kind = os.fstat(fd).st_mode
    if stat.S_ISSOCK(kind):
        return SocketSink(fd)
    if stat.S_ISFIFO(kind) or os.isatty(fd):
        own = _open_anew(fd, os.O_WRONLY)
        if own is not None:
            return PipeSink(own)
    return PolledSink(fd)


def _open_anew(fd: int, mode: int) -> int | None:
    """Open the same object again; None where that is refused (a pipe another user made)."""
    try:
        return os.open(f"/proc/self/fd/{fd}", mode | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


class Outbox:
    """Bytes on their way into one sink, in order; what the sink does not take yet is kept."""

    __slots__ = ("_pieces", "sink", "size")

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.size = 0
        self._pieces: deque[memoryview] = deque()

    def add(self, data: bytes) -> None:
        """Add `data`; `flush` writes it."""
        self._pieces.append(memoryview(data))
        self.size += len(data)

    def put(self, data: bytes) -> None:
        """Add `data` and write what can be written now. Raises `OSError` as the sink does."""
        view = memoryview(data)
        if not self._pieces:
            view = view[self.sink.write(view) :]
        if view:
            self._pieces.append(view)
            self.size += len(view)

    def flush(self) -> None:
        """Write until all is gone or the sink takes no more. Raises `OSError` as the sink does."""
        while self._pieces:
            view = self._pieces.popleft()
            if len(view) < JOINED_WRITE and self._pieces:
                view = self._joined(view)
            taken = self.sink.write(view)
            self.size -= taken
            if taken < len(view):
                self._pieces.appendleft(view[taken:])
                if taken == 0:
                    return

    def clear(self) -> None:
        """Forget everything: nobody will ever read it."""
        self._pieces.clear()
        self.size = 0

    def _joined(self, first: memoryview) -> memoryview:
        joined = bytearray(first)
        while self._pieces and len(joined) + len(self._pieces[0]) <= JOINED_WRITE:
            joined += self._pieces.popleft()
        return memoryview(joined)
