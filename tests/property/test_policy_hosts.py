"""Hosts fail closed: nothing is reached that no rule names, and no name leads where addresses alone may."""

from __future__ import annotations

import ipaddress
import socket
import tomllib

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpwrap.errors import GrantError
from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.active import Active, ActiveWindow, BoundHost
from mcpwrap.policy.addresses import canonical, text_of
from mcpwrap.policy.hosts import Peer, canonical_name, peer_of, spelled
from mcpwrap.policy.reasons import denial
from mcpwrap.policy.whynet import why_connect, why_lookup
from tests.unit.policy.hosting import during, policy
from tests.unit.policy.machine import Machine

NAMES = st.sampled_from(
    ["example.com", "a.example.com", "b.a.example.com", "www.example.com", "example.org", "db", "localhost",
     "x.localhost", "127.1", "2130706433", "0x7f.1", "10.1", "metadata.google.internal", "xn--bcher-kva.example"]
)  # fmt: skip
INSIDE_4 = st.sampled_from(
    ["127.0.0.1", "127.255.0.9", "0.0.0.0", "169.254.169.254", "169.254.170.2", "169.254.3.4", "100.100.100.200",
     "168.63.129.16", "224.0.0.1", "255.255.255.255", "0.1.2.3"]
)  # fmt: skip
PRIVATE_4 = st.sampled_from(["10.0.0.1", "172.16.5.5", "192.168.1.1", "100.64.0.1"])
PUBLIC_4 = st.sampled_from(["8.8.8.8", "1.1.1.1", "93.184.216.34", "11.0.0.7"])


def wrap(text: str) -> st.SearchStrategy[str]:
    """Return the ways to spell an IPv4 address, as text a resolver or a server may hand over."""
    value = int(ipaddress.IPv4Address(text))
    high, low = value >> 16, value & 0xFFFF
    inverted = value ^ 0xFFFFFFFF
    spellings = [
        text,
        str(value),
        hex(value),
        f"0{value:o}",
        f"{value >> 24}.{value & 0xFFFFFF}",
        f"::ffff:{text}",
        f"::ffff:{high:x}:{low:x}",
        f"::{text}",
        f"64:ff9b::{text}",
        f"64:ff9b:1::{high:x}:{low:x}",
        f"64:ff9b:1:{high:x}:{low >> 8:x}:{(low & 0xFF) << 8:x}::",
        f"2002:{high:x}:{low:x}::1",
        f"2001:0:808:808:0:0:{inverted >> 16:x}:{inverted & 0xFFFF:x}",
        f"2001:0:{high:x}:{low:x}::",
    ]
    return st.sampled_from(spellings)


INSIDE_6 = st.sampled_from(
    ["::1", "::", "fe80::1", "fe80::1%eth0", "ff02::1", "fd00:ec2::254", "100::1", "2001:db8::1", "fec0::1"]
)  # fmt: skip
INSIDE = st.one_of(INSIDE_4.flatmap(wrap), INSIDE_6)
ADDRESSES = st.one_of(
    INSIDE, PRIVATE_4.flatmap(wrap), PUBLIC_4.flatmap(wrap), st.sampled_from(["2606:4700::1111", "fd12::1"])
)
PORTS = st.sampled_from([0, 22, 53, 80, 443, 5432, 65535, 65536])
PEERS = st.one_of(
    st.builds(Peer, NAMES, st.just(""), PORTS, st.sampled_from(["tcp", "udp"])),
    st.builds(Peer, st.just(""), ADDRESSES, PORTS, st.sampled_from(["tcp", "udp"])),
)
BY_NAME = st.sampled_from(
    ["example.com", "a.example.com:*", "*.example.com:*", "*.com:80", "any", "db:5432", "db:*", "$arg:url",
     "udp://example.com:53", "metadata.google.internal:*", "xn--bcher-kva.example:80"]
)  # fmt: skip
BY_ADDRESS = st.sampled_from(
    ["localhost:5432", "localhost:*", "10.0.0.0/8:*", "192.168.1.1:80", "8.8.8.8:53", "169.254.0.0/16:80",
     "128.0.0.0/2:*", "[64:ff9b::/96]:*", "[2606:4700::/32]:443", "udp://8.8.8.8:53"]
)  # fmt: skip
RULES = st.lists(BY_NAME, max_size=5, unique=True)
BOUND = st.lists(
    st.one_of(
        st.builds(BoundHost, NAMES, st.just((80, 443, 5432)), st.just("bound")),
        st.builds(
            lambda host: BoundHost(canonical(host.partition("%")[0]) or "", (80, 443), "bound", True),
            ADDRESSES,
        ),
    ),
    max_size=3,
).map(tuple)


@settings(max_examples=200, deadline=None)
@given(RULES, PEERS, INSIDE, BOUND)
def test_without_a_rule_of_addresses_nothing_leads_inside_in_any_spelling(
    rules: list[str], peer: Peer, address: str, bound: tuple[BoundHost, ...]
) -> None:
    force = during(policy(rules), "t", hosts=bound)
    assert not force.dial(peer, address).allowed
    assert not force.connect(Peer("", address, 443, "tcp")).allowed
    assert not force.connect(Peer(address, "", 443, "tcp")).allowed


