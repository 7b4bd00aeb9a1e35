"""What the broker says to the relay's end of the network, and hears: JSON datagrams, each with one descriptor at most.

broker → relay   {"kind": "stream", "name", "address", "port", "windows"} and a connected TCP socket
                 {"kind": "datagram", "name", "address", "port"} and a UDP socket that has that address inside
                 {"kind": "query", "id", "data": a DNS message in hexadecimal digits}
                 {"kind": "reached", "id"} and a connected TCP socket, or {"kind": "unreachable", "id", "errno"}
relay → broker   {"kind": "answer", "id", "data"}
                 {"kind": "reach", "id", "port"}
"""

from __future__ import annotations

import errno
import json
import os
import select
from typing import TYPE_CHECKING, Final

from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

MESSAGE_BYTES: Final = 4_096
"""Of one datagram from broker to relay: all of them are short but `query`, and a query has 1,024 bytes."""
ANSWER_BYTES: Final = 132 * 1024
"""Of one datagram from relay to broker: a DNS message over TCP has 64 KiB at most, twice that in digits."""
MESSAGES_AT_ONCE: Final = 16
"""Read before trapped calls are looked at again."""

_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class ChannelFull(OSError):
    """The relay does not keep up: what was to be handed over must be refused. An OSError ECONNREFUSED."""

    def __init__(self) -> None:
        super().__init__(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


class Channel:
    """The broker's end, which never blocks."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._room = select.poll()
        self._room.register(fd, select.POLLOUT)

    def require_room(self) -> None:
        """Raise ChannelFull unless the next message will be taken: to be asked before anything is connected."""
        ready = self._room.poll(0)
        if not ready or ready[0][1] != select.POLLOUT:
            raise ChannelFull

    def send(self, passed: int | None = None, **message: object) -> None:
        """Send one message. Raises ChannelFull."""
        data = _encode(message).encode("ascii")
        if len(data) > MESSAGE_BYTES:
            raise failure(errno.EMSGSIZE)
        try:
            sockets.send_with(self.fd, data, passed)
        except OSError as error:
            raise ChannelFull from error

    def receive(self) -> Iterator[dict[str, object] | None]:
        """Yield the messages that have come; None if the relay has closed its end."""
        for _ in range(MESSAGES_AT_ONCE):
            try:
                data, passed = sockets.receive_with(self.fd, ANSWER_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data, passed = b"", ()
            for fd in passed:
                os.close(fd)  # the relay has none to give
            if not data:
                yield None
                return
            message = json.loads(data)
            if isinstance(message, dict):
                yield message
