"""Which hosts are reached, by which rule, and where what they resolve to may lead."""

from __future__ import annotations

import pytest

from mcpwrap.policy.active import Active, ActiveWindow, BoundHost
from mcpwrap.policy.effective import Effective
from mcpwrap.policy.hosts import Peer
from tests.unit.policy.hosting import during, policy, to

GRANT = [
    "api.example.com", "db.internal:5432", "*.example.org", "10.0.0.0/8:5432", "localhost:6379",
    "[2001:67c:4e8::]:80", "udp://ntp.example.net:123", "everywhere.example:*",
]  # fmt: skip


@pytest.mark.parametrize(
    ("peer", "rule"),
    [
        (to("api.example.com"), 0),
        (to("API.Example.COM."), 0),
        (to("api.example.com", 80), None),
        (to("api.example.com", 443, "udp"), None),
        (to("x.api.example.com"), None),
        (to("apiexample.com"), None),
        (to("db.internal", 5432), 1),
        (to("a.example.org"), 2),
        (to("a.b.example.org"), 2),
        (to("example.org"), None),
        (to("badexample.org"), None),
        (to("10.255.0.1", 5432), 3),
        (to("::ffff:10.1.1.1", 5432), 3),
        (Peer("", "10.1", 5432, "tcp"), 3),
        (Peer("10.1", "", 5432, "tcp"), 3),
        (to("11.0.0.1", 5432), None),
        (to("64:ff9b::a00:1", 5432), None),
        (to("127.0.0.1", 6379), 4),
        (to("127.9.9.9", 6379), 4),
        (to("::1", 6379), 4),
        (to("::ffff:127.0.0.1", 6379), 4),
        (to("localhost", 6379), 4),
        (to("a.localhost", 6379), 4),
        (Peer("2130706433", "", 6379, "tcp"), 4),
        (to("127.0.0.1", 443), None),
        (to("64:ff9b::7f00:1", 6379), None),
        (to("2001:67c:4e8::", 80), 5),
        (to("2001:67c:4e8::1", 80), None),
        (to("ntp.example.net", 123, "udp"), 6),
        (to("ntp.example.net", 123), None),
        (to("everywhere.example", 1), 7),
        (to("everywhere.example", 65535), 7),
        (to("everywhere.example", 0), None),
        (to("everywhere.example", 65536), None),
        (to("8.8.8.8"), None),
        (to("ex ample.com"), None),
        (to(""), None),
        (Peer("", "", 443, "tcp"), None),
        (Peer("\u212apple.example", "", 443, "tcp"), None),
    ],
)  # fmt: skip
def test_a_host_is_reached_by_the_rule_that_names_it_and_by_no_other(peer: Peer, rule: int | None) -> None:
    decision = during(policy(GRANT)).connect(peer)
    assert decision.allowed == (rule is not None)
    if rule is not None:
        assert decision.rule == f"server.net[{rule}]"


def test_any_is_every_public_address_by_tcp_and_no_other() -> None:
    force = during(policy(["any"]))
    for host in ("example.com", "8.8.8.8", "2606:4700::1111"):
        assert force.connect(to(host, 6667)).rule == "server.net[0]"
        assert not force.connect(to(host, 443, "udp")).allowed
    for host in (
        "10.0.0.1",
        "127.0.0.1",
        "::1",
        "localhost",
        "100.64.0.1",
        "169.254.169.254",
        "fd00::1",
        "0.0.0.0",
    ):
        assert not force.connect(to(host, 80)).allowed


def test_a_rule_of_a_tool_holds_while_that_tool_is_called() -> None:
    made = policy(tools={"a": ["a.example"], "b|c": ["b.example"], "*": ["all.example"]})
    assert during(made, "a").connect(to("a.example")).rule == "tools.a.net[0]"
    assert not during(made, "a").connect(to("b.example")).allowed
    assert during(made, "a", "c").connect(to("b.example")).allowed
    assert during(made, "a").connect(to("all.example")).allowed
    assert not during(made).connect(to("all.example")).allowed


def test_startups_rules_end_with_it() -> None:
    made = policy(startup=["registry.example"])
    assert during(made, startup=True).connect(to("registry.example")).rule == "startup.net[0]"
    assert not during(made, "t").connect(to("registry.example")).allowed