@settings(max_examples=200, deadline=None)
@given(RULES, st.lists(BY_ADDRESS, max_size=3, unique=True), PEERS, ADDRESSES)
def test_what_is_allowed_is_named_by_a_rule_in_force(
    names: list[str], addresses: list[str], peer: Peer, address: str
) -> None:
    rules = [*names, *addresses]
    made = policy(rules)
    force = during(made, "t")
    decision = force.connect(peer)
    if decision.allowed:
        alone = during(policy([rules[int(decision.rule.partition("[")[2][:-1])]]), "t")
        assert alone.connect(peer).allowed
        if peer.name and canonical_name(peer.name):
            # What is granted can be looked up.
            assert made.answers(peer.name).allowed
    dialled = force.dial(peer, address)
    if dialled.allowed:
        assert decision.allowed
        real = ipaddress.ip_address(canonical(address.partition("%")[0]) or "")
        if not real.is_global and not isinstance(real, ipaddress.IPv6Address):
            assert addresses or any(rule.partition(":")[0] == peer.name for rule in names)
    assert not during(policy(), "t").connect(peer).allowed


@settings(max_examples=200, deadline=None)
@given(RULES, RULES, PEERS, ADDRESSES)
def test_more_rules_never_take_anything_away(
    few: list[str], more: list[str], peer: Peer, address: str
) -> None:
    one, both = during(policy(few)), during(policy([*few, *more]))
    assert both.connect(peer).allowed >= one.connect(peer).allowed
    assert both.dial(peer, address).allowed >= one.dial(peer, address).allowed


URLS = st.one_of(
    st.builds("{}://{}{}{}".format, st.sampled_from(["http", "https", "postgres"]), NAMES | ADDRESSES,
              st.sampled_from(["", ":80", ":5432", ":x"]), st.sampled_from(["", "/", "/a?b#c", "@b", "\\", "#@c"])),
    st.text(max_size=40),
)  # fmt: skip
TEXTS = st.lists(
    st.one_of(BY_NAME, BY_ADDRESS.filter(lambda text: not text.startswith("128."))), max_size=4, unique=True
)


@settings(max_examples=200, deadline=None)
@given(TEXTS, URLS, PEERS, NAMES | st.text(max_size=10))
def test_why_answers_as_the_relay_and_the_broker_decide(
    rules: list[str], url: str, peer: Peer, name: str
) -> None:
    host = Machine()
    try:
        made = host.policy(f"[tools.t]\nnet = [{', '.join(map(repr, rules))}]")
    except GrantError:
        assume(False)
    explained = why_connect(made, "t", peer, {"url": url}, host.resolve)
    bound = made.bind("t", {"url": url}, host.resolve)
    active = Active(7, False, (ActiveWindow("w9", "t", bound.paths, bound.hosts),))
    enforced = made.effective(active).connect(peer)
    assert (explained.decision, explained.allowed) == (enforced, enforced.allowed)
    assert why_lookup(made, "t", name, {"url": url}, host.resolve).decision == made.answers(name)
    for each in bound.hosts:
        assert each.literal == (canonical(each.host) is not None)
        assert made.answers(each.host).allowed or each.literal
        assert (
            made.effective(active)
            .connect(Peer("", each.host, 443, "tcp") if each.literal else Peer(each.host, "", 443, "tcp"))
            .allowed
        )


@settings(max_examples=200, deadline=None)
@given(PEERS, st.sampled_from(["no-grant", "address-guard:private", "address-guard:loopback"]), ADDRESSES)
def test_the_offered_line_grants_what_was_refused_and_nothing_inside_by_name(
    peer: Peer, rule: str, address: str
) -> None:
    object = spelled(peer)
    event = Event(Operation("connect", Need.CONNECT, object, f"x is {address}"), Decision(False, rule))
    told = denial(event, Machine().policy(""), ("t",))
    assert told.sentence.isprintable()
    if not told.offer:
        return
    made = Machine().policy(told.offer)
    force = during(made, "t")
    again = peer_of(object)
    assert again is not None
    if rule == "no-grant":
        assert force.connect(again).allowed
        assert len(made.grant.tools[0].block.hosts) == 1
    else:
        assert rule == "address-guard:private"
        assert not force.connect(again).allowed
        assert force.connect(Peer("", address, peer.port, peer.protocol)).allowed


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=()), max_size=80), st.text(max_size=40))
def test_no_name_breaks_out_of_the_offer_or_the_sentence(name: str, written: str) -> None:
    for object in (name, f"{name}:443", f"udp://{name}:53", f"/{name}"):
        for rule in ("no-grant", "address-guard:private", "unreachable"):
            for act in ("connect", "lookup", "listen"):
                event = Event(Operation(act, Need.CONNECT, object, written), Decision(False, rule))
                told = denial(event, EMPTY, ("t",))
                assert told.sentence.isprintable() and told.brief.isprintable()
                if told.offer:
                    (table,) = tomllib.loads(told.offer)["tools"].values()
                    (entries,) = table.values()
                    assert len(entries) == 1


@given(
    st.one_of(st.binary(min_size=4, max_size=4), st.binary(min_size=16, max_size=16)), st.integers(0, 65535)
)
def test_a_peer_and_its_text_are_one(data: bytes, port: int) -> None:
    peer = Peer("", text_of(data), port, "tcp")
    assert peer_of(spelled(peer)) == peer
    family = socket.AF_INET6 if ":" in peer.address else socket.AF_INET
    assert text_of(socket.inet_pton(family, peer.address)) == peer.address


EMPTY = Machine().policy("")
