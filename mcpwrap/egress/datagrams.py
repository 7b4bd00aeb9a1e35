"""UDP for `udp://` rules: every datagram is decided by the windows that are open when it passes.

The broker hands over one socket for each peer, bound inside the sandbox to the address the server believes
to be the peer's. Each socket of the server that sends to it gets a socket of its own on the host, as a NAT
would give it, so that answers find their way back.
"""

from __future__ import annotations

import errno
import select
import socket
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpwrap.egress.given import ASTRAY, RANK, Ended
from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.hosts import spelled

if TYPE_CHECKING:
    from mcpwrap.egress.given import Ground
    from mcpwrap.egress.timers import Timer
    from mcpwrap.policy.hosts import Peer

FLOWS: Final = 256
"""In all; the one that was idle longest makes room."""
IDLE_SECONDS: Final = 60.0
"""RFC 4787 asks a NAT for two minutes; QUIC keeps its own alive every 15 to 30 s."""
WAITING: Final = 8
"""Datagrams kept while their peer is looked up; a burst beyond is lost, as anywhere on the way."""
WAITING_BYTES: Final = 64 * 1024
"""Of them: all flows together then keep 16 MiB."""
TURN: Final = 32
"""Datagrams of one socket a turn."""
MAX_DATAGRAM: Final = 65_535

_IN: Final = select.POLLIN


class _Flow:
    """One socket of the server and its own on the host (None: its peer is being looked up)."""

    __slots__ = (
        "address",
        "began",
        "client",
        "outer",
        "received",
        "rule",
        "sent",
        "used",
        "waiting",
        "windows",
    )

    def __init__(self, client: tuple[str, int], now: float, rule: str, windows: tuple[str, ...]) -> None:
        self.client = client
        self.outer: socket.socket | None = None
        self.address = ""
        self.waiting: deque[bytes] = deque(maxlen=WAITING)
        self.began = self.used = now
        self.sent = self.received = 0
        self.rule, self.windows = rule, windows


