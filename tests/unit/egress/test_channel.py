"""The channel to the broker is read strictly, and a question passes on to the host's name servers."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpwrap.egress import query
from mcpwrap.egress.channel import MAX_MESSAGE, Channel, read
from tests.e2e.world.names import NameServer, encode_name
from tests.unit.egress.outside import NO, YES, Outside, descriptors

GOOD = {"kind": "stream", "name": "a.example", "address": "", "port": 443, "windows": ["w"]}


def test_a_message_as_agreed_is_taken() -> None:
    with socket.socket() as made:
        message = read(json.dumps(GOOD).encode(), made.fileno())
        assert message is not None and message.fd == made.fileno() and message.fields["port"] == 443


def test_a_descriptor_that_is_no_socket_is_not() -> None:
    with open("/dev/null") as other:
        assert read(json.dumps(GOOD).encode(), other.fileno()) is None


@pytest.mark.parametrize(
    ("message", "fd"),
    [
        (GOOD, -1),
        (GOOD | {"port": "443"}, 7),
        (GOOD | {"port": True}, 7),
        (GOOD | {"port": 65536}, 7),
        (GOOD | {"port": -1}, 7),
        (GOOD | {"windows": [1]}, 7),
        (GOOD | {"more": 1}, 7),
        (GOOD | {"kind": "close"}, 7),
        ({key: value for key, value in GOOD.items() if key != "name"}, 7),
        ({"kind": "query", "id": 1, "data": ""}, 7),
        ([GOOD], 7),
        ("stream", 7),
    ],
)
def test_any_other_is_not(message: object, fd: int) -> None:
    with socket.socket() as made:
        assert read(json.dumps(message).encode(), made.fileno() if fd >= 0 else -1) is None


def test_strange_bytes_are_dropped_with_their_descriptors_and_said_once() -> None:
    with Outside() as outside:
        before = descriptors()
        end = outside._made[0]
        extra = os.open("/dev/null", os.O_RDONLY)
        for data in (b"{", b"[" * 4000, b"\xff", json.dumps(GOOD).encode()):
            socket.send_fds(end, [data], [extra, extra] if data[:1] == b"{" else [])
        end.send(b"x" * (MAX_MESSAGE + 1))
        outside.settle()
        os.close(extra)
        assert descriptors() == before
        assert len(outside.said) == 1
        outside.joined()


def test_a_broker_that_does_not_read_blocks_nobody() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(ours.detach())
    with theirs:
        sent = 0
        while channel.send("answer", id=sent, data="00" * 500):
            sent += 1
        assert sent > 1
    assert not channel.send("answer", id=0, data="")
    channel.close()


# Questions


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[NameServer]:
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port = tcp.getsockname()[1]
    udp.bind(("127.0.0.1", port))
    monkeypatch.setattr(query, "PORT", port)
    conf = tmp_path / "resolv.conf"
    conf.write_text("# a comment\nsearch corp\nnameserver 127.0.0.1\n")
    real = query.ask
    monkeypatch.setattr(query, "ask", lambda data: real(data, str(conf)))
    names = NameServer(udp, tcp, {})
    yield names
    names.close()


def asked(name: str, kind: int) -> bytes:
    return b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + encode_name(name) + kind.to_bytes(2, "big") + b"\0\1"


def answer_to(outside: Outside, question: bytes) -> bytes:
    outside.send(kind="query", id=5, data=question.hex())
    message, _ = outside.received()
    assert (message["kind"], message["id"]) == ("answer", 5)
    return bytes.fromhex(message["data"])


def test_a_service_of_a_granted_name_is_looked_up(server: NameServer) -> None:
    name = "_db._tcp.granted.example"
    server.others[name, 33] = [b"\0\0\0\0\x15\x38" + encode_name("db.granted.example")]
    with Outside() as outside:
        answer = answer_to(outside, asked(name, 33))
    assert answer[:2] == b"\x12\x34" and encode_name("db.granted.example") in answer
    assert server.queries == [(name, 33)]


def test_a_service_is_of_the_name_it_is_a_service_of(server: NameServer) -> None:
    """What a rule lists is the host: `db.example`, not `_db._tcp.db.example`."""
    name = "_db._tcp.granted.example"
    server.others[name, 33] = [b"\0\0\0\0\x15\x38" + encode_name("db.granted.example")]
    with Outside() as outside:
        outside.egress._answers = lambda known: YES if known == "granted.example" else NO
        assert encode_name("db.granted.example") in answer_to(outside, asked(name, 33))
        assert not answer_to(outside, asked("db._tcp.granted.example", 33))


def test_a_long_answer_comes_by_stream(server: NameServer) -> None:
    server.others["granted.example", 16] = [bytes([200]) + b"t" * 200] * 5
    with Outside() as outside:
        assert len(answer_to(outside, asked("granted.example", 16))) > 1000


@pytest.mark.parametrize(
    "question",
    [
        asked("other.example", 33),
        asked("granted.example", 1),
        asked("granted.example", 255),
        asked("granted.example", 33)[:-2] + b"\0\3",
        asked("granted.example", 33)[:-3],
        asked("granted.example", 33)[:5] + b"\2" + asked("granted.example", 33)[6:],
        b"",
    ],
)
def test_nothing_else_is_asked_of_anybody(server: NameServer, question: bytes) -> None:
    with Outside() as outside:
        assert answer_to(outside, question) == b""
    assert server.queries == []


def test_an_answer_to_another_question_is_not_taken() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as forger:
        forger.bind(("127.0.0.1", 0))
        sent = asked("granted.example", 16)

        def forge() -> None:
            data, client = forger.recvfrom(512)
            forger.sendto(b"\0\0" + data[2:3] + b"\x80" + data[4:], client)
            forger.sendto(data[:2] + b"\x81" + data[3:12] + data[12:].replace(b"granted", b"another"), client)
            forger.sendto(data[:2] + b"\x81" + data[3:] + b"true", client)

        thread = threading.Thread(target=forge)
        thread.start()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(query, "PORT", forger.getsockname()[1])
            assert query._by_datagram("127.0.0.1", sent).endswith(b"true")
        thread.join()
