"""The server as the relay sees it: its pipes, what the stem tells of it, and how it is signalled and ended."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
from typing import Final, Protocol

from mcpwrap.relay.status import LineReader, Told
from mcpwrap.relay.streams import Outbox, PipeSink, PipeSource

FREEZE: Final = b"f"
"""One request on the pipe to pid 1; any byte is one."""


class Child(Protocol):
    """What starting a sandbox returns: the stem's process, and our ends of the pipes, close-on-exec.

    `stdin`, `stdout`, `stderr` are the server's. `records` and `status` are read, `life` is held open:
    when it closes, the stem ends the tree. `freeze` asks for a read-only `$CACHE`, -1 where that never is.
    """

    @property
    def pid(self) -> int: ...

    @property
    def pidfd(self) -> int: ...

    @property
    def stdin(self) -> int: ...

    @property
    def stdout(self) -> int: ...

    @property
    def stderr(self) -> int: ...

    @property
    def records(self) -> int: ...

    @property
    def status(self) -> int: ...

    @property
    def life(self) -> int: ...

    @property
    def network(self) -> int: ...

    @property
    def freeze(self) -> int: ...


class Server:
    """The running server. Methods never raise for a process that is already gone."""

    def __init__(self, child: Child, told: bytes = b"") -> None:
        """`told` was read from the status pipe already."""
        self.told = Told()
        self.output = PipeSource(child.stdout)
        self.errors = PipeSource(child.stderr)
        self.records = LineReader(child.records)
        self.status = LineReader(child.status, told)
        self.reading = True
        """We still read its stdout."""
        self.input_open = True
        """Its stdin is still open."""
        self._input = Outbox(PipeSink(child.stdin))
        self._child = child
        self._life = child.life
        self._pidfd = -1
        self._peek = -1
        for fd in (child.stdin, child.stdout, child.stderr, child.records, child.status):
            os.set_blocking(fd, False)

    @property
    def input_fd(self) -> int:
        return self._child.stdin

    @property
    def waiting(self) -> int:
        """Bytes the server's stdin has not taken yet."""
        return self._input.size

    def send(self, data: bytes) -> None:
        """Have `data` written to its stdin by the next `flush`."""
        if self.input_open:
            self._input.add(data)

    def flush(self) -> bool:
        """Write what waits, as far as it is taken now. Return whether its stdin is still read at all."""
        try:
            self._input.flush()
        except OSError:
            return False
        return True

    def close_input(self, *, read: bool) -> None:
        """Give its stdin the end, and forget what it has not taken. `read`: it still reads what it has taken."""
        if self.input_open:
            self.input_open = False
            self._input.clear()
            # The other end of the same pipe, to see later how much of it has been read.
            try:
                if read:
                    self._peek = os.open(
                        f"/proc/self/fd/{self._child.stdin}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
                    )
            except OSError:
                pass
            os.close(self._child.stdin)

    def unread(self) -> bool:
        """Tell whether the server has not read all that was written to its stdin."""
        fd = self._child.stdin if self.input_open else self._peek
        if fd < 0:
            return False
        count = bytearray(4)
        fcntl.ioctl(fd, termios.FIONREAD, count)
        return any(count)

    def read_status(self) -> None:
        """Take in what the stem wrote to the status pipe."""
        for line in self.status.lines():
            self.told.take(line)
        if self.told.pid and self._pidfd < 0:
            self._pidfd = self._open_server(self.told.pid)

    @property
    def freezes(self) -> bool:
        """Whether `$CACHE` has to become read-only before start-up may end."""
        return self._child.freeze >= 0

    def freeze(self) -> None:
        """Have pid 1 of the sandbox make `$CACHE` read-only; `told.frozen` is None until it has answered."""
        self.told.frozen = None
        try:
            os.write(self._child.freeze, FREEZE)
        except BrokenPipeError:
            pass  # It is gone, and the whole tree with it.

    def signal(self, number: int) -> None:
        """Send a signal to the server itself; before it was started, to nobody."""
        if self._pidfd >= 0:
            try:
                signal.pidfd_send_signal(self._pidfd, number)
            except (ProcessLookupError, PermissionError):
                pass  # Gone, or it changed its user: the life pipe ends it.

    def end_tree(self) -> None:
        """Have the stem kill every process of the sandbox."""
        if self._life >= 0:
            os.close(self._life)
            self._life = -1

    def kill_stem(self) -> None:
        """Kill the stem itself: pid 1 of the sandbox dies with it, and everything else with pid 1."""
        self.end_tree()
        try:
            signal.pidfd_send_signal(self._child.pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def stem_gone(self, seconds: float) -> bool:
        """Wait at most `seconds` for the stem to exit, reap it, and return whether it has."""
        poll = select.poll()
        poll.register(self._child.pidfd, select.POLLIN)
        if not poll.poll(int(seconds * 1000)):
            return False
        try:
            os.waitpid(self._child.pid, os.WNOHANG)
        except ChildProcessError:
            pass
        return True

    def _open_server(self, pid: int) -> int:
        """Return a pidfd of the server if `pid` is still the stem's child, or its keeper's, else -1."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return -1
        parent = _parent(pid)
        if self._child.pid in (parent, _parent(parent)):
            return pidfd
        os.close(pidfd)
        return -1


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name in parentheses may hold anything; the fields after the last one do not.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0
