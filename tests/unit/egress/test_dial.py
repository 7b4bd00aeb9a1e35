"""The way to a peer: whatever a name resolves to, only an address that was judged is dialed."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mcpwrap.egress import dial, resolve
from mcpwrap.egress.proxy import Proxies
from mcpwrap.egress.resolve import FRESH_SECONDS
from mcpwrap.policy.hosts import Peer
from tests.unit.egress.outside import Outside, descriptors

BLACK_HOLE = "192.0.2.1"


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str] | Iterator[list[str]]]:
    """Return what names resolve to: a list, or one after another."""
    table: dict[str, list[str] | Iterator[list[str]]] = {}

    def addresses_of(name: str) -> list[str]:
        found = table.get(name)
        if found is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return found if isinstance(found, list) else next(found)

    monkeypatch.setattr(resolve, "addresses_of", addresses_of)
    return table


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_a_name_is_resolved_on_the_host_and_reached(names: dict[str, list[str]]) -> None:
    names["api.example"] = ["127.0.0.1"]
    with Outside() as outside:
        server, host = outside.joined(name="api.example", address="")
        server.sendall(b"hello")
        assert outside.read(host) == b"hello"
        assert set(outside.grant.judged) == {"127.0.0.1"}


def test_a_name_that_leads_to_a_guarded_address_is_never_dialed(names: dict[str, list[str]]) -> None:
    names["evil.example"] = ["127.0.0.1"]
    with Outside() as outside:
        listener = outside.host()
        outside.grant.guarded = {"127.0.0.1"}
        server = outside.connect(name="evil.example", port=port_of(listener))
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        (event,) = outside.events
        assert event.decision.rule == "address-guard:private"
        assert event.operation.written == "evil.example is 127.0.0.1"


def test_a_name_bound_anew_after_it_was_judged_leads_to_what_was_judged(
    names: dict[str, Iterator[list[str]]],
) -> None:
    """The first answer passes the guard, the second would not; nobody asks a second time."""
    answers = iter([["127.0.0.1"], ["127.0.0.2"]])
    names["turns.example"] = answers
    with Outside() as outside:
        outside.grant.guarded = {"127.0.0.2"}
        server, host = outside.joined(name="turns.example", address="")
        server.sendall(b"x")
        assert outside.read(host) == b"x"
        assert outside.grant.judged == ["127.0.0.1"] * 2, "before it is dialed, and when it is there"
        # Judged again, whoever asks: a connection that follows at once has the same answer.
        server, host = outside.joined(name="turns.example", address="")
        assert outside.grant.judged == ["127.0.0.1"] * 4
        outside.later += FRESH_SECONDS
        # Bound anew from now on: the next connection is refused.
        again = outside.connect(name="turns.example", port=80)
        with pytest.raises(ConnectionResetError):
            outside.read(again)
        assert outside.events[0].operation.written.endswith("127.0.0.2")


def test_an_answer_that_is_kept_is_judged_by_the_grant_of_each_connection(
    names: dict[str, Iterator[list[str]]],
) -> None:
    names["kept.example"] = iter([["127.0.0.1"]])
    with Outside() as outside:
        outside.joined(name="kept.example", address="")
        outside.grant.guarded = {"127.0.0.1"}
        again = outside.connect(name="kept.example", port=80)
        with pytest.raises(ConnectionResetError):
            outside.read(again)
        assert outside.events[0].decision.rule == "address-guard:private"


def test_guarded_addresses_of_a_name_are_left_out_and_the_others_tried(names: dict[str, list[str]]) -> None:
    names["both.example"] = ["127.0.0.2", "127.0.0.1"]
    with Outside() as outside:
        outside.grant.guarded = {"127.0.0.2"}
        server, host = outside.joined(name="both.example", address="")
        server.sendall(b"x")
        assert outside.read(host) == b"x"
        assert not outside.events


def test_an_address_that_does_not_answer_delays_by_a_moment_only(names: dict[str, list[str]]) -> None:
    names["slow.example"] = ["127.0.0.9", "127.0.0.1"]
    with Outside() as outside:
        listener = outside.host()
        port = port_of(listener)
        with socket.create_server(("127.0.0.9", port), backlog=0) as deaf, socket.socket() as first:
            first.connect(deaf.getsockname())  # Its queue is full now: the kernel drops what comes.
            outside.connect(name="slow.example", port=port)
            listener.settimeout(0.01)
            outside.until(lambda: _accepts(listener))
            assert not outside.events


def test_addresses_that_do_not_answer_hold_a_few_descriptors_and_are_all_tried(
    names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever owns a granted name may give it as many as fit; the relay has one limit for all connections."""
    holes = [f"127.0.7.{number}" for number in range(1, 16)]
    names["holes.example"] = [*holes, "127.0.0.1"]
    monkeypatch.setattr(dial, "TOTAL_SECONDS", 3600.0)
    with Outside() as outside, ExitStack() as stack:
        listener = outside.host()
        port = port_of(listener)
        for hole in holes:
            stack.enter_context(socket.create_server((hole, port), backlog=0))
            stack.enter_context(socket.create_connection((hole, port)))  # Its queue is full now.
        before = descriptors()
        outside.connect(name="holes.example", port=port)
        outside.until(lambda: outside.grant.judged)
        most = 0
        for _ in range(250):
            outside.later += dial.STAGGER
            outside.turn(0.001)
            most = max(most, descriptors() - before)
        # Both ends of the server's connection, and what is on the way.
        assert most <= 2 + dial.ABREAST
        listener.settimeout(0.01)
        outside.until(lambda: _accepts(listener))