class Datagrams:
    """One peer. `inner` is the socket bound inside, ours from now on."""

    def __init__(self, ground: Ground, peer: Peer, inner: socket.socket, book: Book) -> None:
        self.peer = peer
        self._ground = ground
        self._inner = inner
        self._book = book
        self._flows: dict[tuple[str, int], _Flow] = {}
        self._told = ""
        inner.setblocking(False)
        ground.pumps.add(inner.fileno(), _IN, self._on_inner, rank=RANK)

    def close(self) -> None:
        for flow in list(self._flows.values()):
            self._end(flow, "closed")
        self._ground.pumps.drop(self._inner.fileno())
        self._inner.close()

    def review(self) -> None:
        """The grant in force has changed: a refusal is told anew, and so is an address judged."""
        self._told = ""
        effective = self._ground.effective()
        if self.peer.name and effective.connect(self.peer).allowed:
            for flow in list(self._flows.values()):
                if flow.outer is not None and not effective.dial(self.peer, flow.address).allowed:
                    self._end(flow, ASTRAY)

    def _on_inner(self, _events: int) -> None:
        for _ in range(TURN):
            try:
                data, client = self._inner.recvfrom(MAX_DATAGRAM)
            except OSError:
                return
            decision = self._ground.effective().connect(self.peer)
            if decision.allowed:
                self._send(client[:2], data, decision.rule)
            else:
                self._refuse(decision)

    def _refuse(self, decision: Decision, written: str = "", error: int = errno.ECONNREFUSED) -> None:
        if self._told != decision.rule:  # Once; a client that gets no answer sends the same again and again.
            self._told = decision.rule
            self._ground.event(
                Event(Operation("send", Need.CONNECT, spelled(self.peer), written), decision, errno=error)
            )

    def _send(self, client: tuple[str, int], data: bytes, rule: str) -> None:
        flow = self._flows.get(client)
        if flow is None:
            windows = self._ground.effective().windows
            flow = self._flows[client] = _Flow(client, self._ground.clock(), rule, windows)
            self._book.enter(flow, lambda: self._end(flow))
            self._find(flow)
        flow.used = self._ground.clock()
        self._book.touch(flow)
        if flow.outer is None:
            if sum(map(len, flow.waiting)) + len(data) <= WAITING_BYTES:
                flow.waiting.append(data)
            return
        try:
            flow.sent += flow.outer.send(data)
        except OSError:
            pass  # Lost, as datagrams are; an ICMP error of an earlier one is told here as well.

    def _find(self, flow: _Flow) -> None:
        if self.peer.address:
            self._found(flow, [self.peer.address])
        else:
            self._ground.resolver.resolve(self.peer.name, lambda found: self._found(flow, found))

    def _found(self, flow: _Flow, addresses: list[str] | OSError) -> None:
        if self._flows.get(flow.client) is not flow:
            return
        if isinstance(addresses, OSError):
            self._refuse(Decision(False, "unreachable"), str(addresses.strerror), errno.EHOSTUNREACH)
            self._end(flow)
            return
        effective = self._ground.effective()
        for address in addresses:
            decision = effective.dial(self.peer, address)
            if not decision.allowed:
                self._refuse(decision, address)
                continue
            if self._open(flow, address):
                while flow.waiting:
                    self._send(flow.client, flow.waiting.popleft(), flow.rule)
                return
        self._end(flow)

    def _open(self, flow: _Flow, address: str) -> bool:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        outer: socket.socket | None = None
        try:
            outer = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            socket.inet_pton(family, address)
            outer.connect((address, self.peer.port))
        except OSError:
            if outer is not None:
                outer.close()
            return False
        flow.outer, flow.address = outer, address
        self._ground.pumps.add(outer.fileno(), _IN, lambda _events: self._on_outer(flow, outer), rank=RANK)
        return True

    def _on_outer(self, flow: _Flow, outer: socket.socket) -> None:
        for _ in range(TURN):
            try:
                data = outer.recv(MAX_DATAGRAM)
            except OSError:
                return
            if flow.outer is None or not self._ground.effective().connect(self.peer).allowed:
                continue  # Dropped, not kept: nobody waits for a datagram of a call that is over.
            flow.used = self._ground.clock()
            try:
                flow.received += self._inner.sendto(data, flow.client)
            except OSError:
                pass

    def _end(self, flow: _Flow, how: str = "idle") -> None:
        if self._flows.pop(flow.client, None) is None:
            return
        self._book.leave(flow)
        if flow.outer is not None:
            self._ground.pumps.drop(flow.outer.fileno())
            flow.outer.close()
            flow.outer = None
        seconds = self._ground.clock() - flow.began
        counts = flow.sent, flow.received
        self._ground.ended(Ended(self.peer, flow.windows, flow.rule, flow.address, "", *counts, seconds, how))


class Book:
    """All flows of a run, the longest idle first: bounds their number and their age."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._ends: OrderedDict[_Flow, Callable[[], None]] = OrderedDict()
        self._timer: Timer | None = None

    def enter(self, flow: _Flow, end: Callable[[], None]) -> None:
        if len(self._ends) >= FLOWS:
            next(iter(self._ends.values()))()
        self._ends[flow] = end
        if self._timer is None:
            self._timer = self._ground.timers.at(self._ground.clock() + IDLE_SECONDS, self._sweep)

    def touch(self, flow: _Flow) -> None:
        if flow in self._ends:
            self._ends.move_to_end(flow)

    def leave(self, flow: _Flow) -> None:
        self._ends.pop(flow, None)

    def _sweep(self) -> None:
        self._timer = None
        now = self._ground.clock()
        for flow, end in list(self._ends.items()):
            # Answers do not move a flow to the end of the book, so all are looked at.
            if flow.used + IDLE_SECONDS <= now:
                end()
        if self._ends:
            due = min(flow.used for flow in self._ends) + IDLE_SECONDS
            self._timer = self._ground.timers.at(max(due, now + 1.0), self._sweep)
