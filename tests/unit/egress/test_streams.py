"""Connections: bytes, their end, their failure, their number; and while nothing covers them, none of it."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import threading

import pytest

from mcpwrap.egress import egress as module
from mcpwrap.egress import resolve
from mcpwrap.egress.flow import Flow
from mcpwrap.egress.given import ASTRAY
from mcpwrap.egress.pipes import Pipes
from mcpwrap.egress.stream import PARKED_SECONDS
from tests.unit.egress.outside import Grant, Outside, descriptors, reset, tcp_pair


def test_bytes_pass_both_ways_and_are_counted() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        server.sendall(b"question")
        assert outside.read(host) == b"question"
        host.sendall(b"an answer")
        assert outside.read(server) == b"an answer"
        server.close()
        host.close()
        outside.until(lambda: outside.ended)
        (ended,) = outside.ended
        assert (ended.sent, ended.received, ended.address, ended.how) == (8, 9, "127.0.0.1", "closed")
        assert ended.windows == ("w1",)


def test_either_side_may_end_and_still_read() -> None:
    with Outside() as outside:
        for first in (0, 1):
            ends = outside.joined()
            one, other = ends[first], ends[1 - first]
            one.sendall(b"all there is")
            one.shutdown(socket.SHUT_WR)
            assert outside.read(other) == b"all there is"
            assert outside.read(other) == b""
            other.sendall(b"late answer")
            assert outside.read(one) == b"late answer"
            other.shutdown(socket.SHUT_WR)
            assert outside.read(one) == b""
        outside.until(lambda: len(outside.ended) == 2)


@pytest.mark.parametrize("side", ["server", "host"])
def test_a_reset_is_passed_on_as_one(side: str) -> None:
    with Outside() as outside:
        server, host = outside.joined()
        reset(server if side == "server" else host)
        with pytest.raises(ConnectionResetError):
            outside.read(host if side == "server" else server)


def test_a_host_that_refuses_resets_the_server_and_is_told_as_unreachable() -> None:
    with Outside() as outside:
        with outside.host() as listener:
            port = listener.getsockname()[1]
        server = outside.connect(address="127.0.0.1", port=port)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        (event,) = outside.events
        assert event.decision.rule == "unreachable" and not event.decision.allowed
        assert event.operation.object == f"127.0.0.1:{port}" and "refused" in event.operation.written
        assert event.windows == ("w1",)


@pytest.mark.parametrize("spliced", [True, False])
def test_a_large_stream_arrives_as_it_was_sent(spliced: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 * 1024 * 1024
    if not spliced:
        monkeypatch.setattr("os.splice", _refused)
    data = random.Random(7).randbytes(1024 * 1024)
    with Outside() as outside:
        server, host = outside.joined()
        got = [hashlib.sha256(), hashlib.sha256()]
        done: list[int] = []

        def send(end: socket.socket) -> None:
            end.settimeout(30)
            for _ in range(size // len(data)):
                end.sendall(data)
            end.shutdown(socket.SHUT_WR)

        def receive(end: socket.socket, digest: hashlib._Hash) -> None:
            while part := end.recv(1 << 20):
                digest.update(part)
            done.append(1)

        threads = [
            threading.Thread(target=send, args=(server,)),
            threading.Thread(target=send, args=(host,)),
            threading.Thread(target=receive, args=(host, got[0])),
            threading.Thread(target=receive, args=(server, got[1])),
        ]
        for thread in threads:
            thread.start()
        outside.until(lambda: len(done) == 2)
        for thread in threads:
            thread.join()
        expected = hashlib.sha256()
        for _ in range(size // len(data)):
            expected.update(data)
        assert got[0].digest() == got[1].digest() == expected.digest()
        outside.until(lambda: outside.ended)
        assert outside.ended[0].sent == outside.ended[0].received == size


def _refused(*_: object, **__: object) -> int:
    raise OSError(22, "EINVAL")


def test_splice_that_is_refused_halfway_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source, source_end = tcp_pair()
    sink, sink_end = tcp_pair()
    for each in (source_end, sink):
        each.setblocking(False)
    flow = Flow(source_end, sink, Pipes())
    source.sendall(b"in the pipe")
    real = os.splice

    def only_out(src: int, dst: int, *rest: object, **more: object) -> int:
        if dst == sink.fileno():
            raise OSError(22, "EINVAL")
        return real(src, dst, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("os.splice", only_out)
    assert flow.move(100) == 11
    assert sink_end.recv(100) == b"in the pipe"
    for each in (source, source_end, sink, sink_end):
        each.close()


def test_a_reader_that_stalls_is_waited_for_without_work_and_with_little_memory() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        host.setblocking(False)
        sent = 0
        for _ in range(10_000):
            try:
                sent += host.send(bytes(65536))
                outside.turn()
            except BlockingIOError:
                outside.settle()
                try:
                    sent += host.send(b".")
                except BlockingIOError:
                    break
        (stream,) = outside.egress._streams
        assert stream._down is not None and stream._down.held <= 64 * 1024
        assert outside.waits()
        taken = 0
        while taken < sent:
            taken += len(outside.read(server, 1 << 20))
        assert taken == sent


def test_idle_connections_hold_two_descriptors_each() -> None:
    with Outside() as outside:
        before = descriptors()
        for _ in range(10):
            server, host = outside.joined()
            server.sendall(b"x")
            assert outside.read(host) == b"x"
        # Of each the two ends in the test, and the listener, are open as well; pipes are shared.
        assert descriptors() - before <= 10 * (2 + 3) + 2 * 2


def test_one_connection_too_many_is_refused_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STREAMS", 3)
    with Outside() as outside:
        kept = [outside.joined() for _ in range(3)]
        server = outside.connect(address="127.0.0.1", port=9)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].decision.rule == "too-many-connections"
        kept[0][0].close()
        kept[0][1].close()
        outside.until(lambda: outside.ended)
        outside.joined()


def test_connections_leave_the_rest_its_descriptors_where_there_are_few(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = module.OTHER_DESCRIPTORS + 2 * module.STREAM_DESCRIPTORS
    monkeypatch.setattr("resource.getrlimit", lambda _which: (few, few))
    with Outside() as outside:
        kept = [outside.joined() for _ in range(2)]
        server = outside.connect(address="127.0.0.1", port=9)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].decision.rule == "too-many-connections" and len(kept) == 2


@pytest.mark.parametrize("side", ["server", "host"])
def test_a_byte_sent_as_urgent_passes_like_any_other_and_wakes_nobody_for_ever(side: str) -> None:
    with Outside() as outside:
        ends = outside.joined()
        one, other = ends if side == "server" else ends[::-1]
        other.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        for number in range(3):
            one.send(b"before %d" % number)
            one.send(b"!", socket.MSG_OOB)
            one.send(b"after")
            got = b""
            while len(got) < 14:
                got += outside.read(other)
            assert got == b"before %d!after" % number
        one.send(b"!", socket.MSG_OOB)
        assert outside.waits()
        outside.set_open(False)
        one.send(b"?", socket.MSG_OOB)
        assert outside.waits()


# Parked


def test_what_was_written_before_the_window_closed_still_passes() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        server.sendall(b"written in the call")
        outside.set_open(False)  # No turn of the loop since.
        assert outside.read(host) == b"written in the call"
        server.sendall(b"smuggled")
        assert outside.silent(host)


def test_while_nothing_covers_it_no_byte_passes_and_then_all_do() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        server.sendall(b"smuggled")
        host.sendall(b"pushed")
        assert outside.silent(host) and outside.silent(server)
        outside.set_open(True)
        assert outside.read(host) == b"smuggled"
        assert outside.read(server) == b"pushed"


def test_what_waited_has_passed_when_the_window_is_open() -> None:
    """So a server that is about to reuse a connection first reads what became of it."""
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        host.sendall(b"terminating connection due to idle timeout")
        host.close()
        assert outside.silent(server)
        outside.set_open(True)
        # No turn of the loop in between.
        server.settimeout(5)
        assert server.recv(100) == b"terminating connection due to idle timeout"
        assert server.recv(100) == b""


def test_an_idle_end_passes_while_parked() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        host.shutdown(socket.SHUT_WR)
        assert outside.read(server) == b""
        server.close()
        outside.until(lambda: outside.ended)


def test_a_reset_passes_while_parked() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        outside.settle()
        reset(host)
        with pytest.raises(ConnectionResetError):
            outside.read(server)


def test_an_end_behind_bytes_waits_with_them_and_costs_nothing() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        host.sendall(b"x")
        host.shutdown(socket.SHUT_WR)
        server.shutdown(socket.SHUT_WR)
        assert outside.silent(server)
        assert outside.read(host) == b""  # Nothing lay before that one.
        assert outside.waits()
        outside.set_open(True)
        assert outside.read(server) == b"x"


def test_a_parked_connection_ends_after_ten_minutes() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        outside.set_open(False)
        outside.settle()
        outside.later = PARKED_SECONDS + 1
        assert outside.read(server) == b"" and outside.read(host) == b""
        assert outside.ended[0].how == "parked for too long"


def test_a_window_that_opens_again_keeps_it_alive() -> None:
    with Outside() as outside:
        server, host = outside.joined()
        for step in range(1, 4):
            outside.set_open(False)
            outside.later = step * 0.9 * PARKED_SECONDS
            outside.settle()
            outside.set_open(True)
            server.sendall(b"ping")
            assert outside.read(host) == b"ping"


def test_a_connection_whose_window_closed_on_the_way_is_not_dialed() -> None:
    with Outside() as outside:
        listener = outside.host()
        outside.grant.open = False
        server = outside.connect(address="127.0.0.1", port=listener.getsockname()[1])
        outside.settle()
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
        outside.set_open(True)
        server.sendall(b"now")
        listener.setblocking(True)
        outside.settle()
        host, _ = listener.accept()
        with host:
            assert outside.read(host) == b"now"


def test_start_up_moves_while_its_own_connections_do() -> None:
    with Outside() as outside:
        outside.grant.rule = "startup.net[0]"
        server, host = outside.joined()
        server.sendall(b"x")
        assert outside.read(host) == b"x"
        assert outside.egress.moving
        assert _still(outside)
        outside.grant.rule = "server.net[0]"
        outside.egress.changed()
        server.sendall(b"x")
        assert outside.read(host) == b"x"
        assert _still(outside)


def _still(outside: Outside) -> bool:
    outside.later += 0 if outside.grant.rule.startswith("server.") else 1
    return not outside.egress.moving


def test_a_connection_that_one_grant_let_a_name_make_is_ended_where_another_would_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One tool may reach a host by its name on a private network, another one only where that is public."""
    monkeypatch.setattr(resolve, "addresses_of", lambda _name: ["127.0.0.1"])
    with Outside() as outside:
        server, host = outside.joined(name="intra.example", address="")
        outside.set_open(False)
        server.sendall(b"of the next call")
        assert outside.silent(host)
        outside.grant.guarded.add("127.0.0.1")
        assert outside.silent(server), "while nothing covers it, it is only parked"
        outside.set_open(True)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        with pytest.raises(ConnectionResetError):
            outside.read(host)
        (ended,) = outside.ended
        assert ended.sent == 0 and ended.how == ASTRAY


def test_a_way_that_another_grant_began_is_not_passed_on_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = threading.Event()
    monkeypatch.setattr(resolve, "addresses_of", lambda _name: [known.wait(10) and "127.0.0.1"])
    with Outside() as outside:
        listener = outside.host()
        server = outside.connect(name="intra.example", port=listener.getsockname()[1])
        server.sendall(b"of the next call")
        outside.settle()
        outside.grant = Grant()
        outside.grant.guarded.add("127.0.0.1")
        outside.egress.changed()
        known.set()
        with pytest.raises(ConnectionResetError):
            outside.read(server)
