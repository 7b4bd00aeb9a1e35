"""Port 443 of a named host: what is sent there must begin as TLS to that very name."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from mcpwrap.egress import egress as module
from mcpwrap.egress import hello, resolve
from tests.unit.egress.hellos import client_hello, recut
from tests.unit.egress.outside import Outside


@pytest.fixture(autouse=True)
def _the_name_leads_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "addresses_of", lambda _name: ["127.0.0.1"])


def start(outside: Outside, monkeypatch: pytest.MonkeyPatch) -> tuple[socket.socket, socket.socket]:
    """Return the server's end and the host's listener, whose port stands for 443: that one is root's."""
    listener = outside.host()
    port = listener.getsockname()[1]
    monkeypatch.setattr(module, "_TLS_PORT", port)
    return outside.connect(name="api.example", port=port), listener


def accepted(outside: Outside, listener: socket.socket) -> socket.socket:
    outside.settle()
    host, _ = listener.accept()
    outside._made.append(host)
    return host


@pytest.mark.parametrize("size", [1, 7, 100, 16384])
def test_the_right_name_passes_however_it_is_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    greeting = client_hello("API.example")
    whole = recut(greeting, max(size, 40))
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.sendall(whole[:-1])
        assert outside.silent(host)
        assert outside.waits()
        server.sendall(whole[-1:])
        got = b""
        while len(got) < len(whole):
            got += outside.read(host)
        assert got == whole and not outside.events


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (client_hello("other.example"), "its TLS hello asks for other.example"),
        (client_hello(None), "its TLS hello names no host"),
        (b"GET / HTTP/1.1\r\n\r\n", "it is not TLS"),
        (b"SSH-2.0-x\r\n", "it is not TLS"),
        (b"\x16\x03\x01\x40\x01" + bytes(20), "it is not TLS"),
    ],
)
def test_anything_else_is_refused_and_not_one_byte_passes(
    sent: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        server.sendall(sent)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        try:
            assert outside.read(host) == b""
        except ConnectionResetError:
            pass  # As good as an end without a byte before it.
        (event,) = outside.events
        assert (event.decision.rule, event.operation.act) == ("sni", "connect")
        assert event.operation.object.startswith("api.example:") and event.operation.written == problem


def test_silence_is_refused_after_five_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        accepted(outside, listener)
        assert outside.silent(server)
        outside.later = 5.1
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].operation.written == "no TLS hello was sent"


def test_half_a_hello_and_the_end_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        accepted(outside, listener)
        server.sendall(client_hello("api.example")[:100])
        server.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].decision.rule == "sni"


def test_a_host_that_speaks_first_is_not_heard_before_the_hello(monkeypatch: pytest.MonkeyPatch) -> None:
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        host.sendall(b"220 smtp")
        assert outside.silent(server)
        server.sendall(client_hello("api.example"))
        assert outside.read(server) == b"220 smtp"


def test_a_hello_that_was_cut_by_the_end_of_the_call_is_judged_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        outside.set_open(False)
        server.sendall(client_hello("other.example"))
        outside.later = 6
        assert outside.silent(host) and outside.silent(server)
        outside.set_open(True)
        with pytest.raises(ConnectionResetError):
            outside.read(server)
        assert outside.events[0].decision.rule == "sni"


@pytest.mark.parametrize("changed", ["before it is looked at", "after"])
def test_a_hello_that_changes_when_it_was_sent_is_sent_as_it_was_judged(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sendfile(2) queues the file's own pages, and over loopback they are still these when they are received."""
    file = tmp_path / "hello"
    good, bad = client_hello("api.example"), b"evl.example"
    file.write_bytes(good)
    known = threading.Event()

    def addresses_of(_name: str) -> list[str]:
        known.wait(10)
        return ["127.0.0.1"]

    monkeypatch.setattr(resolve, "addresses_of", addresses_of)
    with Outside(any_server_name=False) as outside, open(file, "r+b", buffering=0) as page:
        server, listener = start(outside, monkeypatch)
        assert os.sendfile(server.fileno(), page.fileno(), 0, len(good)) == len(good)
        if changed == "after":
            outside.settle()
        os.pwrite(page.fileno(), bad, good.index(b"api.example"))
        known.set()
        if changed == "after":
            host = accepted(outside, listener)
            assert outside.read(host) == good and not outside.events
        else:
            with pytest.raises(ConnectionResetError):
                outside.read(server)
            assert outside.events[0].operation.written == "its TLS hello asks for evl.example"


def test_a_hello_with_an_urgent_byte_is_read_as_it_is_sent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    greeting = client_hello("api.example")
    with Outside(any_server_name=False) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        server.send(greeting[:100], socket.MSG_OOB)
        assert outside.silent(host) and outside.waits()
        server.send(greeting[100:])
        got = b""
        while len(got) < len(greeting):
            got += outside.read(host)
        assert got == greeting and not outside.events


def test_sni_any_lifts_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    with Outside(any_server_name=True) as outside:
        server, listener = start(outside, monkeypatch)
        host = accepted(outside, listener)
        server.sendall(b"no TLS at all")
        assert outside.read(host) == b"no TLS at all"


# The parser alone


def test_openssls_hello_is_read() -> None:
    assert hello.read(client_hello("api.example.com")) == hello.Hello("api.example.com", False)
    assert hello.read(client_hello(None)) == hello.Hello("", False)


def test_two_names_or_two_extensions_are_not_read_as_one() -> None:
    def built(*extensions: bytes) -> bytes:
        block = b"".join(extensions)
        body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + len(block).to_bytes(2, "big") + block
        message = b"\1" + len(body).to_bytes(3, "big") + body
        return b"\x16\3\1" + len(message).to_bytes(2, "big") + message

    def names(*texts: bytes) -> bytes:
        listed = b"".join(b"\0" + len(text).to_bytes(2, "big") + text for text in texts)
        content = len(listed).to_bytes(2, "big") + listed
        return b"\0\0" + len(content).to_bytes(2, "big") + content

    outer = b"\xfe\x0d\0\1\0"
    assert hello.read(built(names(b"a.example."))) == hello.Hello("a.example", False)
    assert hello.read(built(names(b"a.example"), outer)) == hello.Hello("a.example", True)
    assert hello.read(built(names(b"a.example", b"b.example"))) == "not-tls"
    assert hello.read(built(names(b"a.example"), names(b"b.example"))) == "not-tls"
    assert hello.read(built(names(b"a.example\0.evil"))) == "not-tls"
    assert hello.read(built(names())) == "not-tls"
