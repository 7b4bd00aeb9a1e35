"""One TCP client of the name service: whole messages in, answers out as fast as it reads them; RFC 1035, 4.2.2."""

from __future__ import annotations

import os
import time
from typing import Final

from mcpwrap.broker import dns

IDLE_SECONDS: Final = 10.0
UNSENT_BYTES: Final = 128 * 1024
"""Answers a TCP client has not read yet: two of the largest."""

_LENGTH_BYTES: Final = 2
"""Before each message over TCP."""


class StubClient:
    """One TCP client of the name service."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.until = time.monotonic() + IDLE_SECONDS
        self.unsent = b""
        self._received = b""

    @property
    def complete(self) -> bool:
        """Whether a whole message waits to be answered."""
        return len(self._received) >= _LENGTH_BYTES + self._length()

    def _length(self) -> int:
        length = int.from_bytes(self._received[:_LENGTH_BYTES], "big")
        if length > dns.QUERY_BYTES:
            raise ValueError("no query is as long as that")
        return length

    def read(self) -> bool:
        """Take what has come, if nothing complete waits; False at the client's end."""
        if self.complete:
            return True
        try:
            data = os.read(self.fd, dns.QUERY_BYTES)
        except BlockingIOError:
            return True
        self._received += data
        return bool(data)

    def message(self) -> bytes | None:
        """Return the next complete message."""
        if not self.complete:
            return None
        end = _LENGTH_BYTES + self._length()
        message, self._received = self._received[_LENGTH_BYTES:end], self._received[end:]
        self.until = time.monotonic() + IDLE_SECONDS
        return message

    def put(self, answer: bytes) -> None:
        """Queue an answer. Raises ValueError if the client does not read."""
        if len(self.unsent) > UNSENT_BYTES:
            raise ValueError("the client does not read")
        self.unsent += len(answer).to_bytes(_LENGTH_BYTES, "big") + answer

    def write(self) -> None:
        """Write as much of the queue as the client takes now."""
        while self.unsent:
            try:
                sent = os.write(self.fd, self.unsent)
            except BlockingIOError:
                return
            self.unsent = self.unsent[sent:]
