"""Names and addresses of hosts as a grant writes them: text in, one canonical spelling out.

Canonical is what `policy` compares with: names in lower-case A-labels (RFC 5890) without the root's dot,
IPv4 in four decimals, IPv6 as RFC 5952 has it. What clients read differently is refused, with the spelling
it would have: `0x7f.1` is 127.0.0.1 for some of them and a name for others.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from mcpwrap.grant.problem import Wrong

MAX_NAME: Final = 253
"""Characters of a host name without the root's dot (RFC 1035, 2.3.4: 255 bytes in wire form)."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")
_DEVIATIONS: Final = re.compile("[\u00df\u03c2\u200c\u200d]")
"""Characters IDNA2003 (Python's codec) maps away and IDNA2008 keeps: the same text names two hosts (UTS 46)."""

LOOPBACK: Final = (ipaddress.IPv4Network("127.0.0.0/8"), ipaddress.IPv6Network("::1/128"))
_LINK_LOCAL: Final = (ipaddress.IPv4Network("169.254.0.0/16"), ipaddress.IPv6Network("fe80::/10"))
_MULTICAST: Final = (ipaddress.IPv4Network("224.0.0.0/4"), ipaddress.IPv6Network("ff00::/8"))
_UNSPECIFIED: Final = (ipaddress.IPv4Network("0.0.0.0/8"), ipaddress.IPv6Network("::/128"))


def name_of(text: str) -> str:
    """Return the canonical name. Raises Wrong: no host name, or an address in one of its odd spellings."""
    name = text.lower()
    if not name.isascii():
        name = _a_labels(name)
    name = name.removesuffix(".")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        address = odd_address(name)
        if address is not None:
            raise Wrong(f'"{text}" is an odd spelling of an address', f"write {address}")
        raise Wrong(f'"{text}" ends in a number, and is no address')
    wrong = next((label for label in labels if not _LABEL.fullmatch(label)), None)
    if wrong is not None or len(name) > MAX_NAME:
        what = "too long for" if len(name) > MAX_NAME else "no"
        raise Wrong(
            f'"{text}" is {what} host name', 'as in "api.example.com", "*.example.org" or "localhost"'
        )
    return name


def _a_labels(name: str) -> str:
    plain = "write the name as the registry has it: xn--…"
    deviation = _DEVIATIONS.search(name)
    if deviation is not None:
        raise Wrong(
            f"U+{ord(deviation[0]):04X} in a host name is read in two ways, which are two hosts", plain
        )
    try:
        return name.encode("idna").decode("ascii").lower()
    except UnicodeError:
        raise Wrong(f'"{name}" is no host name that can be told for certain', plain) from None


def odd_address(text: str) -> str | None:
    """Return what `inet_aton` makes of a text: 1 to 4 numbers, decimal, octal or hexadecimal. None: nothing."""
    numbers: list[int] = []
    for part in text.split("."):
        if not _NUMBER.fullmatch(part):
            return None
        try:
            octal = len(part) > 1 and part.startswith("0") and not part.startswith("0x")
            numbers.append(
                int(part[2:] or "0", 16) if part.startswith("0x") else int(part, 8 if octal else 10)
            )
        except ValueError:  # an 8 or 9 in an octal number, or more digits than Python reads
            return None
    *first, last = numbers
    if len(first) > 3 or any(number > 255 for number in first) or last >= 256 ** (4 - len(first)):
        return None
    value = last
    for place, number in enumerate(first):
        value |= number << 8 * (3 - place)
    return str(ipaddress.IPv4Address(value))


def address_of(text: str) -> ipaddress.IPv4Address | None:
    """Return the IPv4 address that is spelled in four plain decimals, None for any other text."""
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return None


def network_of(address: str, prefix: str | None) -> Network:
    """Return the network of an address text, and what follows its slash (None: that one address).

    Raises Wrong: no address, an IPv4 address inside of an IPv6 one, bits beyond the prefix, and networks that
    can never be reached or would take in what has to be named by itself.
    """
    text = address if prefix is None else f"{address}/{prefix}"
    if "%" in address:
        raise Wrong("an address with a zone is not carried", "the sandbox has no interfaces of the host's")
    try:
        host = ipaddress.ip_address(address)
    except ValueError:
        raise Wrong(f'"{address}" is no address') from None
    if isinstance(host, ipaddress.IPv6Address) and host.ipv4_mapped is not None:
        raise Wrong(f'"{address}" is an IPv4 address', f"write {host.ipv4_mapped}")
    digits = prefix is None or (prefix.isascii() and prefix.isdigit() and len(prefix) <= 3)
    if not digits or int(prefix or 0) > host.max_prefixlen:
        raise Wrong(f'"/{prefix}" is no prefix of an address: 0 to {host.max_prefixlen}')
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        whole = ipaddress.ip_network(text, strict=False)
        raise Wrong(
            f'"{text}" has bits beyond its prefix', f"write {shown(whole)}, or the address alone"
        ) from None
    reason = _out_of_reach(network)
    if reason is not None:
        raise reason
    return network


def _out_of_reach(network: Network) -> Wrong | None:
    if any(within(network, whole) for whole in _MULTICAST):
        return Wrong("multicast is not carried out of the sandbox")
    if any(within(network, whole) for whole in _UNSPECIFIED):
        return Wrong(
            "this address is nobody's: as a destination it means the host itself", 'write "localhost:PORT"'
        )
    for part in (*LOOPBACK, *_LINK_LOCAL):
        if network != part and within(part, network):
            hint = '"any" is every public address; private networks are listed one by one'
            return Wrong(f"{network} takes in {part}, which is granted only by name", hint)
    return None


def within(inner: Network, outer: Network) -> bool:
    """Whether `outer` holds all of `inner`."""
    if isinstance(inner, ipaddress.IPv4Network):
        return isinstance(outer, ipaddress.IPv4Network) and inner.subnet_of(outer)
    return isinstance(outer, ipaddress.IPv6Network) and inner.subnet_of(outer)


def shown(network: Network) -> str:
    """Return a network as a rule writes it, without a port: one address has no prefix, IPv6 has brackets."""
    text = str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)
    return f"[{text}]" if isinstance(network, ipaddress.IPv6Network) else text
