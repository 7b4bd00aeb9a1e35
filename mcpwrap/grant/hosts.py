"""One entry of `net`: text in, `HostRule` out; and the text that grants exactly one host and port.

Imported only where a grant, or a refusal that is told, has to do with the network.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.grant import ANY_PORT, ArgHost, HostKind, HostRule, Transport, Where
from mcpwrap.grant.hostname import LOOPBACK, address_of, name_of, network_of, odd_address, shown, within
from mcpwrap.grant.problem import Wrong
from mcpwrap.grant.rules import ARG, argument_steps, safe

if TYPE_CHECKING:
    from mcpwrap.grant.hostname import Network

HTTPS: Final = 443
"""The port of a host that names none."""

ANY: Final = "any"
LOCALHOST: Final = "localhost"
UDP: Final = "udp://"

MAX_PARSED: Final = 1_024
"""Networks of one grant that are kept parsed while each is compared with each."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(?:[^/@]*@)?([^/?#]*)")
_BRACKETS: Final = re.compile(r"\[([^\]/]*)(?:/([^\]]*))?\](?:/([^:]*))?(?::(.*))?")
_PORTS_OF: Final = {"http": 80, "ws": 80, "https": HTTPS, "wss": HTTPS}
_MADE_UP: Final = Where("", 1, 1)


def host_rule(rule_id: str, text: str, where: Where, *, arguments: bool) -> HostRule:
    """Make the rule of one `net` entry. `arguments`: the table is of a tool, whose calls have some.

    Raises ValueError with the reason.
    """
    safe(text)
    if text.startswith("$arg"):
        if not arguments:
            raise Wrong("$arg is an argument of a call: it can only stand in a [tools.…] table")
        return HostRule(rule_id, text, where, "arg", "", ANY_PORT, "tcp", _arg_host(text))
    protocol: Transport = "tcp"
    rest = text
    if text.startswith(UDP):
        protocol, rest = "udp", text[len(UDP) :]
        if rest.startswith("$arg"):
            raise Wrong("the host of an argument is reached by TCP only", f'write "{rest}"')
    if "$" in rest:
        raise Wrong("a host takes no variable", "write the name")
    scheme = _SCHEME.match(rest)
    if scheme is not None:
        raise Wrong("a host is no URL", _without_scheme(scheme[1].lower(), scheme[2]))
    if rest == ANY or rest.startswith(ANY + ":"):
        return _any(rule_id, text, where, rest, protocol)
    kind, host, port = _host(rest)
    ports = _ports(port, protocol)
    return HostRule(rule_id, text, where, kind, host, ports, protocol)


def _any(rule_id: str, text: str, where: Where, rest: str, protocol: Transport) -> HostRule:
    if protocol == "udp" or rest != ANY:
        raise Wrong('"any" is every TCP port of every public address, no more and no less', 'write "any"')
    return HostRule(rule_id, text, where, "any", "", ANY_PORT, protocol)


def _without_scheme(scheme: str, host: str) -> str:
    port = _PORTS_OF.get(scheme)
    if not host:
        return 'write the host alone, as in "api.example.com"'
    if ":" in host.rpartition("]")[2] or port == HTTPS:
        return f'write "{host}"'
    return f'write "{host}:{port}"' if port else f'write "{host}:PORT", or "udp://{host}:PORT"'


def _host(text: str) -> tuple[HostKind, str, str | None]:
    """Return kind, canonical host, and what follows the colon, None without one."""
    if text.startswith("["):
        match = _BRACKETS.fullmatch(text)
        if match is None:
            raise Wrong("an IPv6 address is written [2001:db8::1], its network [2001:db8::/32]")
        address, prefix, outside, port = match.groups()
        if outside is not None:
            raise Wrong(
                "the prefix of an IPv6 network stands in the brackets", f'write "[{address}/{outside}]"'
            )
        if ":" not in address:
            raise Wrong("brackets are for IPv6 addresses", f'write "{address}"')
        return (*_network(network_of(address, prefix)), port)
    if text.count(":") > 1:
        raise Wrong("an IPv6 address stands in brackets", _bracketed(text))
    host, colon, after = text.partition(":")
    port = after if colon else None
    first, slash, prefix = host.partition("/")
    if address_of(first) is not None:
        return (*_network(network_of(first, prefix if slash else None)), port)
    if slash:
        odd = odd_address(first.lower())
        if odd is not None:
            raise Wrong(f'"{first}" is an odd spelling of an address', f'write "{odd}/{prefix}"')
        raise Wrong("a host has no path", f'write "{first}"')
    return (*_name(host), port)


def _bracketed(text: str) -> str:
    try:
        return f'write "{shown(ipaddress.IPv6Network(text, strict=False))}"'
    except ValueError:
        return 'as in "[2001:db8::1]:443"'


