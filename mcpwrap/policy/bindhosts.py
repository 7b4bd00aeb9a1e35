"""`$arg` hosts: the host one argument names, with its `www.` form, on the web's ports and the one it names.

Imported only where a call's tables have such a rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Need
from mcpwrap.policy.active import BoundHost, Unbound
from mcpwrap.policy.addresses import classify, text_of
from mcpwrap.policy.bind import OUTSIDE_HOSTS, OWN_NETWORK
from mcpwrap.policy.hosts import MAX_NAME, Peer, is_localhost, is_within, spelled, table
from mcpwrap.policy.urls import place_in

if TYPE_CHECKING:
    from mcpwrap.grant.grant import ArgHost, Block, HostRule
    from mcpwrap.policy.compile import Policy

WEB_PORTS: Final = (80, 443)
WWW: Final = "www."


def bind_host(
    policy: Policy, block: Block, rule: HostRule, arg: ArgHost, argument: str, value: str
) -> tuple[tuple[BoundHost, ...], Unbound | None]:
    """Return what `value` grants by `rule`, and what is to be told if that is nothing."""
    found = place_in(value)
    if isinstance(found, str):
        return (), Unbound(Need.CONNECT, rule.id, argument, value, "", found)
    host, literal = found.host, isinstance(found.host, bytes)
    ports = tuple(sorted({*WEB_PORTS, found.port or found.usual}))
    text = host if isinstance(host, str) else text_of(host)
    where = spelled(Peer("" if literal else text, text if literal else "", found.port or found.usual, "tcp"))
    if is_localhost(host) if isinstance(host, str) else classify(host) != "public":
        if _is_listed(policy, block, host):
            return (), None
        return (), Unbound(Need.CONNECT, rule.id, argument, value, where, OWN_NETWORK)
    if not is_within(text, arg.within):
        return (), Unbound(Need.CONNECT, rule.id, argument, value, where, OUTSIDE_HOSTS)
    names = (text,) if literal else (text, *(each for each in _others(text) if is_within(each, arg.within)))
    return tuple(BoundHost(name, ports, rule.id, literal) for name in names), None


def _others(name: str) -> tuple[str, ...]:
    """Return the other one of a name and its `www.` form: sites redirect from one to the other."""
    if name.startswith(WWW):
        apex = name.removeprefix(WWW)
        return (apex,) if "." in apex else ()
    return (WWW + name,) if "." in name and len(name) + len(WWW) <= MAX_NAME else ()


def _is_listed(policy: Policy, block: Block, host: str | bytes) -> bool:
    """Whether a rule that is in force lists this machine, or that address, on some port: then that one decides."""
    tables = (table(block, policy.facts), policy.server.hosts)
    return any(
        bool(hosts.localhost) if isinstance(host, str) else any(hosts.by_address(host))
        for hosts in tables
        if hosts is not None
    )
