"""What the files say that programs read to find out where names are looked up."""

from __future__ import annotations

from mcpwrap.sandbox.names import files
from mcpwrap.sandbox.steps import File
from tests.unit.sandbox.machine import USUAL, Machine


def test_without_a_broker_there_is_no_name_server_and_the_rest_is_the_hosts() -> None:
    found = files(answered=False, machine="box")
    assert list(found) == ["/etc/resolv.conf"]
    assert b"nameserver" not in found["/etc/resolv.conf"].replace(b"name server", b"")


def test_with_one_the_broker_is_asked_and_nothing_of_the_hosts_own_tables() -> None:
    found = files(answered=True, machine="box")
    assert found["/etc/resolv.conf"].splitlines()[1:] == [
        b"nameserver 127.0.0.1",
        b"options no-aaaa",
    ]
    assert [line.split() for line in found["/etc/hosts"].splitlines()] == [
        [b"127.0.0.1", b"localhost", b"box"],
        [b"::1", b"localhost", b"ip6-localhost", b"ip6-loopback"],
    ]
    assert b"hosts: files dns\n" in found["/etc/nsswitch.conf"]


def test_a_machine_of_an_odd_name_has_a_table_all_the_same() -> None:
    assert files(answered=True, machine="b\u00fcro\udc80")["/etc/hosts"].startswith(b"127.0.0.1 localhost b")


def test_a_socket_that_is_granted_is_in_the_view_if_it_is_there() -> None:
    machine = Machine(USUAL | {"/srv/w/s": "s"})
    made = machine.plan(sockets=("/srv/w/s", "/srv/w/later", "/run/user/1/bus"))
    paths = [step.path for step in made.steps if not isinstance(step, File)]
    assert "/srv/w/s" in paths
    assert "/srv/w/later" not in paths