def area(name: str) -> Effective:
    made = policy(
        ["s.example"],
        {"*": ["t.example"], "r": ["t.example"]},
        resources=["r.example"],
        prompts=["p.example"],
    )
    window = ActiveWindow("w", "", area=name)  # type: ignore[arg-type]
    return made.effective(Active(1, False, (window,)))


def test_resources_and_prompts_have_their_own_tables_and_none_of_a_tool() -> None:
    reached = {
        name: [host for host in ("s", "t", "r", "p") if area(name).connect(to(f"{host}.example")).allowed]
        for name in ("tools", "resources", "prompts")
    }
    assert reached == {"tools": ["s"], "resources": ["s", "r"], "prompts": ["s", "p"]}


@pytest.mark.parametrize(
    ("peer", "address", "rule"),
    [
        (to("api.example.com"), "8.8.8.8", "server.net[0]"),
        (to("api.example.com"), "2606:4700::1", "server.net[0]"),
        (to("api.example.com"), "192.168.1.1", "server.net[0]"),
        (to("api.example.com"), "fd12::1", "server.net[0]"),
        (to("api.example.com"), "100.64.0.9", "server.net[0]"),
        (to("a.example.org"), "192.168.1.1", "address-guard:private"),
        (to("a.example.org"), "fd12::1", "address-guard:private"),
        (to("a.example.org"), "100.64.0.9", "address-guard:cgnat"),
        (to("a.example.org"), "64:ff9b::c0a8:101", "address-guard:private"),
        (to("everywhere.example", 5432), "10.0.0.3", "server.net[3]"),
        (to("everywhere.example", 6379), "127.0.0.1", "server.net[4]"),
        (to("everywhere.example", 6379), "::ffff:127.0.0.1", "server.net[4]"),
        (to("everywhere.example", 6379), "64:ff9b::7f00:1", "address-guard:loopback"),
        (to("everywhere.example", 80), "127.0.0.1", "address-guard:loopback"),
        (to("everywhere.example", 80), "169.254.169.254", "address-guard:metadata"),
        (to("everywhere.example", 80), "::ffff:169.254.169.254", "address-guard:metadata"),
        (to("everywhere.example", 80), "2002:a9fe:a9fe::", "address-guard:metadata"),
        (to("everywhere.example", 80), "fe80::1%eth0", "address-guard:link-local"),
        (to("everywhere.example", 80), "0.0.0.0", "address-guard:unspecified"),
        (to("everywhere.example", 80), "240.0.0.1", "address-guard:reserved"),
        (to("everywhere.example", 80), "ff02::1", "address-guard:multicast"),
        (to("everywhere.example", 80), "no address", "no-host"),
        (to("nobody.example"), "8.8.8.8", "no-grant"),
        (to("localhost", 6379), "127.0.0.1", "server.net[4]"),
        (to("localhost", 6379), "8.8.8.8", "address-guard:public"),
        (to("localhost", 6379), "10.0.0.1", "address-guard:private"),
        (to("127.0.0.1", 6379), "127.0.0.1", "server.net[4]"),
        (to("127.0.0.1", 6379), "::1", "server.net[4]"),
        (to("127.0.0.1", 6379), "64:ff9b::7f00:1", "no-host"),
        (to("127.0.0.1", 6379), "8.8.8.8", "no-host"),
        (to("10.0.0.1", 5432), "8.8.8.8", "no-host"),
    ],
)  # fmt: skip
def test_a_name_leads_where_its_address_may(peer: Peer, address: str, rule: str) -> None:
    decision = during(policy(GRANT)).dial(peer, address)
    assert decision.rule == rule
    assert decision.allowed == rule.startswith("server.")


def test_a_special_place_is_reached_by_a_rule_that_names_it_and_not_by_a_wider_one() -> None:
    def allowed(address: str, *rules: str) -> bool:
        force = during(policy(["x.example:*", *rules]))
        assert force.connect(to(address, 80)).allowed == force.dial(to("x.example", 80), address).allowed
        return force.connect(to(address, 80)).allowed

    assert allowed("169.254.7.7", "169.254.0.0/16:80")
    assert not allowed("169.254.7.7", "160.0.0.0/4:80")
    assert not allowed("169.254.169.254", "169.254.0.0/16:80")
    assert allowed("169.254.169.254", "169.254.169.254:80")
    assert not allowed("168.63.129.16", "168.0.0.0/8:80")
    assert not allowed("fd00:ec2::254", "[fd00::/8]:80")
    assert allowed("fd00:ec2::1", "[fd00::/8]:80")
    assert not allowed("64:ff9b::a9fe:a9fe", "[64:ff9b::/96]:80")
    assert allowed("198.18.3.4", "198.18.0.0/15:80")


