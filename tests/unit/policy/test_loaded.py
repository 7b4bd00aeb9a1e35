"""What the next start would run of the private HOME, and what would stand in the place of a rule's socket."""

from __future__ import annotations

import pytest

from tests.unit.policy.machine import HOME, READ, STATE, WRITE, Machine, idle

GRANT = '[tools.t]\nfs_write = ["~/work"]\n[tools.u]\nunix = ["~/work/p/app.sock"]'
PLACES = [
    ".local/lib/python3.12/site-packages/usercustomize.py",
    ".local/lib",
    ".npmrc",
    ".NPMRC",
    ".node_modules/ws/index.js",
    ".bashrc",
    ".sqliterc",
    ".mongorc.js",
    ".config/uv/uv.toml",
    ".config/git/config",
    ".jupyter/jupyter_server_config.py",
]


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_a_call_does_not_write_what_the_next_start_runs_and_start_up_does(place: str, bare: bool) -> None:
    machine = Machine()
    policy = machine.policy(GRANT, bare=bare)
    for home in policy.facts.private_homes:
        path = f"{home}/{place}"
        for effective in (machine.call(policy), idle(policy)):
            for regular in (True, False):
                assert effective.decide(WRITE, path, creating=True, regular=regular).rule == "loaded"
        assert machine.call(policy).decide(READ, path).allowed
        assert idle(policy, startup=True).decide(WRITE, path, creating=True).allowed
    assert f"{STATE}/home" in policy.facts.private_homes, "it has two names where there are mounts"


@pytest.mark.parametrize("name", [".local", ".config", ".julia"])
def test_a_directory_on_the_way_there_is_made_but_neither_moved_nor_linked(name: str) -> None:
    machine = Machine()
    policy = machine.policy(GRANT)
    effective = machine.call(policy)
    assert effective.decide(WRITE, f"{HOME}/{name}", creating=True, regular=False).allowed
    assert effective.decide(WRITE, f"{HOME}/{name}/share/x", creating=True).allowed
    assert effective.decide(WRITE, f"{HOME}/{name}", creating=True).rule == "loaded", "as what a link may be"
    for old, new in ((".x", name), (name, ".x")):
        ends = effective.decide_rename(f"{HOME}/{old}", f"{HOME}/{new}", moved=(False,))
        assert [decision.rule for _, decision in ends if not decision.allowed] == ["loaded"]


def test_the_rest_of_the_private_home_is_written_as_ever() -> None:
    machine = Machine()
    effective = machine.call(machine.policy(GRANT))
    for name in (".cache/x", ".config/app/settings.json", ".local/share/app/db", ".local/state/x"):
        assert effective.decide(WRITE, f"{HOME}/{name}", creating=True).allowed


def test_nothing_is_moved_to_where_a_rule_names_a_socket() -> None:
    machine = Machine(directories=f"{HOME}/work/p {HOME}/work/q")
    machine.add(f"{HOME}/work/p/app.sock", "other")
    effective = machine.call(machine.policy(GRANT))
    work = f"{HOME}/work"
    for old, new in (("p", "r"), ("q", "p"), ("q/app.sock", "p/app.sock"), ("p/app.sock", "p/old.sock")):
        ends = effective.decide_rename(f"{work}/{old}", f"{work}/{new}", moved=(False,))
        assert "socket-place" in [decision.rule for _, decision in ends]
    ends = effective.decide_rename(f"{work}/q", f"{work}/r", moved=(False,))
    assert all(decision.allowed for _, decision in ends)