def test_a_family_that_is_broken_here_delays_by_a_moment_only() -> None:
    sixes = [f"::ffff:127.0.7.{number}" for number in range(1, 9)]
    assert dial.in_turns([*sixes[:3], "1.1.1.1", "1.0.0.1"]) == [
        *(sixes[0], "1.1.1.1", sixes[1], "1.0.0.1", sixes[2])
    ]
    assert dial.in_turns(["1.1.1.1"]) == ["1.1.1.1"] and not dial.in_turns([])


def _accepts(listener: socket.socket) -> bool:
    try:
        listener.accept()[0].close()
    except TimeoutError:
        return False
    return True


@pytest.mark.usefixtures("names")
def test_a_name_that_does_not_exist_is_unreachable() -> None:
    with Outside() as outside:
        server = outside.connect(name="no.example")
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].operation.written == "no.example: Name or service not known"


def test_a_look_up_that_hangs_fails_after_ten_seconds_and_blocks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()

    def hang(_name: str) -> list[str]:
        release.wait(20)
        return ["127.0.0.1"]

    monkeypatch.setattr(resolve, "addresses_of", hang)
    with Outside() as outside:
        server = outside.connect(name="hangs.example")
        other, host = outside.joined()
        other.sendall(b"x")
        assert outside.read(host) == b"x"
        outside.later = 11
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert "no answer" in outside.events[0].operation.written
        release.set()


def test_no_more_threads_than_agreed_look_names_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    running: list[str] = []

    def hang(name: str) -> list[str]:
        running.append(name)
        release.wait(20)
        return []

    monkeypatch.setattr(resolve, "addresses_of", hang)
    with Outside() as outside:
        for number in range(resolve.THREADS + 5):
            outside.connect(name=f"h{number}.example")
        outside.until(lambda: len(running) == resolve.THREADS)
        outside.settle()
        assert len(running) == resolve.THREADS
        release.set()
        outside.until(lambda: len(running) == resolve.THREADS + 5)


def test_a_loopback_address_is_tried_in_both_families() -> None:
    with Outside() as outside:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
        with listener:
            server = outside.connect(address="127.0.0.1", port=port_of(listener))
            listener.settimeout(0.01)
            outside.turn()
            outside.until(lambda: _accepts(listener))
            assert outside.grant.judged == ["127.0.0.1", "::1"]
            server.close()


# Through the host's proxy


class Proxy:
    """Takes one CONNECT, answers, and goes on as the host."""

    def __init__(self, outside: Outside, answer: bytes) -> None:
        self.listener = outside.host()
        self.port = port_of(self.listener)
        self.request = b""
        self.rest = b""
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            connection.settimeout(10)
            while b"\r\n\r\n" not in self.request:
                self.request += connection.recv(100)
            for byte in self._answer[:20]:
                connection.sendall(bytes([byte]))
            connection.sendall(self._answer[20:])
            try:
                self.rest = connection.recv(100)
            except OSError:
                pass


