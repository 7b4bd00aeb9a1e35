"""Egress on a loop of its own with a fake grant and real sockets: the test plays broker, server and host.

Every wait is bounded; time is the real clock unless a test moves `Outside.later`.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from mcpwrap.egress.egress import Egress
from mcpwrap.egress.given import Ended
from mcpwrap.grant.grant import ListenRule
from mcpwrap.operation import Decision, Event
from mcpwrap.policy.hosts import Peer
from mcpwrap.relay.pumps import Pumps

SECONDS = 10.0
YES = Decision(True, "tools.t.net[0]")
NO = Decision(False, "no-grant")


class Grant:
    """Covers every peer while `open`; dials every address but those in `guarded`."""

    windows: tuple[str, ...] = ("w1",)

    def __init__(self) -> None:
        self.open = True
        self.rule = YES.rule
        self.guarded: set[str] = set()
        self.judged: list[str] = []

    def connect(self, peer: Peer) -> Decision:  # noqa: ARG002
        return Decision(True, self.rule) if self.open else NO

    def dial(self, peer: Peer, address: str) -> Decision:  # noqa: ARG002
        self.judged.append(address)
        return Decision(False, "address-guard:private") if address in self.guarded else YES


class Outside:
    """`later`: seconds the clock is ahead."""

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        listens: tuple[ListenRule, ...] = (),
        any_server_name: bool = True,
        listening: Callable[[ListenRule], Decision] | None = None,
    ) -> None:
        self.grant = Grant()
        self.pumps = Pumps()
        self.events: list[Event] = []
        self.ended: list[Ended] = []
        self.said: list[str] = []
        self.later = 0.0
        self._broker, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._broker.settimeout(SECONDS)
        self._made: list[socket.socket] = [self._broker]
        self.egress = Egress(
            ours.detach(),
            self.pumps,
            effective=lambda: self.grant,
            event=self.events.append,
            ended=self.ended.append,
            say=self.said.append,
            answers=lambda name: YES if name.endswith("granted.example") else NO,
            any_server_name=any_server_name,
            listens=listens,
            listening=listening or (lambda _rule: self.grant.connect(Peer("", "", 0, "tcp"))),
            environ=environ or {},
            clock=self.clock,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.egress.close()
        for each in self._made:
            each.close()

    def clock(self) -> float:
        return time.monotonic() + self.later

    def set_open(self, value: bool) -> None:
        """Open or close the window that grants everything."""
        self.grant.open = value
        self.egress.changed()

    # The loop

    def turn(self, seconds: float = 0.0) -> None:
        due = self.egress.deadline()
        if due is not None:
            seconds = min(seconds, max(0.0, due - self.clock()))
        self.pumps.turn(seconds)
        self.egress.tick(self.clock())

    def until(self, ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not ready():
            assert time.monotonic() < deadline, "it did not happen in time"
            self.turn(0.02)

    def settle(self) -> None:
        """Let everything happen that can without anything new."""
        quiet = 0
        while quiet < 3:
            before = self.progress()
            self.turn(0.01)
            quiet = quiet + 1 if self.progress() == before else 0

    def waits(self) -> bool:
        """Whether the loop has nothing to do: it waits for as long as it may."""
        self.settle()
        before = time.monotonic()
        self.pumps.turn(0.2)
        return time.monotonic() - before >= 0.19

    def progress(self) -> tuple[int, ...]:
        streams = self.egress._streams
        return (len(streams), *(sum(each.bytes) for each in streams), len(self.events), len(self.ended))

    # What the broker does

    def send(self, fd: int = -1, **message: Any) -> None:
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))] if fd >= 0 else []
        self._broker.sendmsg([json.dumps(message).encode()], ancillary)

    def received(self) -> tuple[dict[str, Any], int]:
        """Return the next message egress sent to the broker, bounded."""
        self._broker.setblocking(False)
        found: list[bytes] = []

        def there() -> bool:
            try:
                found.append(self._broker.recv(4096))
            except BlockingIOError:
                return False
            return True

        self.until(there)
        return json.loads(found[0]), len(found[0])

    def connect(self, name: str = "", address: str = "", port: int = 80) -> socket.socket:
        """Return the server's end of a connection the broker has let in."""
        server, accepted = tcp_pair()
        self._made.append(server)
        self.send(accepted.fileno(), kind="stream", name=name, address=address, port=port, windows=["w1"])
        accepted.close()
        return server

    def host(self, address: str = "127.0.0.1") -> socket.socket:
        """Return a listener of the host."""
        listener = socket.create_server((address, 0))
        listener.settimeout(SECONDS)
        self._made.append(listener)
        return listener

    def joined(self, **peer: Any) -> tuple[socket.socket, socket.socket]:
        """Return the server's end and the host's end of a connection that is through."""
        listener = self.host()
        port = listener.getsockname()[1]
        server = self.connect(**({"address": "127.0.0.1", "port": port} | peer))
        listener.setblocking(False)
        found: list[socket.socket] = []

        def there() -> bool:
            try:
                found.append(listener.accept()[0])
            except BlockingIOError:
                return False
            return True

        self.until(there)
        self._made.append(found[0])
        self.settle()
        return server, found[0]

    def read(self, end: socket.socket, size: int = 65536) -> bytes:
        """Return what comes; nothing at the end. Raises ConnectionResetError as the socket does."""
        end.setblocking(False)
        found: list[bytes] = []

        def there() -> bool:
            try:
                found.append(end.recv(size))
            except BlockingIOError:
                return False
            return True

        self.until(there)
        return found[0]

    def silent(self, end: socket.socket) -> bool:
        """Whether nothing came, nor the end, after all that could happen has happened."""
        self.settle()
        end.setblocking(False)
        try:
            end.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        return False


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return two connected TCP sockets: who connected, and who accepted."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        first = socket.create_connection(listener.getsockname())
        second, _ = listener.accept()
    return first, second


def reset(end: socket.socket) -> None:
    """Close with RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
