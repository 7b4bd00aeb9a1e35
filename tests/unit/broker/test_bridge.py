"""What the relay is handed is the other end of the server's own socket, whoever else connects meanwhile."""

from __future__ import annotations

import json
import os
import socket

import pytest

from mcpwrap.broker import bridge
from mcpwrap.broker.address import LOOPBACK, Internet
from mcpwrap.broker.bridge import Socket
from mcpwrap.broker.channel import Channel, ChannelFull
from mcpwrap.broker.place import Place
from mcpwrap.kernel import sockets

IP_MINTTL = 21
HOST = Place(False, Internet(LOOPBACK, 5353))


def test_a_stranger_that_was_quicker_is_sent_away() -> None:
    listener, where = HOST.listener(Internet(bytes((11, 0, 0, 1)), 443))
    address = (where.text, where.port)
    strangers = [socket.create_connection(address) for _ in range(3)]
    own = socket.socket()
    accepted = bridge._connected(listener, Socket(own.fileno()), where)
    os.close(listener)
    other = socket.socket(fileno=accepted)
    other.send(b"for the server")
    assert own.recv(100) == b"for the server"
    assert own.getblocking()
    for each in strangers:
        with pytest.raises(ConnectionResetError):
            each.recv(1)
        each.close()
    own.close()
    other.close()


def test_who_is_connected_already_is_the_other_end_of_nobody() -> None:
    listener, where = HOST.listener(Internet(bytes((11, 0, 0, 1)), 443))
    one, stranger = socket.socket(), socket.create_connection((where.text, where.port))
    accepted = sockets.accept(listener)
    assert not bridge._is_other_end(accepted, one.fileno())
    assert bridge._is_other_end(accepted, stranger.fileno())
    for fd in (accepted, listener):
        os.close(fd)
    one.close()
    stranger.close()


def test_a_socket_that_drops_what_comes_is_given_up_and_may_be_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bridge, "BRIDGE_MS", 50)
    listener, where = HOST.listener(Internet(LOOPBACK, 443))
    own = socket.socket()
    own.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 255)  # loopback answers with 64
    with pytest.raises(TimeoutError):
        bridge._connected(listener, Socket(own.fileno()), where)
    own.setsockopt(socket.IPPROTO_IP, IP_MINTTL, 0)
    os.close(bridge._connected(listener, Socket(own.fileno()), where))
    os.close(listener)
    own.close()


def test_a_channel_says_when_there_is_no_room_and_hands_over_one_descriptor() -> None:
    near, far = sockets.pair(sockets.SEQPACKET)
    channel = Channel(near)
    one, other = os.pipe()
    channel.require_room()
    channel.send(other, kind="stream", name="a")
    os.close(other)
    data, passed = sockets.receive_with(far, 4096)
    assert json.loads(data) == {"kind": "stream", "name": "a"}
    os.write(passed[0], b"x")
    os.close(passed[0])
    assert os.read(one, 10) == b"x"
    os.close(one)

    def fill() -> None:
        for _ in range(100_000):
            channel.require_room()
            channel.send(kind="unreachable", id=1, errno=1)

    with pytest.raises(ChannelFull):
        fill()
    os.close(far)
    with pytest.raises(ChannelFull):
        channel.require_room()
    os.close(near)


def test_what_the_relay_says_is_read_and_descriptors_of_it_are_closed() -> None:
    near, far = sockets.pair(sockets.SEQPACKET)
    channel = Channel(near)
    reader, writer = os.pipe()
    for number in range(3):
        sockets.send_with(far, json.dumps({"kind": "reach", "id": number}).encode(), writer)
    os.close(writer)
    sockets.send_with(far, b"[]")
    assert [message and message["id"] for message in channel.receive()] == [0, 1, 2]
    assert os.read(reader, 1) == b"", "all copies of the writing end are closed"
    os.close(far)
    assert list(channel.receive()) == [None]
    os.close(near)
    os.close(reader)
