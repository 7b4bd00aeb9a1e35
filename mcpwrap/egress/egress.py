"""The relay's side of the network: takes what the broker hands over, and brings it where the grant lets it go.

The way in for a reader: `Egress` is what a run sees, `stream` one connection, `dial` its way out with the
address guard, `flow` its bytes, `datagrams` UDP, `listen` connections from outside. Imported only where a
grant has a rule of the network.
"""

from __future__ import annotations

import errno
import resource
import select
import socket
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from mcpwrap.egress import query
from mcpwrap.egress.channel import Channel
from mcpwrap.egress.datagrams import Book, Datagrams
from mcpwrap.egress.given import RANK, Ground
from mcpwrap.egress.listen import Listeners
from mcpwrap.egress.pipes import Pipes
from mcpwrap.egress.resolve import Resolver
from mcpwrap.egress.side import abort
from mcpwrap.egress.stream import Stream
from mcpwrap.egress.timers import Timers
from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.hosts import Peer, spelled

if TYPE_CHECKING:
    from mcpwrap.egress.channel import Message
    from mcpwrap.egress.dial import Reached
    from mcpwrap.egress.given import Ended, Guard, Pumps
    from mcpwrap.egress.proxy import Proxies
    from mcpwrap.grant.grant import ListenRule

STREAMS: Final = 512
"""Connections at once: six to a host of a browser make 85 hosts."""
STREAM_DESCRIPTORS: Final = 6
"""Of each: two sockets, and two pipes while busy; or one, and those on the way to its host."""
DATAGRAM_SOCKETS: Final = 256
"""UDP peers at once, as many as the broker keeps in mind."""
DESCRIPTORS: Final = 4_096
"""What all of that may need; the usual soft limit is 1,024, and somewhere the hard one."""
OTHER_DESCRIPTORS: Final = 640
"""UDP peers and their flows, what is being accepted, and all that is no connection. Who has used up all of them
keeps the audit from a new file and the memory from being watched."""
TURN_BYTES: Final = 4 * 1024 * 1024
"""What all connections together may move in a turn of the loop: 2 ms of it, so that a cancel is not late."""
LEAST_SHARE: Final = 16 * 1024
MOST_SHARE: Final = 1024 * 1024
"""Bytes of one direction of one connection in a turn, which itself costs as much as 100 KiB."""
MOVING_SECONDS: Final = 0.3
"""A connection over which nothing passed for so long is not moving; the quiet that ends start-up is as long."""
MESSAGES_PER_TURN: Final = 64

_TLS_PORT: Final = 443
_PROXY_VARIABLES: Final = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
_TOO_MANY: Final = Decision(False, "too-many-connections")


