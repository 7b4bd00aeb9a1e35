"""One table of a grant as far as it has to do with the network, resolved: names, networks, sockets, ports.

Imported only where a grant has a rule of the network. Names are compared in lower case, as A-labels, without
the root's dot; 127.0.0.0/8, ::1, `localhost` and what ends in it are one host.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.operation import endpoint
from mcpwrap.policy.addresses import WITHIN_REACH, is_number, packed, place, read, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcpwrap.grant.grant import ArgHost, Block, HostRule
    from mcpwrap.policy.facts import Facts

LOCALHOST: Final = "localhost"
MAX_NAME: Final = 253
"""Characters of a name without the root's dot: 255 bytes in wire form (RFC 1035 2.3.4)."""

_NAME = re.compile(r"(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_LOOPBACK: Final = ("127.", "::1/")
_LOOPBACK_6: Final = bytes(15) + b"\1"


class Peer(NamedTuple):
    """What a socket is connected to, or a datagram sent to.

    `name` is the name it was looked up by, empty for a literal address; `address` the literal, empty if only the
    name is known (what a look-up answered inside is no address of the outside). `protocol`: "tcp" or "udp".
    """

    name: str
    address: str
    port: int
    protocol: str


class Entry(NamedTuple):
    """The ports, first and last, and the protocol for which `rule` grants a host."""

    first: int
    last: int
    protocol: str
    rule: str

    def holds(self, port: int, protocol: str) -> bool:
        return self.first <= port <= self.last and self.protocol == protocol


Entries = tuple[Entry, ...]


class HostTable:
    """Look-up tables of one block, or of several as one.

    `names`: by canonical name. `suffixes`: by `.example.org`, which is not itself among them. `networks`: by
    (bytes of the address, bits of the prefix), then by those bits as a number. `localhost`, `everything`:
    entries of those two kinds. `arguments`: of `$arg` hosts, whose names only calls tell. `sockets`: by real
    path; `written`: by path as written where that is another. `listens`: rule by port and whether everybody may come.
    """

    def __init__(self) -> None:
        self.names: dict[str, Entries] = {}
        self.suffixes: dict[str, Entries] = {}
        self.networks: dict[tuple[int, int], dict[int, Entries]] = {}
        self.localhost: Entries = ()
        self.everything: Entries = ()
        self.arguments: tuple[tuple[ArgHost, str], ...] = ()
        self.sockets: dict[str, str] = {}
        self.written: dict[str, str] = {}
        self.listens: dict[tuple[int, bool], str] = {}

    def named(self, name: str) -> Entries:
        """Return the entries that list exactly this name; what they grant may be on a private network."""
        return self.localhost if is_localhost(name) else self.names.get(name, ())

    def by_name(self, name: str) -> Iterator[Entry]:
        """Yield the entries that hold for a canonical name, the most exact first."""
        yield from self.named(name)
        if is_localhost(name):
            return
        dot = name.find(".")
        while dot >= 0:
            yield from self.suffixes.get(name[dot:], ())
            dot = name.find(".", dot + 1)
        yield from self.everything

    def by_address(self, data: bytes, *, guarded: bool = True) -> Iterator[Entry]:
        """Yield the entries that hold for an address, the most exact first.

        With `guarded` only those that may reach it: a place that is neither public nor of the user's own
        networks is reached by a rule that names such a place and nothing wider.
        """
        kind, length = place(data)
        if is_loopback(data):
            yield from self.localhost
        if guarded and (kind == "public" or kind in WITHIN_REACH):
            length = 0
        value, bits = int.from_bytes(data, "big"), 8 * len(data)
        for (size, prefix), networks in self.networks.items():
            if size == len(data) and (prefix >= length or not guarded):
                yield from networks.get(value >> (bits - prefix), ())
        if kind == "public":
            yield from self.everything

    def answers(self, name: str) -> str | None:
        """Return the rule by which a canonical name may exist for the server at all, on whatever port."""
        entry = next(self.by_name(name), None)
        if entry is not None:
            return entry.rule
        if is_localhost(name):
            return None
        return next((rule for arg, rule in self.arguments if is_within(name, arg.within)), None)


def table(block: Block, facts: Facts) -> HostTable:
    """Return the tables of one block."""
    out = HostTable()
    for rule in block.hosts:
        _add(out, rule)
    # What is named by its real path first: that holds whatever becomes of links.
    for socket in sorted(block.sockets, key=lambda each: facts.real(each.path) != each.path):
        real = facts.real(socket.path)
        out.sockets.setdefault(real, socket.id)
        if real != socket.path:
            out.written.setdefault(socket.path, socket.id)
    for listen in block.listens:
        out.listens.setdefault((listen.port, listen.everywhere), listen.id)
    return out


def merged(tables: Iterable[HostTable]) -> HostTable:
    """Return the union; where two say the same, the earlier gives its id."""
    out = HostTable()
    networks: dict[tuple[int, int], dict[int, Entries]] = {}
    for each in tables:
        for mine, other in ((out.names, each.names), (out.suffixes, each.suffixes)):
            for name, entries in other.items():
                mine[name] = mine.get(name, ()) + entries
        for size, values in each.networks.items():
            known = networks.setdefault(size, {})
            for value, entries in values.items():
                known[value] = known.get(value, ()) + entries
        out.localhost += each.localhost
        out.everything += each.everything
        out.arguments += each.arguments
        out.sockets = each.sockets | out.sockets
        out.written = each.written | out.written
        out.listens = each.listens | out.listens
    out.networks = dict(sorted(networks.items(), key=lambda item: -item[0][1]))
    return out


def _add(out: HostTable, rule: HostRule) -> None:
    entry = (Entry(*rule.ports, rule.protocol, rule.id),)
    if rule.kind == "arg":
        if rule.arg is not None:
            out.arguments += ((rule.arg, rule.id),)
    elif rule.kind == "any":
        out.everything += entry
    elif rule.kind == "localhost" or rule.host.startswith(_LOOPBACK):
        out.localhost += entry
    elif rule.kind == "name":
        out.names[rule.host] = out.names.get(rule.host, ()) + entry
    elif rule.kind == "suffix":
        out.suffixes[rule.host] = out.suffixes.get(rule.host, ()) + entry
    else:
        base, _, prefix = rule.host.partition("/")
        data = packed(base) or b""
        networks = out.networks.setdefault((len(data), int(prefix)), {})
        value = int.from_bytes(data, "big") >> (8 * len(data) - int(prefix))
        networks[value] = networks.get(value, ()) + entry


def spelled(peer: Peer) -> str:
    """Return the object of an operation on `peer`: "host:port", "[v6]:port" or "udp://host:port"."""
    return endpoint(peer.name or peer.address, peer.port, peer.protocol)


def peer_of(text: str) -> Peer | None:
    """Return the peer of an object as `spelled` makes it; None if it is none."""
    scheme, _, rest = text.rpartition("://")
    host, colon, port = rest.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and len(port) <= 5):
        return None
    address = read(host)
    protocol = scheme or "tcp"
    if address is not None:
        return Peer("", text_of(address), int(port), protocol)
    return Peer(host, "", int(port), protocol) if canonical_name(host) is not None else None


def host_of(peer: Peer) -> str | bytes | None:
    """Return what is decided on: a canonical name, or an address if `peer` has none or one that is a number.

    None: it is neither, so nothing can grant it.
    """
    if not peer.name:
        return read(peer.address)
    return read(peer.name) if is_number(peer.name) else canonical_name(peer.name)


def canonical_name(text: str) -> str | None:
    """Return the one spelling of a host name in ASCII, None if it is none (an address in whatever spelling is)."""
    name = text.removesuffix(".").lower()
    if len(name) > MAX_NAME or not _NAME.fullmatch(name) or is_number(name):
        return None
    return name


def is_localhost(name: str) -> bool:
    """Whether a canonical name is this machine's own (RFC 6761 6.3)."""
    return name == LOCALHOST or name.endswith("." + LOCALHOST)


def is_loopback(data: bytes) -> bool:
    """Whether an address is 127.0.0.0/8 or ::1, and none that only wraps one."""
    return data[0] == 127 if len(data) == 4 else data == _LOOPBACK_6


def is_within(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a canonical name is one that `in` allows: a name, or below `*.` and one; any without patterns."""
    return not patterns or any(
        name.endswith(pattern[1:]) if pattern.startswith("*.") else name == pattern for pattern in patterns
    )
