"""Refusals in words: what the model is told, what the user is offered, and what neither is."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

import pytest

from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.active import Unbound
from mcpwrap.policy.bind import OUTSIDE
from mcpwrap.policy.reasons import MAX_TEXT, denial, shown, unbound_denial
from tests.unit.policy.machine import EXEC, HOME, READ, WRITE, Machine

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
        (Need.CONNECT, "/data/s", ("t",), ""),
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
    "rule", ["private:.ssh", "write-protected:.git/config", "tools.t.fs_deny[0]", "loader", "no-path"]
)
def test_a_refusal_somebody_decided_on_is_never_offered_away(policy: Policy, rule: str) -> None:
    assert denial(event(WRITE, "/data/x", rule), policy, ("t",)).offer == ""


def test_a_private_place_is_called_so_even_if_it_is_not_in_view(policy: Policy) -> None:
    told = denial(event(READ, f"{HOME}/.ssh/id", "not-in-view"), policy, ("t",))
    assert told.rule == "private:.ssh"
    assert "the path is private" in told.sentence


def test_a_hook_of_a_writable_repository_names_any_writable(policy: Policy) -> None:
    told = denial(
        event(EXEC, f"{HOME}/r/.git/hooks/post-commit", "writable", "exec"), policy, ("git_commit",)
    )
    assert told.offer == '[tools.git_commit]\nexec = ["any-writable"]'
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
    private = unbound_denial(
        Unbound(READ, "r", "path", "/data/.env", "/data/.env", "private:.env*"), policy, "t"
    )
    assert (private.rule, private.offer) == ("private:.env*", "")