class Egress:
    """One run's. Everything happens in callbacks of `pumps` and in `tick`, and nothing ever waits.

    `effective()` is the grant of this moment; call `changed` when it is another. `event` takes refusals and
    failures, `ended` each connection that is over, `say` lines for the user.
    """

    def __init__(
        self,
        fd: int,
        pumps: Pumps,
        *,
        effective: Callable[[], Guard],
        event: Callable[[Event], None],
        ended: Callable[[Ended], None],
        say: Callable[[str], None],
        answers: Callable[[str], Decision],
        any_server_name: bool = False,
        listens: Iterable[ListenRule] = (),
        listening: Callable[[ListenRule], Decision] = lambda _rule: Decision(False, "no-grant"),
        environ: Mapping[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`fd`: the relay's end of the channel, ours from now on. `answers`: may a name be looked up at all.

        `any_server_name`: connections to port 443 need not begin with a TLS hello that names the host.
        `listens`: every `listen` rule there is, and `listening` whether one is in force.
        """
        self._channel = Channel(fd)
        timers = Timers()
        self._ground = Ground(
            pumps,
            timers,
            Pipes(),
            Resolver(pumps, timers, clock),
            effective,
            event,
            ended,
            clock,
        )
        self._answers = answers
        self._any_server_name = any_server_name
        self._streams: dict[Stream, None] = {}
        self._datagrams: OrderedDict[Peer, Datagrams] = OrderedDict()
        self._book = Book(self._ground)
        self._say = say
        self._proxies = _proxies(environ)
        for problem in self._proxies.problems if self._proxies is not None else ():
            say(problem)
        self._most = max(1, min(STREAMS, (_allow_descriptors() - OTHER_DESCRIPTORS) // STREAM_DESCRIPTORS))
        self._listeners = Listeners(self._ground, self._channel, listens, listening, self._splice, say)
        self._listeners.review()
        pumps.add(fd, select.POLLIN, lambda _events: self.hear(), rank=RANK)

    def changed(self) -> None:
        """The grant in force is another: park what it no longer covers, let go on what it covers again.

        What was waiting for a window has been passed on when this returns, so before the call's own bytes.
        """
        for stream in list(self._streams):
            stream.review()
        for each in self._datagrams.values():
            each.review()
        self._listeners.review()

    def deadline(self) -> float | None:
        """Return when `tick` is to be called, None if nothing waits for a time."""
        return self._ground.timers.deadline()

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._ground.timers.tick(now)

    @property
    def moving(self) -> bool:
        """Whether a connection only `[startup]` grants is still being made or moves bytes."""
        since = self._ground.clock() - MOVING_SECONDS
        return any(
            stream.rule.startswith("startup.") and not stream.parked and stream.moved >= since
            for stream in self._streams
        )

    def close(self) -> None:
        """End everything; the rest of the audit is told."""
        self._ground.pumps.drop(self._channel.fd)
        self._listeners.close()
        for stream in list(self._streams):
            stream.end("the server ended")
        for each in self._datagrams.values():
            each.close()
        self._ground.resolver.close()
        self._ground.pipes.close()
        self._channel.close()

    # What the broker says

    def hear(self) -> None:
        """Take in what the broker has handed over by now: connections of a call before its window closes."""
        faults = self._channel.faults
        for _ in range(MESSAGES_PER_TURN):
            message = self._channel.receive()
            if message is None:
                break
            self._take(message)
        if self._channel.faults > faults == 0:
            self._say("the broker sent what is no message of its channel; it was dropped")
        if not self._channel.open:
            self._ground.pumps.drop(self._channel.fd)

    def _take(self, message: Message) -> None:
        fields = message.fields
        match message.kind:
            case "stream":
                peer = Peer(fields["name"], fields["address"], fields["port"], "tcp")
                self._connected(socket.socket(fileno=message.fd), peer, tuple(fields["windows"]))
            case "datagram":
                peer = Peer(fields["name"], fields["address"], fields["port"], "udp")
                self._open_datagrams(socket.socket(fileno=message.fd), peer)
            case "query":
                self._query(fields["id"], fields["data"])
            case "reached":
                self._listeners.reached(fields["id"], socket.socket(fileno=message.fd))
            case "unreachable":
                self._listeners.unreachable(fields["id"])

    # Connections

    def _connected(self, server: socket.socket, peer: Peer, windows: tuple[str, ...]) -> None:
        if len(self._streams) >= self._most:
            operation = Operation("connect", Need.CONNECT, spelled(peer))
            self._ground.event(Event(operation, _TOO_MANY, windows, errno.ECONNRESET))
            abort(server)
            return
        # An address is its own proof: who connects to it can be nowhere else. A name is one of many at it.
        greets = bool(peer.name) and peer.port == _TLS_PORT and not self._any_server_name
        stream = Stream(
            self._ground,
            peer,
            windows,
            server,
            covered=lambda: self._ground.effective().connect(peer),
            share=self._share,
            gone=self._forget,
            proxy=self._proxies.for_peer(peer) if self._proxies is not None else None,
            greets=greets and peer.name != "localhost",
        )
        self._streams[stream] = None
        stream.begin()

    def _splice(
        self, inner: socket.socket, reached: Reached, peer: Peer, covered: Callable[[], Decision]
    ) -> None:
        if len(self._streams) >= self._most:
            inner.close()
            reached.socket.close()
            return
        stream = Stream(
            self._ground,
            peer,
            self._ground.effective().windows,
            inner,
            covered=covered,
            share=self._share,
            gone=self._forget,
            reached=reached,
        )
        self._streams[stream] = None
        stream.begin()

    def _forget(self, stream: Stream) -> None:
        self._streams.pop(stream, None)

    def _share(self) -> int:
        return max(LEAST_SHARE, min(MOST_SHARE, TURN_BYTES // (len(self._streams) or 1)))

    # Datagrams and questions

    def _open_datagrams(self, inner: socket.socket, peer: Peer) -> None:
        before = self._datagrams.pop(peer, None)
        if before is not None:
            before.close()
        elif len(self._datagrams) >= DATAGRAM_SOCKETS:
            self._datagrams.popitem(last=False)[1].close()
        self._datagrams[peer] = Datagrams(self._ground, peer, inner, self._book)

    def _query(self, number: int, text: str) -> None:
        try:
            data = bytes.fromhex(text)
        except ValueError:
            data = b""
        asked = query.question(data)
        if asked is None or not any(self._answers(each).allowed for each in query.names_of(asked[0])):
            self._channel.send("answer", id=number, data="")
            return

        def answered(answer: bytes | OSError) -> None:
            self._channel.send("answer", id=number, data="" if isinstance(answer, OSError) else answer.hex())

        self._ground.resolver.run(lambda: query.ask(data), answered)


def _proxies(environ: Mapping[str, str]) -> Proxies | None:
    if not any(environ.get(name) or environ.get(name.lower()) for name in _PROXY_VARIABLES):
        return None
    from mcpwrap.egress.proxy import Proxies

    return Proxies(environ)


def _allow_descriptors() -> int:
    """Return how many descriptors may be open, after asking for as many as can be of use."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
