"""UDP: each datagram by the windows that are open when it passes; flows as a NAT keeps them."""

from __future__ import annotations

import socket
import threading

import pytest

from mcpwrap.egress import datagrams, resolve
from mcpwrap.egress.given import ASTRAY
from tests.unit.egress.outside import Outside


def udp() -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))
    return made


class Pair:
    """A peer of the host, and the address inside that stands for it."""

    def __init__(self, outside: Outside, name: str = "") -> None:
        self.host, inner = udp(), udp()
        self.inside = inner.getsockname()
        port = self.host.getsockname()[1]
        address = "" if name else "127.0.0.1"
        outside.send(inner.fileno(), kind="datagram", name=name, address=address, port=port)
        inner.close()
        outside._made.append(self.host)

    def client(self, outside: Outside) -> socket.socket:
        made = udp()
        outside._made.append(made)
        return made


def test_datagrams_pass_both_ways_and_flows_are_kept_apart() -> None:
    with Outside() as outside:
        pair = Pair(outside)
        clients = [pair.client(outside) for _ in range(2)]
        for number, client in enumerate(clients):
            client.sendto(b"q%d" % number, pair.inside)
        seen: dict[bytes, tuple[str, int]] = {}
        pair.host.setblocking(False)
        while len(seen) < 2:
            outside.turn(0.05)
            try:
                data, where = pair.host.recvfrom(100)
            except BlockingIOError:
                continue
            seen[data] = where
        for data, where in seen.items():
            pair.host.sendto(b"a" + data, where)
        assert outside.read(clients[0]) == b"aq0" and outside.read(clients[1]) == b"aq1"
        assert clients[0].getsockname() not in seen.values()


def test_little_is_kept_while_a_peer_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every flow there may be: a name whose look-up hangs is its owner's to make."""
    known = threading.Event()
    monkeypatch.setattr(resolve, "addresses_of", lambda _name: [known.wait(10) and "127.0.0.1"])
    with Outside() as outside:
        host, inner = udp(), udp()
        outside._made.append(host)
        port = host.getsockname()[1]
        outside.send(inner.fileno(), kind="datagram", name="slow.example", address="", port=port)
        outside.settle()
        with udp() as client:
            for _ in range(20):
                client.sendto(bytes(30_000), inner.getsockname())
            outside.settle()
            known.set()
            host.setblocking(False)
            sizes: list[int] = []
            outside.until(lambda: _received(host, sizes))
            while _received(host, sizes):
                pass
            assert sum(sizes) <= datagrams.WAITING_BYTES and set(sizes) == {30_000}
        inner.close()


def _received(host: socket.socket, sizes: list[int]) -> bool:
    try:
        sizes.append(len(host.recv(65_535)))
    except BlockingIOError:
        return False
    return True


def test_what_no_open_window_covers_is_dropped_and_told_once() -> None:
    with Outside() as outside:
        pair = Pair(outside)
        client = pair.client(outside)
        client.sendto(b"first", pair.inside)
        assert outside.read(pair.host) == b"first"
        outside.set_open(False)
        for _ in range(5):
            client.sendto(b"smuggled", pair.inside)
        assert outside.silent(pair.host)
        (event,) = outside.events
        assert event.operation.act == "send" and event.operation.object.startswith("udp://127.0.0.1:")
        outside.set_open(True)
        client.sendto(b"later", pair.inside)
        assert outside.read(pair.host) == b"later"


def test_an_answer_after_the_window_is_dropped() -> None:
    with Outside() as outside:
        pair = Pair(outside)
        client = pair.client(outside)
        client.sendto(b"q", pair.inside)
        outside.until(lambda: outside.progress() and outside.egress._book._ends)
        outside.settle()
        data, where = pair.host.recvfrom(10)
        outside.set_open(False)
        pair.host.sendto(b"late", where)
        assert data == b"q" and outside.silent(client)
        outside.set_open(True)
        assert outside.silent(client)


def test_a_guarded_address_gets_nothing() -> None:
    with Outside() as outside:
        outside.grant.guarded = {"127.0.0.1"}
        pair = Pair(outside)
        pair.client(outside).sendto(b"x", pair.inside)
        outside.until(lambda: outside.events)
        assert outside.silent(pair.host)
        assert outside.events[0].decision.rule == "address-guard:private"


def test_a_flow_that_one_grant_let_a_name_make_is_judged_anew_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resolve, "addresses_of", lambda _name: ["127.0.0.1"])
    with Outside() as outside:
        pair = Pair(outside, name="intra.example")
        client = pair.client(outside)
        client.sendto(b"first", pair.inside)
        assert outside.read(pair.host) == b"first"
        outside.grant.guarded = {"127.0.0.1"}
        outside.egress.changed()
        client.sendto(b"of the next call", pair.inside)
        outside.until(lambda: outside.events)
        assert outside.silent(pair.host)
        assert outside.events[0].decision.rule == "address-guard:private"
        assert outside.ended[0].how == ASTRAY


def test_an_idle_flow_is_given_up_after_a_minute_and_counted() -> None:
    with Outside() as outside:
        pair = Pair(outside)
        pair.client(outside).sendto(b"12345", pair.inside)
        assert outside.read(pair.host) == b"12345"
        outside.later = datagrams.IDLE_SECONDS + 2
        outside.until(lambda: outside.ended)
        (ended,) = outside.ended
        assert ended.sent == 5 and ended.peer.protocol == "udp"
        assert ended.windows == ("w1",) and ended.how == "idle"


def test_the_flow_idle_longest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagrams, "FLOWS", 3)
    with Outside() as outside:
        pair = Pair(outside)
        clients = [pair.client(outside) for _ in range(4)]
        for client in clients:
            client.sendto(b"x", pair.inside)
            outside.settle()
            pair.host.recv(10)
        assert len(outside.ended) == 1 and len(outside.egress._book._ends) == 3
