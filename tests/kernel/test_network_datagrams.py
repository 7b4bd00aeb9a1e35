"""Datagrams: those a rule grants come to the relay, all others end at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.kernel.networked import Network, network

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

GRANT = """
[server]
net = ["api.example.com", "udp://ntp.example.net:123", "udp://192.0.2.9:5353"]
[tools.fetch]
net = ["udp://later.example.net:99"]
"""

SETUP = """
def host(name):
    return socket.gethostbyname(name)

def talk(act, *arguments):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(3)
        getattr(peer, act)(*arguments)
        if act == "connect":
            peer.send(b"hello")
        data, sender = peer.recvfrom(4096)
        return data.decode()
"""


@pytest.fixture
def here() -> Iterator[Network]:
    with network() as found:
        yield found


def test_a_granted_host_is_sent_to_in_every_way_there_is(here: Network) -> None:
    code = (
        SETUP
        + """
to = (host("ntp.example.net"), 123)
show(talk("sendmsg", [b"one"], [], 0, to))
show(talk("sendto", b"two", to))
show(talk("connect", to))
show(talk("sendto", b"four", ("192.0.2.9", 5353)))
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as peer:
    peer.settimeout(3)
    peer.sendto(b"five", ("::ffff:" + to[0], 123))
    show(peer.recv(100).decode())
"""
    )
    done = here.run(GRANT, code)
    assert done.values == [
        "ntp.example.net||123\none",
        "ntp.example.net||123\ntwo",
        "ntp.example.net||123\nhello",
        "|192.0.2.9|5353\nfour",
        "ntp.example.net||123\nfive",
    ]
    assert [message["kind"] for message in done.messages] == ["datagram"] * 2
    assert not done.refused()


def test_what_is_not_granted_is_refused_at_once_so_that_clients_fall_back(here: Network) -> None:
    code = (
        SETUP
        + """
quic = (host("api.example.com"), 443)
show([outcome(talk, "connect", quic), outcome(talk, "sendto", b"x", quic)])
show([outcome(talk, "connect", ("8.8.8.8", 53)), outcome(talk, "sendto", b"x", ("8.8.8.8", 53))])
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    peer.settimeout(0.3)
    show(outcome(peer.sendmsg, [b"x"], [], 0, ("8.8.8.8", 53)))
    show(outcome(peer.recv, 10))
"""
    )
    done = here.run(GRANT, code)
    assert done.values[:2] == [["ECONNREFUSED"] * 2, ["ECONNREFUSED"] * 2]
    assert not done.messages
    # That the same host is granted by TCP makes a try of QUIC no news; a name server of its own is.
    assert done.refused() == ["udp://8.8.8.8:53"] * 2
    assert [event["object"] for event in done.events if event["quiet"]] == ["udp://api.example.com:443"] * 2


def test_the_open_windows_decide_datagrams_too(here: Network) -> None:
    code = (
        SETUP
        + """
to = (host("later.example.net"), 99)
before = outcome(talk, "sendto", b"x", to)
window("fetch")
show([before, talk("sendto", b"y", to)])
window("other")
show(outcome(talk, "connect", to))
"""
    )
    done = here.run(GRANT, code)
    assert done.values == [["ECONNREFUSED", "later.example.net||99\ny"], "ECONNREFUSED"]


def test_datagrams_inside_are_the_sandboxs_own(here: Network) -> None:
    code = """
one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
one.bind(("127.0.0.1", 0))
show(other.sendto(b"x" * 60000, one.getsockname()))
show(len(one.recv(65535)))
show(outcome(other.sendto, b"x" * 65536, one.getsockname()))
other.connect(one.getsockname())
show(outcome(other.connect, ("0.0.0.0", 0)) in ("done", "ECONNREFUSED"))
"""
    done = here.run(GRANT, code)
    assert done.values[:3] == [60000, 60000, "EMSGSIZE"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_socket_that_sends_no_more_ends_nothing_but_its_call(here: Network) -> None:
    code = """
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    own.bind(("127.0.0.1", 0))
    peer.connect(own.getsockname())
    show(peer.sendto(b"x", own.getsockname()))
    peer.shutdown(socket.SHUT_WR)
    show(outcome(peer.sendto, b"x", own.getsockname()))
"""
    assert here.run(GRANT, code).values == [1, "EPIPE"]


@pytest.mark.needs("node")
def test_node_sends_datagrams(here: Network) -> None:
    code = """
const socket = require("node:dgram").createSocket("udp4")
socket.on("message", data => { console.log(JSON.stringify(data.toString())); process.exit(0) })
socket.send("hello", 123, "ntp.example.net", error => { if (error) process.exit(1) })
"""
    done = here.run(GRANT, [shutil.which("node") or "", "-e", code])
    assert done.value() == "ntp.example.net||123\nhello"
