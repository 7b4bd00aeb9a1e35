"""A host that is offered reads back to exactly itself; no text of a host gets past the reader unjudged."""

from __future__ import annotations

import ipaddress

from hypothesis import example, given
from hypothesis import strategies as st

from mcpwrap import profiles
from mcpwrap.grant.grant import HostRule, Transport, Where
from mcpwrap.grant.hostname import odd_address
from mcpwrap.grant.hosts import host_rule, host_text
from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.render import rules_text
from mcpwrap.grant.sockets import socket_text

VARIABLES = Variables("/home/u", "", "/srv/w", "/tmp", "/home/u/s", "/home/u/c", {})
LABELS = st.text("abz019_-", min_size=1, max_size=8)
NAMES = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
HOSTS = st.one_of(
    NAMES,
    st.ip_addresses().map(str),
    st.sampled_from(["localhost", "any", "*", "*.a", "127.0.0.1", "::1", "::ffff:1.2.3.4", "0.0.0.0"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
PORTS = st.integers(0, 65_535)
TRANSPORTS = st.sampled_from(["tcp", "udp"])
TEXTS = st.one_of(
    HOSTS,
    st.text("[]:./*0129afx$-_ ", max_size=16),
    st.builds("{}{}:{}".format, st.sampled_from(["", "udp://", "https://"]), HOSTS, PORTS),
    st.builds("$arg:{} in {}".format, LABELS, st.lists(HOSTS, max_size=3).map(",".join)),
    st.builds("{}/{}".format, st.ip_addresses(v=4), st.integers(0, 33)),
)


@given(HOSTS, PORTS, TRANSPORTS)
@example("any", 443, "tcp")
@example("127.0.0.1", 443, "tcp")
@example("10.0.0.0/8", 443, "tcp")
def test_an_offer_pasted_grants_that_host_and_port_and_nothing_else(
    host: str, port: int, protocol: Transport
) -> None:
    text = host_text(host, port, protocol)
    if text is None:
        return
    pasted = rules_text({("tools", "a.b"): {"net": [text]}})
    grant = parse(pasted, "g", VARIABLES, profiles.text)
    (rule,) = grant.tools[0].block.hosts
    assert (rule.ports, rule.protocol) == ((port, port), protocol)
    if rule.kind == "localhost":
        assert host == "localhost" or ipaddress.ip_address(host).is_loopback
    elif rule.kind == "network":
        assert ipaddress.ip_network(rule.host) == ipaddress.ip_network(host)
    else:
        assert (rule.kind, rule.host) == ("name", host)


@given(st.ip_addresses(), PORTS.filter(bool))
def test_every_address_a_server_may_be_granted_can_be_offered(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    nobody = address.is_multicast or address.is_unspecified or str(address).startswith("0.")
    assert (host_text(str(address), port) is None) == (mapped or nobody)


@given(TEXTS)
def test_every_text_is_refused_or_read_to_a_canonical_rule(text: str) -> None:
    try:
        rule = host_rule("i", text, Where("g", 1, 1), arguments=True)
    except ValueError:
        return
    assert canonical(rule)


def canonical(rule: HostRule) -> bool:
    if not 0 <= rule.ports[0] <= rule.ports[1] <= 65_535:
        return False
    if rule.kind == "network":
        network = ipaddress.ip_network(rule.host)
        return str(network) == rule.host and not network.is_loopback
    if rule.kind in ("name", "suffix"):
        name = rule.host.removeprefix(".")
        plain = name.isascii() and name == name.lower() and not name.endswith(".") and len(name) <= 253
        return plain and odd_address(name) is None and name != "localhost" and ":" not in name
    return rule.host == ""


@given(st.text("/ab.$~*é", max_size=120))
def test_an_offered_socket_is_exactly_that_path_when_pasted(path: str) -> None:
    path = "/home/u/" + "/".join(part for part in path.split("/") if part not in ("", ".", ".."))
    text = socket_text(path, VARIABLES.home)
    if text is None or path == "/home/u/":
        return
    grant = parse(rules_text({("server",): {"unix": [text]}}), "g", VARIABLES, profiles.text)
    assert [rule.path for rule in grant.server.sockets] == [path]
