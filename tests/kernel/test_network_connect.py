"""Connections out of the sandbox: what was decided reaches the relay, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.networked import Network, network

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

GRANT = """
[server]
net = ["api.example.com", "*.example.org:8080", "192.0.2.7:5432", "[2001:db8::7]:6379", "localhost:5433"]
[tools.fetch]
net = ["other.example.net:80"]
"""


@pytest.fixture
def here() -> Iterator[Network]:
    with network() as found:
        yield found


def test_a_granted_name_is_connected_by_way_of_the_relay(here: Network) -> None:
    done = here.run(GRANT, 'show(greeting("api.example.com", 443)); show(greeting("a.b.example.org", 8080))')
    assert done.values == ["api.example.com||443", "a.b.example.org||8080"]
    assert [(message["kind"], message["fds"]) for message in done.messages] == [("stream", 1)] * 2
    assert not done.refused()


def test_bytes_go_both_ways_until_either_side_ends(here: Network) -> None:
    code = """
with socket.create_connection(("api.example.com", 443), 5) as peer:
    read_line(peer)
    peer.sendall(b"x" * 70000)
    peer.shutdown(socket.SHUT_WR)
    got = 0
    while data := peer.recv(65536):
        got += len(data)
    show(got)
"""
    assert here.run(GRANT, code).value() == 70000


def test_what_no_rule_names_is_refused_and_told_once_each(here: Network) -> None:
    code = """
show(outcome(greeting, "api.example.com", 80))
show(outcome(greeting, "1.1.1.1", 443))
show(outcome(greeting, "::ffff:169.254.169.254", 80))
show(outcome(greeting, "2001:db8::8", 6379))
try:
    socket.getaddrinfo("evil.example.com", 443)
except socket.gaierror as error:
    show(error.errno == socket.EAI_NONAME)
"""
    done = here.run(GRANT, code)
    assert done.values == ["ECONNREFUSED"] * 4 + [True]
    assert done.refused("connect") == [
        "api.example.com:80",
        "1.1.1.1:443",
        "169.254.169.254:80",
        "[2001:db8::8]:6379",
    ]
    assert done.refused("lookup") == ["evil.example.com"]
    assert not done.messages


def test_the_open_windows_decide_at_connect(here: Network) -> None:
    code = """
before = outcome(greeting, "other.example.net", 80)
window("fetch")
during = greeting("other.example.net", 80)
window("another")
show([before, during, outcome(greeting, "other.example.net", 80)])
"""
    done = here.run(GRANT, code)
    assert done.value() == ["ECONNREFUSED", "other.example.net||80", "ECONNREFUSED"]
    assert [message["windows"] for message in done.messages] == [["2.fetch"]]


def test_granted_literal_addresses_are_reached_mapped_ones_too(here: Network) -> None:
    code = """
show(greeting("192.0.2.7", 5432))
show(greeting("::ffff:192.0.2.7", 5432))
show(greeting("2001:db8::7", 6379))
show(greeting("2001:0db8:0::0007", 6379))
"""
    done = here.run(GRANT, code)
    assert done.values == ["|192.0.2.7|5432", "|192.0.2.7|5432", "|2001:db8::7|6379", "|2001:db8::7|6379"]


def test_a_granted_port_of_localhost_is_the_hosts_and_others_are_the_sandboxs_own(here: Network) -> None:
    code = """
show([greeting(host, 5433) for host in ("127.0.0.1", "127.1.2.3", "0.0.0.0", "::1", "localhost")])
own = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: own.accept()[0].sendall(b"own\\n")).start()
show(greeting(*own.getsockname()))
own.close()
show(outcome(greeting, "127.0.0.1", 5555))
held = socket.create_server(("127.0.0.1", 5433))
threading.Thread(target=lambda: held.accept()[0].sendall(b"own\\n")).start()
show(greeting("127.0.0.1", 5433))
"""
    done = here.run(GRANT, code)
    addresses = ["127.0.0.1", "127.1.2.3", "127.0.0.1", "::1", "::1"]
    assert done.values[0] == [f"|{address}|5433" for address in addresses]
    assert done.values[1:] == ["own", "ECONNREFUSED", "own"]
    assert done.refused() == ["127.0.0.1:5555"]


def test_a_port_the_server_holds_itself_is_no_hindrance(here: Network) -> None:
    code = """
