"""Path sockets and ports: which a rule opens, and which nothing but a rule does."""

from __future__ import annotations

import pytest

from mcpwrap.operation import Need
from mcpwrap.policy.active import Active, ActiveWindow
from mcpwrap.policy.effective import Effective
from tests.unit.policy.hosting import during
from tests.unit.policy.machine import HOME, STATE, Machine

GRANT = """
[server]
fs_read = ["/run"]
fs_write = ["~/work"]
[server.quiet]
unix = ["/run/quiet.sock"]
[tools.t]
unix = ["/run/db.sock", "/run/docker.sock", "~/agent.sock", "~/work/w.sock", "/run/none.sock"]
listen = ["8080", "any:9090"]
[tools.d]
unix = ["/run/db.sock"]
fs_deny = ["/run/db.sock"]
[resources]
unix = ["/run/r.sock"]
fs_read = ["/data/r"]
exec = ["git"]
"""
LINKS = {f"{HOME}/agent.sock": "/run/agent.1", f"{HOME}/work/w.sock": "/run/w.1"}


def machine() -> Machine:
    made = Machine("/data/r", LINKS)
    for path in (
        "/run/db.sock",
        "/run/docker.sock",
        "/run/agent.1",
        "/run/w.1",
        "/run/r.sock",
        "/run/quiet.sock",
    ):
        made.add(path, "other")
    return made


def force(tool: str = "t") -> Effective:
    return during(machine().policy(GRANT), tool)


@pytest.mark.parametrize(
    ("path", "rule"),
    [
        ("/run/db.sock", "tools.t.unix[0]"),
        ("/run/docker.sock", "tools.t.unix[1]"),
        ("/run/agent.1", "tools.t.unix[2]"),
        ("/run/none.sock", "tools.t.unix[4]"),
        (f"{HOME}/agent.sock", "tools.t.unix[2]"),
        # A server could have put a link to any socket there, in this run or in an earlier one.
        (f"{HOME}/work/w.sock", None),
        ("/run/w.1", None),
        ("/run/other.sock", None),
        ("/run/db.sock/x", None),
        ("/run/user/1000/bus", None),
        # The user's own, which the server's private HOME and /tmp do not make its own.
        (f"{HOME}/.daemon.sock", None),
        ("/tmp/x.sock", None),
        (f"{STATE}/s.sock", "state"),
    ],
)
def test_a_socket_is_reached_by_the_rule_that_names_it(path: str, rule: str | None) -> None:
    decision = force().socket(path)
    assert decision.allowed == (rule is not None)
    if rule is not None:
        assert decision.rule == rule
        assert not force("other").socket(path).allowed or rule == "state"


def test_a_name_that_is_a_link_by_now_counts_where_no_server_writes() -> None:
    assert force().socket("/run/other.sock", "/run/db.sock").rule == "tools.t.unix[0]"
    grant = GRANT.replace('fs_write = ["~/work"]', 'fs_write = ["/run"]')
    held = during(machine().policy(grant), "t")
    assert not held.socket("/run/other.sock", "/run/db.sock").allowed
    assert held.socket("/run/db.sock", "/run/other.sock").allowed
    assert force("d").socket("/run/other.sock", "/run/db.sock").rule != "tools.d.unix[0]"


def test_a_carve_out_holds_for_sockets_and_a_quiet_one_is_quiet() -> None:
    assert force("d").socket("/run/db.sock").rule == "tools.d.fs_deny[0]"
    assert force().socket("/run/quiet.sock") == (False, "server.quiet.unix[0]", False, True)
    assert force("x").socket("/run/docker.sock").rule == "private:/run/docker.sock"


def test_ports_are_reached_from_outside_while_their_tool_is_called() -> None:
    policy = machine().policy(GRANT)
    assert [(rule.port, rule.everywhere) for rule in policy.listens] == [(8080, False), (9090, True)]
    assert policy.egress
    assert during(policy, "t").listen(8080, everywhere=False).rule == "tools.t.listen[0]"
    assert during(policy, "t").listen(9090, everywhere=True).rule == "tools.t.listen[1]"
    assert not during(policy, "t").listen(8081, everywhere=False).allowed
    assert not during(policy).listen(8080, everywhere=False).allowed
    assert not during(policy, "t").listen(8080, everywhere=True).allowed, "another tool's rule may say so"


def test_the_view_holds_the_sockets_of_all_tables_and_hides_the_private_ones_that_are_not_named() -> None:
    policy = machine().policy(GRANT)
    assert {rule.path for rule in policy.sockets} >= {"/run/db.sock", "/run/r.sock", f"{HOME}/agent.sock"}
    assert set(policy.floor.sockets) == {
        *("/run/db.sock", "/run/docker.sock", "/run/agent.1", "/run/w.1", "/run/none.sock", "/run/r.sock"),
        *LINKS,
    }
    assert "/run/docker.sock" not in policy.floor.covers
    assert "/run/docker.sock" in machine().policy('[server]\nfs_read = ["/run"]').floor.covers
    assert "/data/r" in policy.floor.reads
    assert "/usr/bin/git" in policy.floor.executables


def test_a_resource_has_the_paths_and_programs_of_its_table() -> None:
    policy = machine().policy(GRANT)
    window = ActiveWindow("w", "", area="resources")
    held = policy.effective(Active(1, False, (window,)))
    assert held.decide(Need.READ, "/data/r").rule == "resources.fs_read[0]"
    assert held.decide(Need.EXEC, "/usr/bin/git").rule == "resources.exec[0]"
    assert held.socket("/run/r.sock").allowed
    for other in (
        ActiveWindow("w", ""),
        ActiveWindow("w", "", area="prompts"),
        ActiveWindow("w", "resources"),
    ):
        refused = policy.effective(Active(1, False, (other,)))
        assert not refused.decide(Need.READ, "/data/r").allowed
        assert not refused.decide(Need.EXEC, "/usr/bin/git").allowed
