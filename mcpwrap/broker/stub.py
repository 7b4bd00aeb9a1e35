"""The name service of the sandbox: says which names have an address here, and refuses the rest.

It answers the union of all grants, since a refusal may be remembered longer than a window lasts; what a
window allows is decided when the address is connected to. What it is asked is the server's, and hostile:
a bounded number of questions is taken at a time, and nothing is kept of them but what is bounded too.
"""

from __future__ import annotations

import errno
import os
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.broker import dns
from mcpwrap.broker.address import LOOPBACK, LOOPBACK6
from mcpwrap.broker.channel import ChannelFull
from mcpwrap.broker.stubclient import StubClient
from mcpwrap.broker.watches import READABLE, WRITABLE
from mcpwrap.kernel import sockets
from mcpwrap.operation import Need

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.channel import Channel
    from mcpwrap.broker.names import Names
    from mcpwrap.broker.verdict import Verdicts
    from mcpwrap.broker.watches import Watches
    from mcpwrap.operation import Decision

QUESTIONS_AT_ONCE: Final = 8
"""Datagrams answered before trapped calls are looked at again. What comes faster waits in the socket, and
beyond its buffer is lost, as questions may be."""

CONNECTIONS: Final = 32
"""TCP connections to the name service; glibc and c-ares keep one each, and close it after the answer."""
QUESTIONS_AWAY: Final = 64
"""Questions the relay has been asked and has not answered."""
AWAY_SECONDS: Final = 10.0
"""Programs give up on a question after 5 to 10 seconds."""

REMEMBERED_NAMES: Final = 4_096
"""Refused names that are told once while the same windows are open; beyond, each is told again."""


class _Away(NamedTuple):
    question: dns.Question
    reply: Callable[[dns.Question, bytes], None]
    until: float