def _network(network: Network) -> tuple[HostKind, str]:
    if any(within(network, loopback) for loopback in LOOPBACK):
        return "localhost", ""
    return "network", str(network)


def _name(text: str) -> tuple[HostKind, str]:
    star, dot, rest = text.partition(".")
    if star == "*" and not dot:
        raise Wrong('"*" is no host', 'write "any" for every public address')
    wild = star == "*"
    if "*" in (rest if wild else text):
        raise Wrong('a "*" stands for the beginning of a name only', 'as in "*.example.org"')
    name = name_of(rest if wild else text)
    if name == LOCALHOST and not wild:
        return "localhost", ""
    if name == LOCALHOST or name.endswith("." + LOCALHOST):
        raise Wrong(f'"{text}" is this machine by another name', 'write "localhost:PORT"')
    return ("suffix", "." + name) if wild else ("name", name)


def _ports(text: str | None, protocol: Transport) -> tuple[int, int]:
    if text is None:
        return HTTPS, HTTPS
    if text == "*":
        if protocol == "udp":
            raise Wrong("a UDP rule names its port", 'as in "udp://ntp.example.org:123"')
        return ANY_PORT
    port = port_of(text)
    return port, port


def port_of(text: str) -> int:
    """Return the port a text names. Raises Wrong."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) <= ANY_PORT[1]):
        raise Wrong(f'"{text}" is no port', f"1 to {ANY_PORT[1]}, or * for all of them")
    if text.startswith("0"):
        raise Wrong(f'"{text}" is no port', f"write {int(text)}")
    return int(text)


def _arg_host(text: str) -> ArgHost:
    if not text.startswith(ARG):
        raise Wrong('an argument is written "$arg:NAME"')
    names, separator, limits = text[len(ARG) :].partition(" in ")
    if not separator and names.endswith(" in"):
        raise Wrong('after "in" a name is missing', 'as in "$arg:url in *.wikipedia.org"')
    if ":" in names:
        raise Wrong("the port is the one the URL names", f'write "{ARG}{names.partition(":")[0]}"')
    if "/" in names:
        raise Wrong("the host of an argument has no path", f'write "{ARG}{names.partition("/")[0]}"')
    steps = argument_steps(names)
    patterns: list[str] = []
    for pattern in limits.split(",") if separator else ():
        patterns.append(_limit(pattern.strip()))
        if patterns.count(patterns[-1]) > 1:
            raise Wrong(f'"{patterns[-1]}" is listed twice')
    return ArgHost(steps, tuple(patterns))


def _limit(text: str) -> str:
    """Return one pattern after `in`, canonical."""
    if address_of(text) is not None or ":" in text or "/" in text or text == ANY:
        raise Wrong(
            "an argument's host is limited by names", 'as in "$arg:url in *.wikipedia.org, example.org"'
        )
    kind, host = _name(text)
    if kind == "localhost":
        raise Wrong("the host of an argument is never this machine", 'list "localhost:PORT" by itself')
    return f"*{host}" if kind == "suffix" else host


def covers(wide: HostRule, narrow: HostRule) -> bool:
    """Whether `narrow` certainly grants nothing that `wide` does not.

    A name is not covered by a suffix, or by `any`: listing it lets it be on a private network as well.
    """
    if wide.kind != narrow.kind or wide.protocol != narrow.protocol:
        return False
    if not (wide.ports[0] <= narrow.ports[0] and narrow.ports[1] <= wide.ports[1]):
        return False
    if wide.kind == "suffix":
        return narrow.host.endswith(wide.host)
    if wide.kind == "network":
        return within(_parsed(narrow.host), _parsed(wide.host))
    if wide.arg is not None and narrow.arg is not None:
        limited = bool(narrow.arg.within) and set(narrow.arg.within) <= set(wide.arg.within)
        return wide.arg.steps == narrow.arg.steps and (not wide.arg.within or limited)
    return wide.host == narrow.host


@lru_cache(maxsize=MAX_PARSED)
def _parsed(network: str) -> Network:
    return ipaddress.ip_network(network)


def host_text(host: str, port: int, protocol: Transport = "tcp") -> str | None:
    """Return the text of a `net` rule that grants exactly this host and port, None if none can.

    `host`: a name, or an address without brackets, in canonical text.
    """
    shown_host = f"[{host}]" if ":" in host else host
    text = (UDP if protocol == "udp" else "") + shown_host
    if port != HTTPS or protocol == "udp":
        text += f":{port}"
    try:
        rule = host_rule("", text, _MADE_UP, arguments=False)
    except ValueError:
        return None
    if rule.kind == "localhost":
        return f"{UDP if protocol == 'udp' else ''}{LOCALHOST}:{port}"
    if rule.kind == "network":
        return text if _parsed(rule.host).num_addresses == 1 else None
    return text if (rule.kind, rule.host) == ("name", host) else None
