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
    ".ipython/profile_default/ipython_config.json",
    ".bun/install/cache/x.pile",
    ".git/config",
    ".cache/node_modules/debug/index.js",
    ".cache/mcpwrap/package.json",
    ".cache/HEAD",
    ".local/share/head",
    ".cache/vite.config.js",
    ".gnupg/gpg-agent.conf",
    ".local/share/.git",
]


@pytest.mark.parametrize("place", PLACES)
def test_a_call_does_not_write_what_is_run_by_itself_and_start_up_does(place: str) -> None:
    machine = Machine()
    policy = machine.policy(GRANT)
    path = f"{HOME}/{place}"
    for effective in (machine.call(policy), idle(policy)):
        for regular in (True, False):
            assert effective.decide(WRITE, path, creating=True, regular=regular).rule == "loaded"
    assert machine.call(policy).decide(READ, path).allowed
    assert idle(policy, startup=True).decide(WRITE, path, creating=True).allowed
    assert idle(policy, startup=True).is_loaded(path)


def test_without_a_view_it_is_so_where_home_is_then() -> None:
    machine = Machine()
    policy = machine.policy(GRANT, bare=True)
    for place in (".npmrc", ".git", ".local/lib/x"):
        assert machine.call(policy).decide(WRITE, f"{STATE}/home/{place}", creating=True).rule == "loaded"
    assert machine.call(policy).decide(WRITE, f"{STATE}/home/.x", creating=True).allowed
    assert machine.call(policy).decide(WRITE, f"{STATE}/home/x", creating=True).rule == "no-grant"


def test_where_there_are_two_names_for_it_the_one_it_is_kept_under_is_not_written() -> None:
    machine = Machine()
    policy = machine.policy(GRANT)
    for effective in (machine.call(policy), idle(policy, startup=True)):
        for name in ("home", "home/.x", "home/node_modules/a/index.js"):
            assert (
                effective.decide(WRITE, f"{STATE}/{name}", creating=True, regular=False).rule == "kept-home"
            )
        assert effective.decide(WRITE, f"{STATE}/other", creating=True).allowed
        assert effective.decide(READ, f"{STATE}/home/.x").allowed


def test_what_is_looked_for_in_every_directory_above_may_lie_where_nothing_of_others_is_below() -> None:
    machine = Machine()
    effective = machine.call(machine.policy(GRANT))
    for name in (".cache/clones/a/.git", ".cache/clones/a/package.json", ".other/node_modules"):
        assert effective.decide(WRITE, f"{HOME}/{name}", creating=True).allowed
    assert not effective.is_loaded(f"{HOME}/.cache/clones/a/.git")
    assert not effective.is_loaded(f"{STATE}/.git")


@pytest.mark.parametrize("name", [".local", ".config", ".julia", ".cache"])
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


def test_a_rule_is_not_followed_by_a_link_that_a_tool_may_have_made() -> None:
    """The name leads elsewhere from the next start on, and that would be what the rule names then."""
    work = f"{HOME}/work"
    machine = Machine(links={f"{work}/p/app.sock": "/run/d/evil.sock"})
    machine.add("/run/d/evil.sock", "other")
    policy = machine.policy(GRANT)
    for written in ("", f"{work}/p/app.sock", "/run/d/evil.sock"):
        assert not machine.call(policy, "u").socket("/run/d/evil.sock", written).allowed
    assert [rule.path for rule in policy.turned] == [f"{work}/p/app.sock"]


def test_a_rule_is_followed_by_a_link_of_the_users() -> None:
    for links in (
        {f"{HOME}/own.sock": "/run/d/app.sock"},
        {f"{HOME}/own.sock": "d/app.sock", f"{HOME}/d": "/run/d"},
    ):
        machine = Machine(links=links)
        machine.add("/run/d/app.sock", "other")
        policy = machine.policy('[tools.t]\nfs_write = ["~/work"]\n[tools.u]\nunix = ["~/own.sock"]')
        assert machine.call(policy, "u").socket("/run/d/app.sock", f"{HOME}/own.sock").allowed
        assert not policy.turned


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
