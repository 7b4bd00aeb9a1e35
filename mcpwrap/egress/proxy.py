"""The proxy of the user's own network, if mcpwrap's environment names one, and how to ask it for a host.

`HTTPS_PROXY`, `HTTP_PROXY` (for port 80), `ALL_PROXY` and `NO_PROXY`, lower case before upper, as curl reads
them. Only `http://` proxies are spoken to, by CONNECT. One that is named and cannot be used closes the way
it was for: going around a proxy somebody configured is no way out.
"""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from mcpwrap.egress.tunnel import Proxy

if TYPE_CHECKING:
    from mcpwrap.policy.hosts import Peer


_OTHER_SCHEMES: Final = frozenset({"https", "socks", "socks4", "socks4a", "socks5", "socks5h", "pac", "quic"})
"""Told by name; what else stands before `://` may be a user and a password."""


class Proxies:
    """What the environment says. `problems`: what to say once, of variables that cannot be used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        def variable(name: str) -> str:
            return environ.get(name.lower()) or environ.get(name, "")

        every = variable("ALL_PROXY")
        self._plain = read(variable("HTTP_PROXY") or every)
        self._other = read(variable("HTTPS_PROXY") or every)
        self._exempt = [each.strip().lower() for each in variable("NO_PROXY").split(",") if each.strip()]
        used = (each for each in (self._plain, self._other) if each is not None)
        self.problems = tuple(dict.fromkeys(each.problem for each in used if each.problem))

    @property
    def any(self) -> bool:
        return self._plain is not None or self._other is not None

    def for_peer(self, peer: Peer) -> Proxy | None:
        """Return the proxy by which `peer` is reached, None if it is reached directly."""
        proxy = self._plain if peer.port == 80 else self._other
        if proxy is None or peer.protocol != "tcp":
            return None
        host = peer.name or peer.address
        if host == "localhost" or any(_matches(each, host, peer.port) for each in self._exempt):
            return None
        # A literal address that is not public lies in this network, or in nobody's.
        if not peer.name and not ipaddress.ip_address(peer.address).is_global:
            return None
        return proxy


def read(text: str) -> Proxy | None:
    """Return the proxy a variable names, None if it names none."""
    text = text.strip()
    if not text:
        return None
    scheme, found, rest = text.partition("://")
    if found and scheme.lower() in _OTHER_SCHEMES:
        return _useless(f"a proxy of scheme {scheme.lower()!r} is not supported, only http:// ones are")
    # Neither another scheme nor a host is told where it may be a part of the password.
    if (found and scheme.lower() != "http") or "@" in (rest if found else text).partition("/")[2]:
        return _useless("a proxy variable of the environment is no URL")
    try:
        parts = urlsplit(text if found else f"http://{text}")
        host, port = parts.hostname or "", parts.port or 80
        host.encode("ascii")
    except ValueError:
        host, port = "", 0
    if not host:
        return _useless("a proxy variable of the environment is no URL")
    user = ""
    if parts.username is not None:
        plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        user = base64.b64encode(plain.encode()).decode()
    return Proxy(host, port, user)


def _useless(problem: str) -> Proxy:
    return Proxy("", 0, problem=f"{problem}; hosts it is for cannot be reached (NO_PROXY exempts)")


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry of NO_PROXY is about `host`: `*`, a name and all below it, an address, a CIDR."""
    if entry == "*":
        return True
    name, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and ":" not in name:
        if int(number) != port:
            return False
        entry = name
    entry = entry.strip("[]").removeprefix("*").removeprefix(".")
    if "/" in entry or ":" in host or host.replace(".", "").isdigit():
        try:
            return ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    return bool(entry) and (host == entry or host.endswith("." + entry))
