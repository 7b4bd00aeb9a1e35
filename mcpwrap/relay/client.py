"""The client's two streams, however the client made them."""

from __future__ import annotations

import os

from mcpwrap.relay.streams import Outbox, client_sink, client_source


class Client:
    """Reads what the client sends, writes what it is sent; `reading` and `open` tell what is left of it."""

    def __init__(self, stdin: int = 0, stdout: int = 1) -> None:
        self._source = client_source(stdin)
        self._outbox = Outbox(client_sink(stdout))
        self._given = (stdin, stdout)
        self.reading = True
        """We still read from it."""
        self.open = True
        """It still takes what we write."""

    @property
    def input_fd(self) -> int:
        return self._source.fd

    @property
    def output_fd(self) -> int:
        return self._outbox.sink.fd

    @property
    def waiting(self) -> int:
        """Bytes the client has not taken yet."""
        return self._outbox.size

    def read(self) -> bytes | None:
        """Return what the client sent, None if nothing is there now, `b""` at the end."""
        try:
            return self._source.read()
        except OSError:
            return b""  # A terminal that hung up.

    def send(self, data: bytes) -> None:
        """Have `data` written by the next `flush`."""
        if self.open:
            self._outbox.add(data)

    def flush(self) -> None:
        """Write what waits, as far as the client takes it now. When it is gone, `open` becomes false."""
        if self.open:
            try:
                self._outbox.flush()
            except OSError:
                self.gone()

    def gone(self) -> None:
        """Nobody will read what we write."""
        self.open = False
        self._outbox.clear()

    def close_input(self) -> None:
        """The server reads no more. The client finds out as it would without us: its writes fail."""
        _let_go(self._source.fd, self._given[0])

    def close_output(self) -> None:
        """The server says no more. The client finds out as it would without us: it reads the end."""
        self.open = False
        _let_go(self._outbox.sink.fd, self._given[1])


def _let_go(*fds: int) -> None:
    """Close the objects behind `fds`; the numbers stay taken, so that nothing else is opened under them."""
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in set(fds):
        os.dup2(null, fd, inheritable=False)
    os.close(null)