held = [socket.create_server(("0.0.0.0", 443)), socket.socket()]
held[1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
held[1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
held[1].bind(("0.0.0.0", 5432))
held[1].listen()
show([greeting("api.example.com", 443), greeting("192.0.2.7", 5432)])
"""
    assert here.run(GRANT, code).value() == ["api.example.com||443", "|192.0.2.7|5432"]


def test_a_socket_may_be_bound_before_and_used_again_after(here: Network) -> None:
    code = """
peer = socket.socket()
peer.bind(("127.0.0.1", 0))
port = peer.getsockname()[1]
peer.connect(("api.example.com", 443))
show([read_line(peer), peer.getsockname()[1] == port, outcome(peer.connect, ("api.example.com", 443))])
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
show(libc.connect(peer.fileno(), bytes(16), 16))
show(outcome(peer.send, b"x") in ("EPIPE", "ECONNRESET"))
peer.connect(("192.0.2.7", 5432))
show(read_line(peer))
again = socket.socket()
show(outcome(again.connect, ("127.0.0.1", 5999)))
again.connect(("api.example.com", 443))
show(read_line(again))
"""
    done = here.run(GRANT, code)
    assert done.values == [
        ["api.example.com||443", True, "EISCONN"],
        0,
        True,
        "|192.0.2.7|5432",
        "ECONNREFUSED",
        "api.example.com||443",
    ]


def test_sockets_that_do_not_block_are_connected_as_well(here: Network) -> None:
    code = """
import asyncio
async def main():
    reader, writer = await asyncio.wait_for(asyncio.open_connection("api.example.com", 443), 5)
    line = await asyncio.wait_for(reader.readline(), 5)
    writer.close()
    return line.decode().strip()
show(asyncio.run(main()))
peer = socket.socket()
peer.setblocking(False)
code = peer.connect_ex(("192.0.2.7", 5432))
show([code in (0, errno.EINPROGRESS), peer.connect_ex(("192.0.2.7", 5432)) in (0, errno.EISCONN)])
peer.setblocking(True)
show(read_line(peer))
"""
    assert here.run(GRANT, code).values == ["api.example.com||443", [True, True], "|192.0.2.7|5432"]


def test_data_in_the_first_packet_connects_nobody(here: Network) -> None:
    code = """
host = socket.getaddrinfo("api.example.com", 443, proto=socket.IPPROTO_TCP)[0][4]
one, other = socket.socket(), socket.socket()
show([outcome(one.sendto, b"x", 0x20000000, host), outcome(other.sendmsg, [b"x"], [], 0x20000000, host)])
show(outcome(socket.socket().setsockopt, socket.IPPROTO_TCP, 30, 1))
"""
    done = here.run(GRANT, code)
    assert done.values == [["ENOTSUP", "ENOTSUP"], "ENOTSUP"]
    assert not done.messages


def test_addresses_of_the_outside_are_not_bound_to(here: Network) -> None:
    code = """
host = socket.getaddrinfo("api.example.com", 443, proto=socket.IPPROTO_TCP)[0][4]
show([outcome(socket.socket().bind, address) for address in (host, ("8.8.8.8", 80), ("", 8080))])
"""
    assert here.run(GRANT, code).value() == ["EADDRNOTAVAIL", "EADDRNOTAVAIL", "done"]


def test_a_relay_that_does_not_keep_up_refuses_and_keeps_nobody_waiting(here: Network) -> None:
    code = """
host = socket.getaddrinfo("api.example.com", 443, proto=socket.IPPROTO_TCP)[0][4]
kept = []
for count in range(2000):
    peer = socket.socket()
    if outcome(peer.connect, host) == "ECONNREFUSED":
        break
    kept.append(peer)
show([0 < count < 1999, outcome(socket.socket().connect, host)])
"""
    done = here.run(GRANT, code, deaf=True)
    assert done.value() == [True, "ECONNREFUSED"]
    assert done.refused() == ["api.example.com:443"] * 2


def test_a_server_is_reached_on_its_own_loopback(here: Network) -> None:
    code = """
own = socket.create_server(("127.0.0.1", 0))
answer = reach(own.getsockname()[1])
show([answer["kind"], answer["id"], read_line(own.accept()[0])])
six = socket.create_server(("::1", 0), family=socket.AF_INET6)
answer = reach(six.getsockname()[1])
show([answer["kind"], read_line(six.accept()[0])])
show(reach(5))
"""
    done = here.run(GRANT, code)
    assert done.values == [
        ["reached", 7, "from outside"],
        ["reached", "from outside"],
        {"kind": "unreachable", "id": 7, "errno": 111},
    ]


def test_an_address_that_another_thread_changes_leads_to_no_other_peer(here: Network) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
address = lambda host, port: struct.pack("=H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
granted, other = address("192.0.2.7", 5432), address("192.0.2.8", 5433)
buffer = ctypes.create_string_buffer(granted)
sys.setswitchinterval(1e-5)
stop = False
def change():
    while not stop:
        ctypes.memmove(buffer, granted, 16); ctypes.memmove(buffer, other, 16)
thread = threading.Thread(target=change, daemon=True)
thread.start()
said, refused = set(), 0
for _ in range(300):
    peer = socket.socket()
    if libc.connect(peer.fileno(), buffer, 16) == 0:
        said.add(read_line(peer))
        host, port = peer.getpeername()
        said.add(f"|{host}|{port}")
    else:
        refused += 1
    peer.close()
stop = True
thread.join()
show([sorted(said), refused > 0])
"""
    done = here.run(GRANT, code)
    assert done.value() == [["|192.0.2.7|5432"], True]
    assert {message["address"] for message in done.messages} == {"192.0.2.7"}


def test_descriptors_that_change_places_meanwhile_mix_nothing_up(here: Network) -> None:
    code = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
address = lambda host, port: struct.pack("=H", 2) + struct.pack(">H", port) + socket.inet_aton(host) + bytes(8)
slot = os.dup(0)
sys.setswitchinterval(1e-5)
stop = False
def change():
    while not stop:
        one, other = socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        os.dup2(other.fileno(), slot); os.dup2(one.fileno(), slot)
        one.close(); other.close()
thread = threading.Thread(target=change, daemon=True)
thread.start()
said = set()
for _ in range(300):
    if libc.connect(slot, address("192.0.2.7", 5432), 16) == 0:
        held = os.dup(slot)
        try:
            peer = socket.socket(fileno=held)
            peer.settimeout(1)
            if peer.type == socket.SOCK_STREAM and peer.getpeername():
                said.add(read_line(peer))
        except OSError:
            pass
        peer.close()
stop = True
thread.join()
show(sorted(said - {"<end>"}))
"""
    done = here.run(GRANT, code)
    assert done.value() in ([], ["|192.0.2.7|5432"])
    assert {(message["kind"], message["address"]) for message in done.messages} <= {("stream", "192.0.2.7")}


def test_no_descriptor_is_kept_of_what_was_connected_refused_or_asked(here: Network) -> None:
    code = """
for number in range(120):
    greeting("api.example.com", 443)
    outcome(greeting, "api.example.com", 80)
    outcome(greeting, "1.1.1.1", 443)
    outcome(greeting, "127.0.0.1", 5999)
    with socket.create_connection(("127.0.0.1", 53)):
        pass
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        outcome(peer.sendto, b"x", ("8.8.8.8", 53))
        outcome(peer.bind, ("8.8.8.8", 53))
    reach(5)
show(greeting("api.example.com", 443))
"""
    assert here.run(GRANT, code, descriptors=100).value() == "api.example.com||443"


def test_processes_of_the_tree_connect_as_well_at_the_same_time(here: Network) -> None:
    code = """
from concurrent.futures import ThreadPoolExecutor
pids = []
for child in range(4):
    pid = os.fork()
    if not pid:
        with ThreadPoolExecutor(8) as pool:
            names = [f"h{child}-{number}.example.org" for number in range(40)]
            said = list(pool.map(lambda name: greeting(name, 8080) == f"{name}||8080", names))
        os._exit(0 if all(said) else 1)
    pids.append(pid)
show([os.waitpid(pid, 0)[1] for pid in pids])
"""
    done = here.run(GRANT, code)
    assert done.value() == [0] * 4
    assert len(done.messages) == 160


def test_sockets_of_other_kinds_are_not_to_be_had(here: Network) -> None:
    code = """
kinds = [(2, 3, 1), (2, 2, 1), (10, 3, 58), (17, 3, 0), (17, 2, 3), (16, 3, 9), (40, 1, 0), (38, 5, 0), (2, 1, 132)]
show([outcome(socket.socket, *kind) for kind in kinds])
"""
    assert "done" not in here.run(GRANT, code).value()