def test_the_hosts_proxy_is_asked_by_name_and_nothing_is_resolved(names: dict[str, list[str]]) -> None:
    with Outside() as first:
        proxy = Proxy(first, b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n220 ready")
        names["proxy.example"] = ["127.0.0.1"]
        environ = {"HTTPS_PROXY": f"http://user:p%40ss@proxy.example:{proxy.port}"}
        with Outside(environ=environ) as outside:
            server = outside.connect(name="api.example", port=443)
            assert outside.read(server) == b"220 ready"  # Not a byte of it was taken for the proxy's.
            server.sendall(b"EHLO")
            outside.until(lambda: proxy.rest)
            assert proxy.rest == b"EHLO"
            server.close()
            outside.until(lambda: outside.ended)
            assert outside.ended[0].via == f"proxy.example:{proxy.port}"
    lines = proxy.request.decode().split("\r\n")
    assert lines[:2] == ["CONNECT api.example:443 HTTP/1.1", "Host: api.example:443"]
    assert lines[2] == "Proxy-Authorization: Basic " + base64.b64encode(b"user:p@ss").decode()
    assert first.grant.judged == []


def test_a_proxy_that_refuses_is_told_as_unreachable(names: dict[str, list[str]]) -> None:
    names["proxy.example"] = ["127.0.0.1"]
    with Outside() as first:
        proxy = Proxy(first, b"HTTP/1.1 403 Forbidden by policy\r\nContent-Length: 0\r\n\r\n")
        with Outside(environ={"all_proxy": f"proxy.example:{proxy.port}"}) as outside:
            server = outside.connect(name="api.example", port=5432)
            with pytest.raises(ConnectionResetError):
                outside.read(server)
            assert "refused it (status 403)" in outside.events[0].operation.written


def test_a_proxy_that_cannot_be_spoken_to_closes_the_way_and_is_said_once() -> None:
    with Outside(environ={"ALL_PROXY": "socks5://127.0.0.1:1080"}) as outside:
        assert len(outside.said) == 1 and "'socks5'" in outside.said[0]
        server = outside.connect(name="api.example", port=443)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].decision.rule == "proxy"


@pytest.mark.parametrize(
    ("peer", "proxied"),
    [
        (Peer("api.example", "", 443, "tcp"), True),
        (Peer("api.example", "", 80, "tcp"), False),
        (Peer("", "8.8.8.8", 443, "tcp"), True),
        (Peer("", "10.0.0.5", 5432, "tcp"), False),
        (Peer("", "127.0.0.1", 443, "tcp"), False),
        (Peer("", "::1", 443, "tcp"), False),
        (Peer("localhost", "", 443, "tcp"), False),
        (Peer("db.corp.example", "", 443, "tcp"), False),
        (Peer("corp.example", "", 443, "tcp"), False),
        (Peer("notcorp.example", "", 443, "tcp"), True),
        (Peer("only.example", "", 8443, "tcp"), False),
        (Peer("only.example", "", 443, "tcp"), True),
        (Peer("", "9.9.9.9", 443, "tcp"), False),
        (Peer("api.example", "", 443, "udp"), False),
    ],
)
def test_who_is_reached_through_a_proxy(peer: Peer, proxied: bool) -> None:
    proxies = Proxies(
        {"HTTPS_PROXY": "http://proxy:3128", "no_proxy": ".corp.example, only.example:8443,9.9.9.0/24"}
    )
    assert (proxies.for_peer(peer) is not None) == proxied


def test_every_host_may_be_exempt() -> None:
    proxies = Proxies({"ALL_PROXY": "http://proxy", "NO_PROXY": "*"})
    assert proxies.for_peer(Peer("api.example", "", 443, "tcp")) is None


@pytest.mark.parametrize(
    "text",
    [
        "user:s3cr3t://pw@proxy:3128",
        "http://user:s3cr3t/pw@proxy:3128",
        "user:s3cr3t/pw@proxy:3128",
        "http://s3cr3t:pw:3128",
        "s3cr3t://proxy",
        "http://user:s3cr3t@[::1:3128",
    ],
)
def test_no_part_of_a_password_is_told_where_a_proxy_is_no_url(text: str) -> None:
    proxies = Proxies({"ALL_PROXY": text})
    (problem,) = proxies.problems
    assert "is no URL" in problem and "s3cr3t" not in problem
    proxy = proxies.for_peer(Peer("api.example", "", 443, "tcp"))
    assert proxy is not None and proxy.problem and not proxy.host