def test_what_a_call_bound_is_reached_while_it_lasts_on_public_addresses_only() -> None:
    made = policy(tools={"t": ["$arg:url"]})
    hosts = (
        BoundHost("a.example", (80, 443), "tools.t.net[0]"),
        BoundHost("9.9.9.9", (443,), "tools.t.net[0]", literal=True),
        BoundHost("10.0.0.1", (443,), "forged", literal=True),
        BoundHost("localhost", (443,), "forged"),
    )
    force = during(made, "t", hosts=hosts)
    assert force.connect(to("a.example", 80)).rule == "tools.t.net[0]"
    assert force.connect(to("9.9.9.9")).allowed
    assert force.dial(to("9.9.9.9"), "9.9.9.9").allowed
    assert force.dial(to("a.example"), "8.8.8.8").allowed
    assert not force.dial(to("a.example"), "10.0.0.1").allowed
    for peer in (
        to("a.example", 8080),
        to("a.example", 443, "udp"),
        to("10.0.0.1"),
        to("localhost"),
        to("9.9.9.8"),
    ):
        assert not force.connect(peer).allowed
    assert not during(made, "t").connect(to("a.example")).allowed


def test_a_name_is_answered_if_any_table_could_grant_it() -> None:
    made = policy(
        ["s.example:1"],
        {"t": ["*.t.example", "$arg:url in *.w.example, v.example"]},
        startup=["u.example"],
        resources=["r.example"],
        prompts=["udp://p.example:1"],
    )
    for name in (
        "s.example",
        "S.Example.",
        "a.t.example",
        "a.w.example",
        "v.example",
        "u.example",
        "r.example",
        "p.example",
    ):
        assert made.answers(name).allowed, name
    for name in (
        "t.example",
        "w.example",
        "a.v.example",
        "localhost",
        "127.1",
        "1.2.3.4",
        "",
        ".",
        "a..example",
        "-a.t.example",
        "\u00e4.t.example",
        "x" * 64 + ".t.example",
    ):
        assert not made.answers(name).allowed, name


def test_a_question_to_the_outside_needs_a_rule_in_force() -> None:
    made = policy(tools={"t": ["*.example.org:8080"], "u": ["$arg:url"]})
    assert during(made, "t").asks("A.example.org.").rule == "tools.t.net[0]"
    for tool, name in (("t", "example.com"), ("u", "a.example.org"), ("t", "no name")):
        assert not during(made, tool).asks(name).allowed
    assert not during(made).asks("a.example.org").allowed


def test_an_argument_without_limits_and_any_answer_every_name_but_this_machines() -> None:
    for made in (policy(tools={"t": ["$arg:url"]}), policy(["any"])):
        assert made.answers("whatever.example").allowed
        assert not made.answers("localhost").allowed
        assert not made.answers("x.localhost").allowed
    assert policy(["localhost:1"]).answers("localhost").allowed


def test_a_refusal_that_is_quiet_says_so_in_every_form() -> None:
    made = policy(
        ["a.example", "*.g.example"], quiet=["t.example", "*.q.example", "10.0.0.0/8:80", "m.g.example"]
    )
    force = during(made)
    for peer in (to("t.example"), to("x.q.example"), to("10.1.1.1", 80)):
        decision = force.connect(peer)
        assert (decision.allowed, decision.quiet) == (False, True)
        assert decision.rule.startswith("server.quiet.net[")
    assert not force.connect(to("10.1.1.1", 81)).quiet
    assert made.answers("t.example").quiet
    assert not made.answers("u.example").quiet
    guarded = force.dial(to("m.g.example"), "127.0.0.1")
    assert (guarded.rule, guarded.quiet) == ("address-guard:loopback", True)


def test_only_hosts_and_ports_need_a_network() -> None:
    assert not policy().egress
    assert not policy(quiet=["a.example"]).egress
    assert policy(prompts=["a.example"]).egress
    assert policy(["10.0.0.0/8", "a.example"], {"t": ["[fd00::/8]", "10.0.0.0/8"]}).granted_networks == (
        "10.0.0.0/8",
        "fd00::/8",
    )
