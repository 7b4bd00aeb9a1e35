"""Grants of hosts, made without a file: what `net` entries stand for, and policies with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.grant.grant import ANY_PORT, ArgHost, Block, HostRule, ToolGrant, Where
from mcpwrap.policy.active import Active, ActiveWindow
from mcpwrap.policy.compile import compile
from mcpwrap.policy.hosts import Peer
from tests.unit.policy.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwrap.grant.grant import HostKind
    from mcpwrap.policy.active import BoundHost
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.effective import Effective

NOWHERE = Where("grant.toml", 1, 1)


def rule(text: str, index: int = 0, table: str = "server") -> HostRule:
    """Return the rule of one canonical entry."""
    rest, udp = text.removeprefix("udp://"), text.startswith("udp://")
    id = f"{table}.net[{index}]"
    if rest.startswith("$arg:"):
        names, _, within = rest.removeprefix("$arg:").partition(" in ")
        steps = tuple(names.replace("[]", ".[]").split("."))
        arg = ArgHost(steps, tuple(within.split(", ")) if within else ())
        return HostRule(id, text, NOWHERE, "arg", "", ANY_PORT, "tcp", arg)
    if rest == "any":
        return HostRule(id, text, NOWHERE, "any", "", ANY_PORT, "tcp")
    host, colon, port = (rest, "", "") if rest.endswith("]") else rest.rpartition(":")
    host, port = (host, port) if colon else (rest, "443")
    ports = ANY_PORT if port == "*" else (int(port), int(port))
    kind: HostKind = "name"
    if host == "localhost":
        kind, host = "localhost", ""
    elif host.startswith("*."):
        kind, host = "suffix", host[1:]
    elif host.startswith("["):
        inner = host[1:-1]
        kind, host = "network", inner if "/" in inner else f"{inner}/128"
    elif host.replace("/", ".").replace(".", "").isdigit():
        kind, host = "network", host if "/" in host else f"{host}/32"
    return HostRule(id, text, NOWHERE, kind, host, ports, "udp" if udp else "tcp")


def block(texts: Sequence[str], table: str = "server") -> Block:
    return Block(hosts=tuple(rule(text, index, table) for index, text in enumerate(texts)))


def policy(
    server: Sequence[str] = (),
    tools: Mapping[str, Sequence[str]] | None = None,
    *,
    startup: Sequence[str] = (),
    quiet: Sequence[str] = (),
    resources: Sequence[str] = (),
    prompts: Sequence[str] = (),
    grant: str = "",
) -> Policy:
    """Return the policy of the tables given, besides what the TOML text `grant` says."""
    parsed = Machine().policy(grant).grant
    more = tuple(
        ToolGrant(name, tuple(name.split("|")), True, block(texts, f"tools.{name}"))
        for name, texts in (tools or {}).items()
    )
    return compile(
        parsed._replace(
            server=parsed.server._replace(hosts=block(server).hosts),
            startup=block(startup, "startup"),
            quiet=block(quiet, "server.quiet"),
            resources=block(resources, "resources"),
            prompts=block(prompts, "prompts"),
            tools=(*parsed.tools, *more),
        ),
        Machine().facts(),
    )


def during(
    policy: Policy, *tools: str, hosts: tuple[BoundHost, ...] = (), startup: bool = False
) -> Effective:
    """Return what is in force while a call of each of `tools` is open."""
    windows = tuple(ActiveWindow(f"w{at}", tool, (), hosts) for at, tool in enumerate(tools))
    return policy.effective(Active(1, startup, windows))


def to(host: str, port: int = 443, protocol: str = "tcp") -> Peer:
    """Return the peer of a name, or of an address in its usual spelling."""
    literal = ":" in host or host.replace(".", "").isdigit()
    return Peer("" if literal else host, host if literal else "", port, protocol)
