"""Refusals in words: what the model is told, what the user is offered, and what neither is."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.active import Bound, Unbound
from mcpwrap.policy.bind import ABSENT, OUTSIDE
from mcpwrap.policy.reasons import denial, is_granted, unbound_denial
from mcpwrap.policy.shown import MAX_TEXT, shown
from tests.unit.policy.machine import EXEC, HOME, READ, WRITE, Machine, idle

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy


@pytest.fixture(scope="module")
def policy() -> Policy:
    return Machine().policy('[tools.t]\nfs_deny = ["~/never"]')


def event(need: Need, path: str, rule: str = "no-grant", act: str = "") -> Event:
    return Event(Operation(act or need.value, need, path), Decision(False, rule))


def test_the_model_is_told_what_was_refused_and_never_how_to_widen_it(policy: Policy) -> None:
    told = denial(event(READ, "/data/x"), policy, ("read_file",))
    assert told.sentence == (
        'Tool "read_file" was not allowed to read "/data/x": no rule grants it (rule no-grant). '
        "This was refused by mcpwrap, not an outage; do not retry; ask the user."
    )
    assert told.offer == '[tools.read_file]\nfs_read = ["/data/x"]'


@pytest.mark.parametrize(
    ("need", "path", "tools", "offer"),
    [
        (WRITE, f"{HOME}/x", ("w",), '[tools.w]\nfs_write = ["~/x"]'),
        (EXEC, "/usr/bin/git", ("a.b", "c"), '[tools."a.b|c"]\nexec = ["/usr/bin/git"]'),
        (READ, "/data/$x", (), '[server]\nfs_read = ["/data/$$x"]'),
        (READ, 'a"]'.join(("/d/", "\\")), ("t",), '[tools.t]\nfs_read = ["/d/a\\"]\\\\"]'),
        (Need.CONNECT, "/data/s", ("t",), '[tools.t]\nunix = ["/data/s"]'),
        (Need.CONNECT, f"{HOME}/s", (), '[server]\nunix = ["~/s"]'),
        (Need.CONNECT, "/run/docker.sock", ("t",), ""),
        (Need.CONNECT, "/run/user/1000/bus", ("t",), ""),
        (Need.CONNECT, "/data/" + "x" * 110, ("t",), ""),
        (Need.CONNECT, "api.example.com:443", ("t",), '[tools.t]\nnet = ["api.example.com"]'),
        (Need.CONNECT, "api.example.com:8443", (), '[server]\nnet = ["api.example.com:8443"]'),
        (Need.CONNECT, "udp://ntp.example:123", ("t",), '[tools.t]\nnet = ["udp://ntp.example:123"]'),
        (Need.CONNECT, "[2606:4700::1111]:80", ("t",), '[tools.t]\nnet = ["[2606:4700::1111]:80"]'),
        (Need.CONNECT, "10.0.0.5:5432", ("t",), '[tools.t]\nnet = ["10.0.0.5:5432"]'),
        (Need.CONNECT, "127.0.0.1:6379", ("t",), '[tools.t]\nnet = ["localhost:6379"]'),
        (Need.CONNECT, "169.254.169.254:80", ("t",), ""),
        (Need.CONNECT, "[::ffff:169.254.169.254]:80", ("t",), ""),
        (Need.CONNECT, "[fd00:ec2::254]:80", ("t",), ""),
        (Need.CONNECT, "169.254.1.1:80", ("t",), ""),
        (Need.CONNECT, "0.0.0.0:80", ("t",), ""),
        (Need.CONNECT, "8.8.8.8:53", ("t",), ""),
        (Need.CONNECT, "x.env.example:443", ("t",), '[tools.t]\nnet = ["x.env.example"]'),
        (Need.CONNECT, 'a"].example:443', ("t",), ""),
        (Need.CONNECT, "sctp://a.example:443", ("t",), ""),
        (READ, "/data/*", ("t",), ""),
        (READ, "/data/\u202ex", ("t",), ""),
        (READ, "/data/\x1b[2J", ("t",), ""),
        (READ, "/data/\udcff", ("t",), ""),
        (READ, "/data/" + "x" * 300, ("t",), ""),
        (READ, "/data/x", ("a*",), ""),
        (READ, "/data/x", ("a\u202e",), ""),
        (READ, "/home", ("t",), ""),
        (READ, HOME, ("t",), ""),
        (READ, "/", ("t",), ""),
        (READ, "/dev/kvm", ("t",), ""),
        (READ, f"{HOME}/.ssh/id", ("t",), ""),
        (WRITE, "/data/.git/config", ("t",), ""),
        (WRITE, "/data/.mcp.json", ("t",), ""),
    ],
)
def test_the_user_is_offered_the_line_that_would_grant_it_if_there_may_be_one(
    policy: Policy, need: Need, path: str, tools: tuple[str, ...], offer: str
) -> None:
    assert denial(event(need, path), policy, tools).offer == offer


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        (f"/data/notes.txt.{'0af3' * 8}.tmp", "/data/notes.txt"),
        ("/data/notes.txt.tmp", "/data/notes.txt"),
        ("/data/notes.txt.1234.tmp", "/data/notes.txt"),
        ("/data/notes.txt.tmp.1234.1700000000", "/data/notes.txt"),
        ("/data/tmpab12cd_x", "/data"),
        ("/data/plan.md", "/data/plan.md"),
    ],
)
def test_what_is_offered_is_the_file_and_never_a_temporary_name_for_it(
    policy: Policy, name: str, offered: str
) -> None:
    told = denial(event(WRITE, name, act="create"), policy, ("w",))
    assert told.offer == f'[tools.w]\nfs_write = ["{offered}"]'
    assert denial(event(WRITE, name), policy, ("w",)).offer == f'[tools.w]\nfs_write = ["{name}"]'


def test_a_table_that_is_there_is_named_with_its_line_and_spelled_as_it_is_there() -> None:
    there = Machine().policy('[tools."b|a"]\nfs_read = ["/data/a"]')
    told = denial(event(READ, "/data/x"), there, ("a", "b"))
    assert told.offer == '[tools."b|a"]\nfs_read = ["/data/x"]'
    assert told.place == 'fs_read of [tools."b|a"] (line 2)'
    assert denial(event(WRITE, "/data/x"), there, ("a", "b")).place == '[tools."b|a"] (line 1)'
    assert denial(event(READ, "/data/x"), there, ("a",)).place == ""


def test_the_user_is_told_why_in_a_few_words(policy: Policy) -> None:
    def said(event: Event, tool: str = "t") -> str:
        return denial(event, policy, (tool,)).brief

    assert said(event(WRITE, "/p", act="create")) == 'create "/p" (no rule grants it)'
    assert said(event(READ, "/p"), "u") == 'read "/p" (no header of the grant names this tool)'
    assert (
        said(event(READ, f"{HOME}/.ssh/id")) == f'read "{HOME}/.ssh/id" (the path is private: private:.ssh)'
    )
    connect = event(Need.CONNECT, "1.1.1.1:443", "no-network", "connect")
    assert said(connect) == 'connect to "1.1.1.1:443" (no rule of the grant opens the network)'
    assert "(a name look-up; no rule of the grant" in said(
        event(Need.CONNECT, "1.1.1.1:53", "no-network", "connect")
    )
    asked = event(Need.CONNECT, "api.example.com", "no-network", "lookup")
    assert said(asked) == 'look up "api.example.com" (no rule of the grant opens the network)'
    assert denial(asked, policy, ("t",)).offer == '[tools.t]\nnet = ["api.example.com"]'
    assert 'not allowed to look up "/p"' in denial(event(READ, "/p", act="lookup"), policy, ("t",)).sentence


def test_an_argument_that_granted_nothing_is_the_reason() -> None:
    policy = Machine().policy('[policy]\nwithin = ["/data/w"]\n[tools.t]\nfs_read = ["$arg:path"]')
    absent = Bound(unbound=(Unbound(READ, "tools.t.fs_read[0]", "path", "", "", ABSENT),))
    told = denial(event(READ, "/data/x"), policy, ("t",), bound=absent, arguments=("file", "mode"))
    assert told.brief == (
        'read "/data/x" (its rule needs the argument "path"; this call has: "file", "mode")'
    )
    outside = Bound(unbound=(Unbound(READ, "tools.t.fs_read[0]", "path", "/data/x", "/data/x", OUTSIDE),))
    told = denial(event(READ, "/data/x/y"), policy, ("t",), bound=outside, arguments=("path",))
    assert told.brief == 'read "/data/x/y" (argument "path" = "/data/x" lies outside policy.within)'
    assert "outside the directories `within` allows" in told.sentence
    fresh = event(WRITE, "/data/x.0123abcd.tmp", act="create")
    assert 'argument "path"' in denial(fresh, policy, ("t",), bound=outside).brief
    assert denial(event(READ, "/data/z"), policy, ("t",), bound=outside).brief.endswith("(no rule grants it)")


@pytest.mark.parametrize(
    "rule", ["private:.ssh", "write-protected:.git/config", "tools.t.fs_deny[0]", "loader", "no-path"]
)
def test_a_refusal_somebody_decided_on_is_never_offered_away(policy: Policy, rule: str) -> None:
    assert denial(event(WRITE, "/data/x", rule), policy, ("t",)).offer == ""


def test_an_argument_that_bound_nothing_is_no_refusal_where_another_rule_grants_what_it_names() -> None:
    effective = idle(Machine().policy('[server]\nfs_read = ["~/data"]'))

    def outside(need: Need, path: str) -> Unbound:
        return Unbound(need, "tools.t.fs_read[0]", "path", path, path, OUTSIDE)

    assert is_granted(outside(READ, f"{HOME}/data/missing"), effective)
    assert not is_granted(outside(WRITE, f"{HOME}/data/missing"), effective)
    assert not is_granted(outside(READ, f"{HOME}/other"), effective)
    assert not is_granted(outside(READ, ""), effective)


def test_a_private_place_is_called_so_even_if_it_is_not_in_view(policy: Policy) -> None:
    told = denial(event(READ, f"{HOME}/.ssh/id", "not-in-view"), policy, ("t",))
    assert told.rule == "private:.ssh"
    assert "the path is private" in told.sentence


def test_executing_what_was_written_is_never_offered(policy: Policy) -> None:
    told = denial(
        event(EXEC, f"{HOME}/r/.git/hooks/post-commit", "writable", "exec"), policy, ("git_commit",)
    )
    assert told.offer == ""
    assert "any-writable" not in told.sentence


def test_what_happens_at_startup_is_offered_for_startup(policy: Policy) -> None:
    assert denial(event(READ, "/data/x"), policy, (), startup=True).offer.startswith("[startup]")


def test_several_candidates_are_named_as_such(policy: Policy) -> None:
    assert denial(event(READ, "/data/x"), policy, ("a", "b")).sentence.startswith(
        'One of the tools "a", "b" was'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plain /a b", "plain /a b"),
        ('x"]\n[tools."*"]', 'x\\"][tools.\\"*\\"]'),
        ("a\x00\x1b[31mb\u202e\u2066c\u200b\ue000", "a[31mbc"),
        ("\udcff\udc80", "\\xff\\x80"),
        ("\ud800x", "x"),
        ("é日", "é日"),
    ],
)
def test_names_from_outside_cannot_speak_for_mcpwrap(text: str, said: str) -> None:
    assert shown(text) == said


def test_long_names_are_cut() -> None:
    for text in ("x" * 1000, '"' * 1000, "\udcff" * 1000):
        assert len(shown(text)) <= MAX_TEXT
        assert shown(text).endswith("…")


def test_an_argument_outside_within_is_a_lookup_denial(policy: Policy) -> None:
    told = unbound_denial(
        Unbound(READ, "tools.t.fs_read[0]", "path", "/data/x", "/data/x", OUTSIDE), policy, "t"
    )
    assert (told.act, told.object, told.rule) == ("lookup", "/data/x", "tools.t.fs_read[0]")
    assert tomllib.loads(told.offer) == {"tools": {"t": {"fs_read": ["/data/x"]}}}
    assert "within" in told.sentence
    assert told.brief == 'argument "path" = "/data/x" lies outside policy.within'
    private = unbound_denial(
        Unbound(READ, "r", "path", "/data/.env", "/data/.env", "private:.env*"), policy, "t"
    )
    assert (private.rule, private.offer) == ("private:.env*", "")
