"""`$arg` hosts: which host an argument names, and which it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpwrap.limits import BOUND_VALUES_PER_CALL
from mcpwrap.operation import Need
from mcpwrap.policy import bind as reasons
from mcpwrap.policy.hosts import Peer
from mcpwrap.protocol.glance import LongText
from tests.unit.policy.hosting import to
from tests.unit.policy.machine import Machine

if TYPE_CHECKING:
    from mcpwrap.policy.active import Bound

GRANT = """
[tools.fetch]
net = ["$arg:url"]
[tools.wiki]
net = ["$arg:url in *.wikipedia.org, wikidata.org"]
[tools.many]
net = ["$arg:items[].at", "$arg:a.b"]
[tools.own]
net = ["$arg:url", "localhost:8080", "10.0.0.5:5432"]
"""


def bind(tool: str, **arguments: object) -> Bound:
    machine = Machine()
    return machine.policy(GRANT).bind(tool, arguments, machine.resolve)


def hosts(bound: Bound) -> list[tuple[str, tuple[int, ...]]]:
    return [(each.host, each.ports) for each in bound.hosts]


@pytest.mark.parametrize(
    ("value", "host", "ports"),
    [
        ("https://example.com", "example.com", (80, 443)),
        ("https://example.com/a?b=c#d", "example.com", (80, 443)),
        ("https://EXAMPLE.com.:8443/", "example.com", (80, 443, 8443)),
        ("http://example.com:80/a b", "example.com", (80, 443)),
        ("https://example.com/@user", "example.com", (80, 443)),
        ("https://example.com?x=http://other.example/", "example.com", (80, 443)),
        ("https://example.com/a\\b", "example.com", (80, 443)),
        ("wss://example.com/socket", "example.com", (80, 443)),
        ("git+ssh://git@example.com:2222/x", "example.com", (80, 443, 2222)),
        ("postgres://me:p%40ss@db.example.com:5432/x", "db.example.com", (80, 443, 5432)),
        ("example.com", "example.com", (80, 443)),
        ("example.com:21", "example.com", (21, 80, 443)),
        ("db:5432", "db", (80, 443, 5432)),
        ("https://a_b.example.com/", "a_b.example.com", (80, 443)),
        ("https://b\u00fccher.example/", "xn--bcher-kva.example", (80, 443)),
        ("https://B\u00dcCHER.example/", "xn--bcher-kva.example", (80, 443)),
        ("https://8.8.8.8/", "8.8.8.8", (80, 443)),
        ("https://134744072/", "8.8.8.8", (80, 443)),
        ("https://0x8.010.8.8/", "8.8.8.8", (80, 443)),
        ("https://8.8.8.8.:81/", "8.8.8.8", (80, 81, 443)),
        ("https://[2606:4700:0::1111]:444/", "2606:4700::1111", (80, 443, 444)),
        ("https://[::ffff:8.8.8.8]/", "8.8.8.8", (80, 443)),
        ("2606:4700::1111", "2606:4700::1111", (80, 443)),
    ],
)
def test_a_value_binds_its_host_on_the_webs_ports_and_its_own(
    value: str, host: str, ports: tuple[int, ...]
) -> None:
    bound = bind("fetch", url=value)
    assert hosts(bound)[0] == (host, ports)
    assert bound.hosts[0].literal == (host[0] in "82")
    assert {each.host for each in bound.hosts} <= {host, f"www.{host}"}
    assert {each.rule for each in bound.hosts} == {"tools.fetch.net[0]"}
    assert not bound.unbound and not bound.paths


def test_the_www_form_and_the_apex_come_along_and_nothing_else() -> None:
    def names(url: str) -> list[str]:
        return [each.host for each in bind("fetch", url=url).hosts]

    assert names("https://example.com/") == ["example.com", "www.example.com"]
    assert names("https://www.example.com/") == ["www.example.com", "example.com"]
    assert names("https://a.example.com/") == ["a.example.com", "www.a.example.com"]
    assert names("https://www.com/") == ["www.com"]
    assert names("https://db/") == ["db"]
    assert names("https://8.8.8.8/") == ["8.8.8.8"]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("file:///etc/passwd", reasons.NO_HOST),
        ("file://host/share", reasons.NO_HOST),
        ("FILE:/etc/passwd", reasons.NO_HOST),
        ("data:text/html,hi", reasons.NO_HOST),
        ("javascript:alert(1)", reasons.NO_HOST),
        ("mailto:a@example.com", reasons.NO_HOST),
        ("tel:123", reasons.NO_HOST),
        ("/etc/passwd", reasons.NO_HOST),
        ("a/b", reasons.NO_HOST),
        ("//example.com/", reasons.NO_HOST),
        ("git@example.com:a/b.git", reasons.NO_HOST),
        ("postgres://a.example,b.example/x", reasons.NO_HOST),
        ("https://", reasons.NO_HOST),
        ("https:///example.com", reasons.NO_HOST),
        ("https://a..example/", reasons.NO_HOST),
        ("https://-a.example/", reasons.NO_HOST),
        ("https://" + "a" * 64 + ".example/", reasons.NO_HOST),
        ("https://" + "a." * 130 + "example/", reasons.NO_HOST),
        ("https:example.com", reasons.AMBIGUOUS),
        ("https:/example.com", reasons.AMBIGUOUS),
        ("https:\\\\example.com", reasons.AMBIGUOUS),
        ("http:8080", reasons.AMBIGUOUS),
        ("https://good.example@evil.example/", reasons.AMBIGUOUS),
        ("https://good.example:443@evil.example/", reasons.AMBIGUOUS),
        ("https://@example.com/", reasons.AMBIGUOUS),
        ("ssh://a@b@example.com/", reasons.AMBIGUOUS),
        ("ssh://a\\@example.com/", reasons.AMBIGUOUS),
        ("https://good.example\\@evil.example/", reasons.AMBIGUOUS),
        ("https://good.example\\.evil.example/", reasons.AMBIGUOUS),
        ("https://exa\tmple.com/", reasons.AMBIGUOUS),
        ("https://exa\nmple.com/", reasons.AMBIGUOUS),
        ("https://exa mple.com/", reasons.AMBIGUOUS),
        ("https://example.com\0.evil.example/", reasons.AMBIGUOUS),
        ("https://example.com%2eevil.example/", reasons.AMBIGUOUS),
        ("https://127%2e0.0.1/", reasons.AMBIGUOUS),
        (" example.com", reasons.AMBIGUOUS),
        ("example.com\n", reasons.AMBIGUOUS),
        ("https://example.com:/", reasons.AMBIGUOUS),
        ("https://example.com:0/", reasons.AMBIGUOUS),
        ("https://example.com:65536/", reasons.AMBIGUOUS),
        ("https://example.com:4 43/", reasons.AMBIGUOUS),
        ("https://example.com:0443/", reasons.AMBIGUOUS),
        ("https://example.com:\u0664\u0664\u0663/", reasons.AMBIGUOUS),
        ("https://example.com:80:90/", reasons.AMBIGUOUS),
        ("https://1.2.3.4.5/", reasons.AMBIGUOUS),
        ("https://1.2.3.256/", reasons.AMBIGUOUS),
        ("https://example.0x/", reasons.AMBIGUOUS),
        ("https://[::1/", reasons.AMBIGUOUS),
        ("https://[fe80::1%25eth0]/", reasons.AMBIGUOUS),
        ("https://[8.8.8.8]/", reasons.AMBIGUOUS),
        ("https://[::1]x/", reasons.AMBIGUOUS),
        ("https://\uff45xample.com/", reasons.AMBIGUOUS),
        ("https://\u2460\u2461\u2466.0.0.1/", reasons.AMBIGUOUS),
        ("https://\uff11\uff12\uff17.0.0.1/", reasons.AMBIGUOUS),
        ("https://example\u3002com/", reasons.AMBIGUOUS),
        ("https://stra\u00dfe.example/", reasons.AMBIGUOUS),
        ("https://\u1e9e.example/", reasons.AMBIGUOUS),
        ("https://a\u200db.example/", reasons.AMBIGUOUS),
        ("https://\u212apple.example/", reasons.AMBIGUOUS),
        ("https://bu\u0308cher.example/", reasons.AMBIGUOUS),
        ("https://\u202ecom.example/", reasons.AMBIGUOUS),
        ("https://\ud800.example/", reasons.AMBIGUOUS),
        ("http://127.0.0.1/", reasons.OWN_NETWORK),
        ("http://127.1/", reasons.OWN_NETWORK),
        ("http://2130706433/", reasons.OWN_NETWORK),
        ("http://0x7f.0.0.1/", reasons.OWN_NETWORK),
        ("http://0177.0.0.1/", reasons.OWN_NETWORK),
        ("http://[::1]/", reasons.OWN_NETWORK),
        ("http://[::ffff:127.0.0.1]/", reasons.OWN_NETWORK),
        ("http://[64:ff9b::7f00:1]/", reasons.OWN_NETWORK),
        ("http://0/", reasons.OWN_NETWORK),
        ("http://localhost:8080/", reasons.OWN_NETWORK),
        ("http://LocalHost./", reasons.OWN_NETWORK),
        ("http://a.localhost/", reasons.OWN_NETWORK),
        ("http://169.254.169.254/latest/meta-data/", reasons.OWN_NETWORK),
        ("http://[fd00:ec2::254]/", reasons.OWN_NETWORK),
        ("http://168.63.129.16/", reasons.OWN_NETWORK),
        ("http://10.0.0.5:5432/", reasons.OWN_NETWORK),
        ("", reasons.EMPTY),
        (7, reasons.NOT_TEXT),
        (["https://example.com"], reasons.NOT_TEXT),
        (None, reasons.ABSENT),
        (LongText(99_999), reasons.TOO_LONG),
    ],
)  # fmt: skip
def test_what_can_be_read_in_two_ways_or_leads_inside_binds_nothing_and_says_why(
    value: object, reason: str
) -> None:
    bound = bind("fetch", url=value)
    assert not bound.hosts
    assert [(each.need, each.reason) for each in bound.unbound] == [(Need.CONNECT, reason)]
    assert reason in reasons.REASONS


def test_a_limit_holds_for_the_host_and_for_its_other_form() -> None:
    def names(url: str) -> list[str]:
        return [each.host for each in bind("wiki", url=url).hosts]

    assert names("https://en.wikipedia.org/") == ["en.wikipedia.org", "www.en.wikipedia.org"]
    assert names("https://www.wikipedia.org/") == ["www.wikipedia.org"]
    assert names("https://wikidata.org/") == ["wikidata.org"]
    for url in (
        "https://wikipedia.org/",
        "https://evil.example/",
        "https://8.8.8.8/",
        "https://xwikidata.org/",
    ):
        bound = bind("wiki", url=url)
        assert not bound.hosts
        assert bound.unbound[0].reason == reasons.OUTSIDE_HOSTS
    assert (
        bind("wiki", url="http://x.wikipedia.org.evil.example:8/").unbound[0].path
        == "x.wikipedia.org.evil.example:8"
    )


def test_a_private_host_that_is_listed_is_reached_by_that_line_and_nothing_is_told() -> None:
    machine = Machine()
    policy = machine.policy(GRANT)
    for url, peer in (
        ("http://127.0.0.1:8080/", to("127.0.0.1", 8080)),
        ("http://10.0.0.5/", to("10.0.0.5", 5432)),
    ):
        bound = policy.bind("own", {"url": url}, machine.resolve)
        assert bound == ((), (), ())
        assert machine.call(policy, "own", url=url).connect(peer).allowed
    assert policy.bind("own", {"url": "http://10.0.0.6/"}, machine.resolve).unbound


def test_each_item_binds_and_the_limits_of_a_call_hold() -> None:
    bound = bind("many", items=[{"at": "https://a.example"}, {"at": "x y"}, {}], a={"b": "b.example:1"})
    assert [each.host for each in bound.hosts] == ["a.example", "www.a.example", "b.example", "www.b.example"]
    assert [(each.argument, each.reason) for each in bound.unbound] == [("items[].at", reasons.AMBIGUOUS)]
    flood = bind("many", items=[{"at": f"h{each}.example"} for each in range(BOUND_VALUES_PER_CALL + 5)])
    assert len(flood.hosts) == 2 * BOUND_VALUES_PER_CALL
    assert flood.unbound[0].reason == reasons.TOO_MANY


def test_what_is_bound_is_granted_for_the_call_and_no_longer() -> None:
    machine = Machine()
    policy = machine.policy(GRANT)
    force = machine.call(policy, "fetch", url="http://a.example:8080/x")
    assert force.connect(to("a.example", 8080)).rule == "tools.fetch.net[0]"
    assert force.connect(to("www.a.example")).allowed
    assert not force.connect(to("a.example", 22)).allowed
    assert not force.connect(Peer("a.example", "", 443, "udp")).allowed
    assert not force.dial(to("a.example"), "192.168.0.1").allowed
    assert not machine.call(policy, "fetch", url="http://b.example/").connect(to("a.example")).allowed
