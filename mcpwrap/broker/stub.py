"""The name service of the sandbox, which takes questions and gives the answers of a `Zone`.

What it is asked is the server's, and hostile: a bounded number of questions is taken at a time, and nothing
is kept of them but what is bounded too.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from mcpwrap.broker import dns
from mcpwrap.broker.stubclient import StubClient
from mcpwrap.broker.watches import READABLE, WRITABLE
from mcpwrap.kernel import sockets

if TYPE_CHECKING:
    from mcpwrap.broker.watches import Watches
    from mcpwrap.broker.zone import Zone

QUESTIONS_AT_ONCE: Final = 8
"""Datagrams answered before trapped calls are looked at again. What comes faster waits in the socket, and
beyond its buffer is lost, as questions may be."""

CONNECTIONS: Final = 32
"""TCP connections to the name service; glibc and c-ares keep one each, and close it after the answer."""


class Stub:
    """Answers questions that come to two sockets, one of datagrams and one that listens."""

    def __init__(self, watches: Watches, zone: Zone, datagrams: int, listening: int) -> None:
        """Answer what comes to these sockets, from now on; `datagrams` is -1 where the server has none.

        In the host's network (then there are none) only connections the broker makes are answered.
        """
        self._watches = watches
        self._zone = zone
        self._connections: dict[int, StubClient] = {}
        self._expected: OrderedDict[bytes, bool] | None = None
        if datagrams < 0:
            self._expected = OrderedDict()
        else:
            watches.add(datagrams, READABLE, lambda _: self._read_datagrams(datagrams))
        watches.add(listening, READABLE, lambda _: self._accept(listening))
        watches.add_tick(self._tick)

    def expect(self, own: int) -> None:
        """Answer the other end of the socket `own`, which has just been connected to the one that listens."""
        if self._expected is not None:
            self._expected[sockets.own_name(own)] = True
            if len(self._expected) > CONNECTIONS:
                self._expected.popitem(last=False)

    def _tick(self, now: float) -> None:
        """Let go of what has taken too long."""
        self._zone.tick(now)
        for connection in list(self._connections.values()):
            if now >= connection.until:
                self._close(connection)

    # Datagrams

    def _read_datagrams(self, fd: int) -> None:
        for _ in range(QUESTIONS_AT_ONCE):
            try:
                data, sender = sockets.receive_from(fd, dns.QUERY_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                continue  # what an earlier answer met

            def reply(question: dns.Question, answer: bytes, sender: bytes = sender) -> None:
                self._send(fd, sender, dns.truncated(question) if len(answer) > question.size else answer)

            answer = self._zone.answer(data, reply)
            if answer:
                self._send(fd, sender, answer)

    def _send(self, fd: int, sender: bytes, answer: bytes) -> None:
        try:
            sockets.send_to(fd, answer, sockets.MSG_DONTWAIT, sender)
        except OSError:
            pass  # who asked has gone, or does not read: it asks again

    # Connections

    def _accept(self, listening: int) -> None:
        try:
            fd = sockets.accept(listening)
        except OSError:
            return
        if self._expected is not None and not self._is_expected(fd):
            sockets.reset(fd)
            return
        if len(self._connections) >= CONNECTIONS:
            self._close(min(self._connections.values(), key=lambda each: each.until))
        connection = self._connections[fd] = StubClient(fd)
        self._watches.add(fd, READABLE, lambda _: self._move(connection))

    def _is_expected(self, fd: int) -> bool:
        """Whether the broker made the other end of this connection."""
        assert self._expected is not None
        try:
            return self._expected.pop(sockets.peer_name(fd), False)
        except OSError:
            return False  # reset already, by whomever

    def _move(self, connection: StubClient) -> None:
        """Read what a client asks, answer, and write what it can take."""
        try:
            connection.write()
            if not connection.unsent and not connection.read():
                return self._close(connection)
            for _ in range(QUESTIONS_AT_ONCE):
                message = connection.message()
                if message is None:
                    break
                answer = self._zone.answer(message, lambda _, answer: self._say(connection, answer))
                if answer:
                    connection.put(answer)
            connection.write()
            self._want(connection)
        except (OSError, ValueError):
            self._close(connection)

    def _say(self, connection: StubClient, answer: bytes) -> None:
        """Send an answer that has come later, unless the client has gone."""
        if self._connections.get(connection.fd) is not connection:
            return
        try:
            connection.put(answer)
            connection.write()
            self._want(connection)
        except (OSError, ValueError):
            self._close(connection)

    def _want(self, connection: StubClient) -> None:
        interest = WRITABLE if connection.unsent or connection.complete else READABLE
        self._watches.add(connection.fd, interest, lambda _: self._move(connection))

    def _close(self, connection: StubClient) -> None:
        self._watches.drop(connection.fd)
        del self._connections[connection.fd]
        os.close(connection.fd)