class Stub:
    """Answers questions that come to two sockets, one of datagrams and one that listens."""

    def __init__(
        self,
        watches: Watches,
        channel: Channel,
        names: Names,
        verdicts: Verdicts,
        answers: Callable[[str], Decision],
        forwards: Callable[[str], bool],
        on_address: Callable[[str, bytes], None],
    ) -> None:
        """`answers` decides which names have an address, `forwards` which other questions about them are
        asked outside; `on_address` is called when a name is told to have an address.
        """
        self._watches = watches
        self._channel = channel
        self._names = names
        self._verdicts = verdicts
        self._answers = answers
        self._forwards = forwards
        self._on_address = on_address
        self._connections: dict[int, StubClient] = {}
        self._away: dict[int, _Away] = {}
        self._asked = 0
        self._told: set[str] = set()
        self._told_of = -1
        self._expected: OrderedDict[bytes, bool] | None = None

    def serve(self, datagrams: int, listening: int) -> None:
        """Answer what comes to these sockets, from now on; `datagrams` is -1 where the server has none.

        In the host's network (then there are none) only connections the broker makes are answered.
        """
        if datagrams < 0:
            self._expected = OrderedDict()
        else:
            self._watches.add(datagrams, READABLE, lambda _: self._read_datagrams(datagrams))
        self._watches.add(listening, READABLE, lambda _: self._accept(listening))

    def expect(self, own: int) -> None:
        """Answer the other end of the socket `own`, which has just been connected to the one that listens."""
        if self._expected is not None:
            self._expected[sockets.own_name(own)] = True
            if len(self._expected) > CONNECTIONS:
                self._expected.popitem(last=False)

    def tick(self, now: float) -> None:
        """Let go of what has taken too long."""
        for ident, away in list(self._away.items()):
            if now >= away.until:
                del self._away[ident]
                away.reply(away.question, dns.respond(away.question, dns.SERVER_FAILURE))
        for connection in list(self._connections.values()):
            if now >= connection.until:
                self._close(connection)

    def answered(self, ident: object, data: object) -> None:
        """Pass on what the relay was told for question `ident`: a DNS message in hexadecimal digits."""
        away = self._away.pop(ident, None) if isinstance(ident, int) else None
        if away is None or not isinstance(data, str):
            return
        try:
            answer = dns.returned(away.question, bytes.fromhex(data))
        except ValueError:
            answer = None
        away.reply(away.question, answer or dns.respond(away.question, dns.SERVER_FAILURE))

    def _answer(self, data: bytes, reply: Callable[[dns.Question, bytes], None]) -> bytes:
        """Return the answer to one message; empty if there is none, or none yet."""
        try:
            question = dns.parse(data)
        except dns.Unanswerable as problem:
            return problem.answer
        name = question.name
        if name == "localhost" or name.endswith(".localhost"):
            return self._loopback(question)
        host = dns.reverse_address(name)
        if host is not None or name.endswith(".arpa"):
            known = self._names.name(host) if host is not None and question.kind == dns.PTR else None
            if known is None:
                return dns.respond(question, dns.NO_SUCH_NAME)
            return dns.respond(question, dns.NO_ERROR, dns.pointer(known))
        if not name:
            return dns.respond(question, dns.REFUSED)
        if question.kind in (dns.SRV, dns.TXT):
            return self._forward(question, reply)
        if not self._answers(name).allowed:
            return self._refuse(question)
        if question.kind not in (dns.A, dns.ANY):
            return dns.respond(question, dns.NO_ERROR)
        address = self._names.address(name)
        if address is None:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._on_address(name, address)
        return dns.respond(question, dns.NO_ERROR, dns.address(address))

    def _loopback(self, question: dns.Question) -> bytes:
        """Answer for `localhost` and what is below it, which never is a question to the outside (RFC 6761)."""
        host = {dns.A: LOOPBACK, dns.ANY: LOOPBACK, dns.AAAA: LOOPBACK6}.get(question.kind)
        return dns.respond(question, dns.NO_ERROR, *([dns.address(host)] if host else []))

    def _forward(self, question: dns.Question, reply: Callable[[dns.Question, bytes], None]) -> bytes:
        """Have the relay ask the host's resolver, for names that the grant itself names.

        `_service._tcp.host` is of `host`. A name that only an argument named is not asked for, nor one that no
        open window grants: the question itself would tell somebody something.
        """
        labels = question.name.split(".")
        while labels and labels[0].startswith("_"):
            del labels[0]
        names = (".".join(labels), question.name)
        if not any(self._answers(name).allowed for name in names):
            return self._refuse(question)
        if not any(map(self._forwards, names)):
            return dns.respond(question, dns.NO_ERROR)
        self._verdicts.refresh()
        asked = [self._verdicts.effective.asks(name) for name in names]
        if not any(decision.allowed for decision in asked):
            self._tell(question.name, asked[0])
            return dns.respond(
                question, dns.SERVER_FAILURE
            )  # "no such name" would be remembered beyond the call
        if len(self._away) >= QUESTIONS_AWAY:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._asked += 1
        try:
            self._channel.send(kind="query", id=self._asked, data=dns.forwarded(question).hex())
        except ChannelFull:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._away[self._asked] = _Away(question, reply, time.monotonic() + AWAY_SECONDS)
        return b""

    def _refuse(self, question: dns.Question) -> bytes:
        """Say that there is no such name."""
        self._verdicts.refresh()
        self._tell(question.name, self._answers(question.name))
        return dns.respond(question, dns.NO_SUCH_NAME)

    def _tell(self, name: str, decision: Decision) -> None:
        """Record a refusal, once while the same windows are open."""
        verdicts = self._verdicts
        if verdicts.generation != self._told_of or len(self._told) >= REMEMBERED_NAMES:
            self._told.clear()
            self._told_of = verdicts.generation
        if name not in self._told:
            self._told.add(name)
            verdicts.record("lookup", Need.CONNECT, name, decision, errno=errno.ENOENT)

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

            answer = self._answer(data, reply)
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
                answer = self._answer(message, lambda _, answer: self._say(connection, answer))
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
