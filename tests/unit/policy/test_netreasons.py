"""Refusals of the network in words, and the lines that are offered for them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcpwrap
from mcpwrap.operation import Decision, Denial, Event, Need, Operation
from mcpwrap.policy.active import Bound, Unbound
from mcpwrap.policy.bind import ABSENT, AMBIGUOUS, OUTSIDE_HOSTS, OWN_NETWORK
from mcpwrap.policy.reasons import denial, is_about, unbound_denial
from tests.unit.policy.machine import Machine

POLICY = Machine().policy('[tools.t]\nnet = ["a.example"]\n[tools.u]\nnet = ["$arg:url"]')
CONNECT = Need.CONNECT


def told(
    object: str,
    rule: str = "no-grant",
    act: str = "connect",
    written: str = "",
    tools: tuple[str, ...] = ("t",),
) -> Denial:
    return denial(Event(Operation(act, CONNECT, object, written), Decision(False, rule)), POLICY, tools)


def test_a_refused_host_is_told_as_a_refusal_and_offered_in_the_table_it_belongs_to() -> None:
    found = told("evil.example:8080")
    assert found.sentence == (
        'Tool "t" was not allowed to connect to "evil.example:8080": no rule grants it (rule no-grant). '
        "This was refused by mcpwrap, not an outage; do not retry; ask the user."
    )
    assert found.offer == '[tools.t]\nnet = ["evil.example:8080"]'
    assert found.place == "net of [tools.t] (line 2)"
    assert found.brief == 'connect to "evil.example:8080" (no rule grants it)'


@pytest.mark.parametrize(
    ("act", "object", "words", "offer"),
    [
        ("lookup", "evil.example", 'look up "evil.example"', 'net = ["evil.example"]'),
        ("lookup", "evil\u202e.example", 'look up "evil.example"', ""),
        (
            "send",
            "udp://ntp.example:123",
            'send to "udp://ntp.example:123"',
            'net = ["udp://ntp.example:123"]',
        ),
        ("listen", "0.0.0.0:8080", 'be reached at "0.0.0.0:8080"', 'listen = ["localhost:8080"]'),
        ("bind", "[::]:8080", 'listen at "[::]:8080"', 'listen = ["localhost:8080"]'),
    ],
)
def test_each_act_has_its_verb_and_its_noun(act: str, object: str, words: str, offer: str) -> None:
    found = told(object, act=act)
    assert f"not allowed to {words}: no rule grants it" in found.sentence
    assert found.offer == (f"[tools.t]\n{offer}" if offer else "")


def test_a_name_that_leads_inside_is_offered_by_its_address_and_only_on_the_users_own_network() -> None:
    found = told("db.example:5432", "address-guard:private", written="db.example is 10.1.2.3")
    assert "that host leads to an address of a private network (rule address-guard:private)" in found.sentence
    assert "10.1.2.3" not in found.sentence
    assert found.offer == '[tools.t]\nnet = ["10.1.2.3:5432"]'
    assert found.brief.endswith(
        "(that host leads to an address of a private network: db.example is 10.1.2.3)"
    )
    six = told("db.example:5432", "address-guard:private", written="fd12::1")
    assert six.offer == '[tools.t]\nnet = ["[fd12::1]:5432"]'
    made_up = told("a.example:443", "address-guard:reserved", written="a.example is 198.18.0.7")
    assert made_up.offer == '[tools.t]\nnet = ["198.18.0.7"]'
    for rule, written in (
        ("loopback", "127.0.0.1"),
        ("metadata", "169.254.169.254"),
        ("link-local", "fe80::1"),
        ("private", ""),
        ("private", "what 8.8.8.8"),
        ("metadata", "10.0.0.1"),
    ):
        assert not told("db.example:80", f"address-guard:{rule}", written=written).offer
    literal = told("169.254.169.254:80", "address-guard:metadata")
    assert "it is a cloud's metadata service" in literal.sentence
    assert not literal.offer


def test_every_rule_that_refuses_in_the_code_has_words_of_its_own() -> None:
    sources = (path.read_text() for path in Path(mcpwrap.__file__).parent.rglob("*.py"))
    rules = {rule for text in sources for rule in re.findall(r'Decision\(False, "([a-z-]+)"', text)}
    assert len(rules) > 20
    for need, target in ((Need.READ, "/x"), (CONNECT, "x.example:443")):
        event = Event(Operation("read", need, target), Decision(False, "tools.t.fs_deny[0]"))
        assert "a rule of the grant forbids it" in denial(event, POLICY, ("t",)).sentence
    for rule in rules:
        said = [told("x.example:443", rule).sentence]
        said.append(
            denial(Event(Operation("read", Need.READ, "/x"), Decision(False, rule)), POLICY, ("t",)).sentence
        )
        assert any("a rule of the grant forbids it" not in each for each in said), rule


def test_what_was_granted_and_failed_is_no_refusal() -> None:
    for rule in ("unreachable", "proxy", "stale-address", "relay-busy", "too-many-connections"):
        found = told("a.example:443", rule, written="a.example: no\nsuch host")
        assert f"(rule {rule}). The grant allows it: this was no refusal." in found.sentence
        assert 'could not connect to "a.example:443"' in found.sentence
        assert "not allowed" not in found.sentence and found.sentence.isprintable()
        assert not found.offer


def test_outside_of_tools_the_line_goes_to_the_table_of_its_area() -> None:
    event = Event(Operation("connect", CONNECT, "a.example:443"), Decision(False, "no-grant"))
    found = denial(event, POLICY, (), area="resources")
    assert found.sentence.startswith("The server, for a resource, was not allowed to connect to")
    assert found.offer == '[resources]\nnet = ["a.example"]'
    assert denial(event, POLICY, (), startup=True).offer == '[startup]\nnet = ["a.example"]'
    assert denial(event, POLICY, ()).offer == '[server]\nnet = ["a.example"]'


def unbound(reason: str, path: str = "", value: str = "https://u:secret@x/?token=secret") -> Unbound:
    return Unbound(CONNECT, "tools.u.net[0]", "url", value, path, reason)


def test_an_argument_that_named_no_host_is_the_reason_and_no_secret_of_it_is_told() -> None:
    outside = unbound(OUTSIDE_HOSTS, "www.evil.example:8080")
    found = unbound_denial(outside, POLICY, "u")
    assert 'use argument "url" = "www.evil.example:8080": the host is not among' in found.sentence
    assert found.offer == '[tools.u]\nnet = ["www.evil.example:8080"]'
    for each in (outside, unbound(AMBIGUOUS), unbound(OWN_NETWORK, "169.254.169.254:80")):
        found = unbound_denial(each, POLICY, "u")
        assert "secret" not in found.sentence + found.brief + found.object + found.offer
    assert not found.offer
    assert is_about(outside, "www.evil.example:443")
    assert is_about(outside, "evil.example")
    assert not is_about(outside, "other.example:8080")
    event = Event(Operation("connect", CONNECT, "evil.example:443"), Decision(False, "no-grant"))
    reason = denial(event, POLICY, ("u",), bound=Bound(unbound=(outside,)))
    assert "the host is not among those its rule allows" in reason.sentence
    absent = Bound(unbound=(unbound(ABSENT, value=""),))
    needs = denial(event, POLICY, ("u",), bound=absent, arguments=("uri",)).brief
    assert needs.endswith('(its rule needs the argument "url"; this call has: "uri")')
