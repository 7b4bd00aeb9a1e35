"""Connections of a server in the host's own network: by way of the relay or not at all, and to nobody else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.kernel.networked import Network, network

pytestmark = pytest.mark.needs("user", "seccomp", "landlock")

GRANT = """
[tools.fetch]
net = ["api.example.com:80", "203.0.113.9:81"]
"""
OWN_COPIES = pytest.mark.parametrize("copies", [True, False], ids=["taken by pidfd", "kept by the broker"])


@pytest.fixture
def here() -> Iterator[Network]:
    with network() as made:
        yield made


@OWN_COPIES
def test_a_granted_name_is_looked_up_by_tcp_and_connected_by_way_of_the_relay(
    here: Network, copies: bool
) -> None:
    code = (
        "window('fetch'); show(greeting('api.example.com', 80)); show(outcome(greeting, 'other.example', 80))"
    )
    done = here.run(GRANT, code, bare=True, copies=copies)
    assert done.values[0] == "api.example.com||80"
    assert done.values[1] == "EAI_NONAME" or "not known" in done.values[1], done
    assert "other.example" in done.refused("lookup")


@OWN_COPIES
def test_the_open_windows_decide(here: Network, copies: bool) -> None:
    code = """
window('fetch')
host = socket.gethostbyname('api.example.com')
show(greeting(host, 80))
show(greeting('203.0.113.9', 81))
window('other')
show(outcome(greeting, host, 80))
"""
    done = here.run(GRANT, code, bare=True, copies=copies)
    assert done.values == ["api.example.com||80", "|203.0.113.9|81", "ECONNREFUSED"]


@OWN_COPIES
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_a_port_of_the_hosts_loopback_is_not_reached(here: Network, family: int, copies: bool) -> None:
    host = "127.0.0.1" if family == socket.AF_INET else "::1"
    with socket.create_server((host, 0), family=family) as listener:
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        done = here.run(GRANT, f"show(outcome(greeting, {host!r}, {port}))", bare=True, copies=copies)
        assert done.value() == "ECONNREFUSED"
        with pytest.raises(TimeoutError):
            listener.accept()


CLOSED = """
def kept(act):
    made = socket.socket(*act)
    made.close()

def listens():
    with socket.socket() as own:
        own.listen()

def binds(family, raw):
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    with socket.socket(family) as own:
        if libc.bind(own.fileno(), raw, len(raw)):
            raise OSError(ctypes.get_errno(), "refused")

def fast_open(call):
    with socket.socket() as own:
        if call == "sendto":
            own.sendto(b"x", 0x20000000, ("127.0.0.1", PORT))
        else:
            own.sendmsg([b"x"], [], 0x20000000, ("127.0.0.1", PORT))

def abstract(act):
    with socket.socket(socket.AF_UNIX) as own:
        getattr(own, act)(NAME)

any_address = struct.pack("=H", 0) + bytes(14)
show([
    outcome(kept, (socket.AF_INET, socket.SOCK_DGRAM)),
    outcome(kept, (socket.AF_INET6, socket.SOCK_DGRAM)),
    outcome(kept, (socket.AF_NETLINK, socket.SOCK_RAW, 0)),
    outcome(listens),
    outcome(binds, socket.AF_INET, struct.pack("=H", 2) + bytes(14)),
    outcome(binds, socket.AF_INET, any_address),
    outcome(binds, socket.AF_INET6, struct.pack("=H", 10) + bytes(26)),
    outcome(fast_open, "sendto"),
    outcome(fast_open, "sendmsg"),
    outcome(abstract, "connect"),
    outcome(abstract, "bind"),
    outcome(binds, socket.AF_UNIX, struct.pack("=H", 1)),
])
"""


@OWN_COPIES
def test_whatever_would_use_the_hosts_network_past_the_broker_is_closed(here: Network, copies: bool) -> None:
    name = "\0mcpwrap-test-of-abstract-sockets"
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as named:
        named.bind(name)
        named.listen()
        named.settimeout(0.2)
        listener.settimeout(0.2)
        port = listener.getsockname()[1]
        code = f"PORT = {port}; NAME = {name!r}\n" + CLOSED
        done = here.run(GRANT, code, bare=True, copies=copies)
        for each in (listener, named):
            with pytest.raises(TimeoutError):
                each.accept()
    assert done.value() == [
        *("EACCES", "EACCES", "EAFNOSUPPORT", "EACCES", "EADDRNOTAVAIL", "EAFNOSUPPORT", "EADDRNOTAVAIL"),
        *("ENOTSUP", "ENOTSUP", "ECONNREFUSED", "ECONNREFUSED", "ECONNREFUSED"),
    ]


@OWN_COPIES
def test_both_ends_talk_by_a_path_in_the_servers_own_place(here: Network, copies: bool) -> None:
    code = """
import tempfile
path = tempfile.mktemp()
with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as one:
    listener.bind(path)
    listener.listen()
    one.settimeout(5)
    one.connect(path)
    other, _ = listener.accept()
    other.sendall(b"unix")
    said = one.recv(8).decode()
    other.close()
    show([said, one.recv(8).decode()])
"""
    assert here.run(GRANT, code, bare=True, copies=copies).value() == ["unix", ""]


def test_a_stranger_is_not_answered_by_the_name_service(here: Network) -> None:
    code = """
window("fetch")
question = b"\\0\\x1d" + struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + b"\\3api\\7example\\3com\\0\\0\\1\\0\\1"
with socket.create_connection(("127.0.0.1", 53), 5) as peer:
    port = peer.getpeername()[1]
    peer.sendall(question)
    show([port != 53, len(peer.recv(512)) > 12, ask({"stranger": port, "says": question.hex()})])
"""
    assert here.run(GRANT, code, bare=True).value() == [True, True, 0]


def test_who_leaves_the_name_service_before_it_answers_ends_nothing(here: Network) -> None:
    code = """
def leave(times):
    for _ in range(times):
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            outcome(peer.connect, ("127.0.0.1", 53))
threads = [threading.Thread(target=leave, args=(300,)) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
window("fetch")
show(greeting("api.example.com", 80))
"""
    assert here.run(GRANT, code, bare=True).value() == "api.example.com||80"


def test_a_path_of_the_servers_process_names_its_own_place_and_not_the_brokers(here: Network) -> None:
    code = """
import tempfile
place = tempfile.gettempdir()
directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
made = []
for number in range(40, 3, -1):
    with socket.socket(socket.AF_UNIX) as own:
        if number not in (directory, own.fileno()):
            os.dup2(directory, number)
            made.append(outcome(own.bind, f"/proc/self/fd/{number}/{number}"))
            os.close(number)
show([set(made) == {"done"}, len(os.listdir(place)) == len(made)])
"""
    assert here.run(GRANT, code, bare=True).value() == [True, True]
