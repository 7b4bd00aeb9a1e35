"""Acts on the network of a server that is granted a little of it: nothing else is reached."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.e2e.client import failed, text
from tests.e2e.victim import SECRET, Victim

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")


class Host:
    """A service of the host's loopback that gives a secret to whoever comes, by TCP and UDP; `seen` counts them."""

    def __init__(self) -> None:
        self.stream = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.stream.getsockname()[1]
        self.datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.datagrams.bind(("127.0.0.1", self.port))
        self.datagrams.settimeout(0.2)
        self.seen = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.stream.accept()
            except OSError:
                return
            self.seen += 1
            with peer, contextlib.suppress(OSError):
                peer.sendall(SECRET.encode())

    def received(self) -> bool:
        """Whether a datagram has arrived."""
        try:
            return bool(self.datagrams.recv(64))
        except TimeoutError:
            return False

    def close(self) -> None:
        self.stream.shutdown(socket.SHUT_RDWR)
        self.stream.close()
        self.datagrams.close()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("network", grant="victim_network") as made:
        yield made


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.close()


def test_who_is_granted_it_reaches_the_host(victim: Victim, host: Host) -> None:
    assert text(victim.act("caller", "connect_tcp", host="127.0.0.1", port=host.port)) == SECRET
    assert (
        text(victim.act("caller", "connect_any", host="::ffff:127.0.0.1", port=host.port, family=10))
        == SECRET
    )


@pytest.mark.parametrize("lacking", ["", "filter"], ids=["B", "C"])
def test_without_a_rule_of_hosts_the_user_reads_which_one_would_let_the_name_be_reached(lacking: str) -> None:
    with Victim(f"names{lacking}", lacking=lacking) as victim:
        assert failed(answer := victim.act("nothing", "look_up", name="api.example.com"))
        assert "api.example.com" in text(answer)
        said = (victim.place.work / "stderr").read_text()
    assert 'net = ["api.example.com"]' in said
    assert "127.0.0.1" not in said


def ways(port: int) -> Iterator[tuple[str, dict[str, object]]]:
    for address in ("127.0.0.1", "127.9.9.9", "0.0.0.0"):
        yield "connect_any", {"host": address, "port": port}
        yield "connect_udp", {"host": address, "port": port}
        yield "send_udp", {"host": address, "port": port}
        yield "connect_to_no_family", {"host": address, "port": port}
        for by_sendmsg in (False, True):
            yield "connect_in_the_first_packet", {"host": address, "port": port, "by_sendmsg": by_sendmsg}
    for address in ("::1", "::ffff:127.0.0.1", "::"):
        yield "connect_any", {"host": address, "port": port, "family": int(socket.AF_INET6)}
    yield "send_udp_by_sendmsg", {"host": "127.0.0.1", "port": port}


def test_a_call_that_is_not_granted_it_does_not_by_any_way(victim: Victim, host: Host) -> None:
    for act, acts in ways(host.port):
        assert SECRET not in text(victim.act("nothing", act, **acts)), (act, acts)
        assert not host.seen and not host.received(), (act, acts)


def test_a_connection_is_not_made_when_its_call_is_over(victim: Victim, host: Host) -> None:
    victim.act("caller", "connect_later", host="127.0.0.1", port=host.port, path="/tmp/late-net", delay=0.4)
    said = text(victim.act("nothing", "await_file", path="/tmp/late-net", seconds=5))
    assert SECRET not in said
    assert not host.seen


def test_an_address_changed_while_it_is_decided_on_does_not_lead_out(victim: Victim, host: Host) -> None:
    answer = victim.act(
        "nothing", "connect_by_changed_address", host="127.0.0.1", port=host.port, other=1024, seconds=1.5
    )
    assert SECRET not in text(answer)
    assert not host.seen


@pytest.mark.parametrize("kind", [1, 28, 16, 33, 65, 15, 255])
def test_no_question_for_a_name_that_is_not_granted_is_answered(victim: Victim, kind: int) -> None:
    answer = victim.act("nothing", "tunnel_by_name", name="c2VjcmV0.attacker.example", kind=kind)
    assert text(answer).startswith("ENOENT"), answer


def test_a_granted_name_is_answered_and_no_other(victim: Victim) -> None:
    assert text(victim.act("nothing", "look_up", name="granted.example.com")).startswith("11.")
    for name in ("other.example.com", "granted.example.com.attacker.example", "xgranted.example.com"):
        assert text(victim.act("nothing", "look_up", name=name)).startswith("ENOENT")


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "169.254.169.254", "10.0.0.1", "192.168.1.1", "224.0.0.1", "11.0.0.77"]
)
@pytest.mark.parametrize("act", ["connect_any", "connect_udp", "send_udp", "connect_in_the_first_packet"])
def test_no_address_is_reached_that_no_rule_names(victim: Victim, address: str, act: str) -> None:
    more = {"by_sendmsg": False} if act == "connect_in_the_first_packet" else {}
    answer = victim.act("caller", act, host=address, port=80, **more)
    assert failed(answer), answer


@pytest.mark.parametrize("address", ["8.8.8.8", "11.0.0.1", "169.254.169.254"])
def test_no_address_of_the_outside_is_taken(victim: Victim, address: str) -> None:
    assert text(victim.act("nothing", "bind_address", host=address, port=0)).startswith("EADDRNOTAVAIL")
