"""Refusals of hosts, ports and sockets in words, and the line that would grant one. Imported for those only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.grant.hosts import host_text
from mcpwrap.grant.sockets import socket_text
from mcpwrap.policy.addresses import WITHIN_REACH, classify, packed, text_of
from mcpwrap.policy.guard import GUARD
from mcpwrap.policy.hosts import canonical_name, host_of, is_localhost, peer_of
from mcpwrap.policy.shown import shown

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Transport
    from mcpwrap.operation import Operation
    from mcpwrap.policy.active import Unbound
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.hosts import Peer

OFFERED: Final = frozenset(("no-grant", "no-network"))
"""Rules that say nobody granted it."""

SPOKEN: Final = {
    "connect": "connect to",
    "send": "send to",
    "bind": "listen at",
    "listen": "be reached at",
}
"""Acts as what is done to a host."""

PLACES: Final = {
    "private": "an address of a private network",
    "cgnat": "an address of a provider's or overlay network (RFC 6598)",
    "loopback": "this machine itself",
    "link-local": "a link-local address",
    "metadata": "a cloud's metadata service",
    "multicast": "a multicast address",
    "unspecified": "an address that is nobody's",
    "reserved": "a reserved address",
    "public": "an address that is not this machine's",
}

_MEANINGS: Final = {
    "no-network": "no rule of the grant opens the network",
    "no-host": "that is no name or address of a host",
    "host-socket": "only sockets made inside the sandbox can be connected to, and those a `unix` rule names",
    "abstract-socket": "abstract sockets of this machine cannot be reached",
    "no-listen": "without a network of its own (tier B) no server can be reached, whatever its grant says",
    "not-own-address": "the sandbox has no such address",
    "sni": "the name its TLS client asked for is not that of the host",
    "stale-address": "the address was made up for a name that is forgotten by now",
    "unreachable": "the network or the host gave no connection",
    "proxy": "the proxy this machine is set up to use cannot be used",
    "relay-busy": "too much was under way",
    "too-many-connections": "too many connections are open",
}

FAILURES: Final = frozenset(("stale-address", "unreachable", "proxy", "relay-busy", "too-many-connections"))
"""Rules that refuse nothing: it was granted, and went wrong."""

_BY_ADDRESS: Final = WITHIN_REACH | {"reserved"}
"""Kinds of addresses that are offered where a name led to one. Reserved ones are what a proxy of this machine makes
up for names (198.18.0.0/15), or a laboratory uses."""
_NAME_SERVICE: Final = 53
_HTTPS: Final = 443


def meaning(operation: Operation, rule: str) -> str | None:
    """Return what `rule` says of the operation, None if it is none of these."""
    kind, colon, place = rule.partition(":")
    if colon and kind == GUARD:
        peer = peer_of(operation.object)
        subject = "it is" if peer is not None and not peer.name else "that host leads to"
        return f"{subject} {PLACES.get(place, PLACES['reserved'])}"
    text = _MEANINGS.get(rule)
    if rule == "no-network" and operation.object.endswith(f":{_NAME_SERVICE}"):
        return f"a name look-up; {text}"
    return text


def failure(operation: Operation, rule: str, who: str, what: str) -> tuple[str, str]:
    """Return (sentence, brief) of what was granted and went wrong: the model must not take it for a refusal."""
    detail = f": {shown(operation.written)}" if operation.written else ""
    why = f"{_MEANINGS[rule]}{detail}"
    return (
        f"{who} could not {what}: {why} (rule {rule}). The grant allows it: this was no refusal.",
        f"{what} ({why})",
    )


def line(policy: Policy, operation: Operation, rule: str) -> tuple[str, str] | None:
    """Return (noun, text) of the line that would grant exactly this, None if nothing may be offered.

    What the address guard refused is offered by its address, beside the name, and only on a network of the user's
    own or where nobody is: who reads the line must see where it leads. Never offered are metadata services and the
    like, and private sockets.
    """
    target = operation.object
    if target.startswith("/"):
        guarded = rule not in OFFERED or policy.guarded(target)
        text = None if guarded else socket_text(target, policy.facts.home)
        return ("unix", text) if text is not None else None
    if operation.act == "lookup":
        name = canonical_name(target)
        text = host_text(name, _HTTPS) if name is not None and rule in OFFERED else None
        return ("net", text) if text is not None else None
    peer = peer_of(target)
    if peer is None:
        return None
    if operation.act in ("bind", "listen"):
        return ("listen", f"localhost:{peer.port}") if rule in OFFERED and peer.port else None
    if rule in OFFERED:
        text = _net(peer)
    elif rule.removeprefix(f"{GUARD}:") in _BY_ADDRESS and peer.name:
        text = _net(peer._replace(name="", address=_address(operation.written)))
    else:
        text = None
    return ("net", text) if text is not None else None


def _net(peer: Peer) -> str | None:
    host, protocol = host_of(peer), _transport(peer.protocol)
    if host is None or protocol is None or (peer.port == _NAME_SERVICE and not peer.name):
        return None
    if isinstance(host, str):
        return host_text(host, peer.port, protocol)
    kind = classify(host)
    if kind != "public" and kind != "loopback" and kind not in _BY_ADDRESS:
        return None
    return host_text(text_of(host), peer.port, protocol)


def _transport(protocol: str) -> Transport | None:
    return "tcp" if protocol == "tcp" else "udp" if protocol == "udp" else None


def _address(written: str) -> str:
    """Return the address, one that may be offered, that `written` ends with, empty if there is none.

    This machine's own is not among them: a name that came to lead there is an attack, or a mistake.
    """
    last = written.rpartition(" ")[2]
    data = packed(last)
    return text_of(data) if data is not None and classify(data) in _BY_ADDRESS else ""


def is_about(unbound: Unbound, target: str) -> bool:
    """Whether the host `target` was refused because that value, which names it, granted nothing."""
    host = _host(unbound.path)
    return host is not None and host == _host(target)


def _host(target: str) -> str | bytes | None:
    peer = peer_of(target)
    host = host_of(peer) if peer is not None else canonical_name(target)
    if isinstance(host, str):
        return "localhost" if is_localhost(host) else host.removeprefix("www.")
    return host
