"""`listen` rules: a port of the host leads inside while the rule is in force."""

from __future__ import annotations

import socket

import pytest

from mcpwrap.grant.grant import ListenRule, Where
from tests.unit.egress.outside import NO, YES, Outside, tcp_pair


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def rule(port: int, *, everywhere: bool = False) -> ListenRule:
    return ListenRule("server.listen[0]", str(port), Where("g", 1, 1), port, everywhere)


@pytest.mark.parametrize("everywhere", [False, True])
def test_who_connects_from_outside_reaches_the_server(everywhere: bool) -> None:
    port = free_port()
    with Outside(listens=(rule(port, everywhere=everywhere),)) as outside:
        client = socket.create_connection(("127.0.0.1", port), 5)
        outside._made.append(client)
        asked, _ = outside.received()
        assert (asked["kind"], asked["port"]) == ("reach", port)
        server, inner = tcp_pair()
        outside._made.append(server)
        outside.send(inner.fileno(), kind="reached", id=asked["id"])
        inner.close()
        client.sendall(b"from outside")
        assert outside.read(server) == b"from outside"
        server.sendall(b"from inside")
        assert outside.read(client) == b"from inside"
        outside.set_open(False)
        client.sendall(b"parked")
        assert outside.silent(server)


def test_nobody_listens_inside_and_the_connection_ends() -> None:
    port = free_port()
    with Outside(listens=(rule(port),)) as outside:
        client = socket.create_connection(("127.0.0.1", port), 5)
        outside._made.append(client)
        asked, _ = outside.received()
        outside.send(kind="unreachable", id=asked["id"], errno=111)
        assert outside.read(client) == b""


def test_the_port_is_open_while_the_rule_is_in_force_only() -> None:
    port = free_port()
    with Outside(listens=(rule(port),)) as outside:
        outside.set_open(False)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        outside.set_open(True)
        socket.create_connection(("127.0.0.1", port), 5).close()


def test_a_port_that_is_taken_is_said_and_the_server_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as four:
        port = four.getsockname()[1]
        six = socket.create_server(("::1", port), family=socket.AF_INET6)
        with six, Outside(listens=(rule(port),)) as outside:
            outside.set_open(True)
            assert len(outside.said) == 1 and f"port {port}" in outside.said[0]
            outside.joined()


def test_a_port_that_is_taken_at_one_address_is_said_and_the_other_is_listened_at() -> None:
    with socket.create_server(("127.0.0.1", 0)) as four:
        port = four.getsockname()[1]
        with Outside(listens=(rule(port),)) as outside:
            outside.set_open(True)
            assert [f"port {port} of 127.0.0.1 is in use already" in line for line in outside.said] == [True]
            socket.create_connection(("::1", port), 5).close()


def test_of_two_rules_for_one_port_the_one_in_force_says_who_may_come() -> None:
    port = free_port()
    here, every = rule(port), rule(port, everywhere=True)
    in_force = {here}
    with Outside(listens=(every, here), listening=lambda each: YES if each in in_force else NO) as outside:
        listening = outside.egress._listeners._open
        assert list(listening) == [here]
        assert {each.getsockname()[0] for each in listening[here]} <= {"127.0.0.1", "::1"}
        for wanted, opened in (({here, every}, every), ({every}, every), ({here}, here)):
            in_force.clear()
            in_force.update(wanted)
            outside.egress.changed()
            assert list(listening) == [opened]
        assert not outside.said


def test_who_came_by_one_rule_is_covered_by_another_that_would_let_him_in_too() -> None:
    port = free_port()
    here, every = rule(port), rule(port, everywhere=True)
    in_force = {here, every}
    with Outside(listens=(here, every), listening=lambda each: YES if each in in_force else NO) as outside:
        client = socket.create_connection(("127.0.0.1", port), 5)
        outside._made.append(client)
        server, inner = tcp_pair()
        outside._made.append(server)
        outside.send(inner.fileno(), kind="reached", id=outside.received()[0]["id"])
        inner.close()
        in_force.remove(every)
        outside.egress.changed()
        client.sendall(b"still here")
        assert outside.read(server) == b"still here"
        assert not outside.egress._listeners._covered(port, here=False).allowed, "nobody from afar"
        in_force.clear()
        outside.egress.changed()
        client.sendall(b"parked")
        assert outside.silent(server)
