"""The decisions on hosts: may this peer be reached, and may the address it resolved to be dialled.

A name never leads where its address may not: what is neither public nor of the user's own networks is reached
only by a rule of addresses, whatever a name server answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Decision
from mcpwrap.policy.addresses import WITHIN_REACH, classify, read
from mcpwrap.policy.ground import REMEMBERED
from mcpwrap.policy.hosts import Entry, HostTable, canonical_name, host_of, is_localhost, is_loopback

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.policy.active import ActiveWindow
    from mcpwrap.policy.hosts import Peer

GUARD: Final = "address-guard"
"""How the ids begin of refusals for what kind of place an address is: `address-guard:private`."""

NO_HOST: Final = Decision(False, "no-host")
_NONE: Final = HostTable()


class Guard:
    """Decides on peers by the rules in force, merged, and by what open windows bound."""

    def __init__(
        self, rules: HostTable | None, quiet: HostTable | None, windows: Iterable[ActiveWindow]
    ) -> None:
        self._rules = rules or _NONE
        self._quiet = quiet or _NONE
        self._bound: dict[str | bytes, tuple[Entry, ...]] = {}
        self._known: dict[Peer, Decision] = {}
        for window in windows:
            for each in window.hosts:
                key = (read(each.host) or b"") if each.literal else each.host
                entries = tuple(Entry(port, port, "tcp", each.rule) for port in each.ports)
                self._bound[key] = self._bound.get(key, ()) + entries

    def connect(self, peer: Peer) -> Decision:
        """Return whether `peer` may be reached at all."""
        decision = self._known.get(peer)
        if decision is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            decision = self._known[peer] = self._connect(peer)
        return decision

    def asks(self, name: str) -> Decision:
        """Return whether the host's resolver may be asked about `name`: who answers reads the question."""
        host = canonical_name(name)
        entry = next(self._rules.by_name(host), None) if host is not None else None
        return Decision(True, entry.rule) if entry is not None else Decision(False, "no-grant")

    def dial(self, peer: Peer, address: str) -> Decision:
        """Return whether `address`, which `peer` resolved to, may be dialled for it."""
        decision = self.connect(peer)
        host, data = host_of(peer), read(address)
        if not decision.allowed or host is None:
            return decision
        if data is None:
            return NO_HOST
        if isinstance(host, bytes):
            # The loopback addresses are one host: a server of it may listen on any of them.
            same = data == host or (is_loopback(data) and is_loopback(host))
            return decision if same else NO_HOST
        kind = classify(data)
        if kind == "public" and not is_localhost(host):
            return decision
        rule = _first(self._rules.by_address(data), peer)
        if rule is None and kind in WITHIN_REACH and not is_localhost(host):
            rule = _first(self._rules.named(host), peer)
        if rule is None:
            return self._refused(peer, host, f"{GUARD}:{kind}")
        return Decision(True, rule)

    def _connect(self, peer: Peer) -> Decision:
        host = host_of(peer)
        if host is None or not 0 < peer.port <= 0xFFFF:
            return NO_HOST
        if isinstance(host, str):
            entries = self._rules.by_name(host)
            kind = "localhost" if is_localhost(host) else "public"
        else:
            entries, kind = self._rules.by_address(host), classify(host)
        rule = _first(entries, peer)
        if rule is None and kind == "public":
            rule = _first(self._bound.get(host, ()), peer)
        if rule is not None:
            return Decision(True, rule)
        nobody = kind in ("public", "localhost", "loopback") or kind in WITHIN_REACH
        return self._refused(peer, host, "no-grant" if nobody else f"{GUARD}:{kind}")

    def _refused(self, peer: Peer, host: str | bytes, rule: str) -> Decision:
        quiet = self._quiet
        entries = quiet.by_name(host) if isinstance(host, str) else quiet.by_address(host, guarded=False)
        silenced = _first(entries, peer)
        if silenced is None:
            return Decision(False, rule)
        return Decision(False, silenced if rule == "no-grant" else rule, quiet=True)


def lookup(rules: HostTable | None, quiet: HostTable | None, text: str) -> Decision:
    """Return whether the name `text` may be answered by any of `rules`."""
    name = canonical_name(text)
    if name is None:
        return NO_HOST
    rule = rules.answers(name) if rules is not None else None
    if rule is not None:
        return Decision(True, rule)
    silenced = quiet.answers(name) if quiet is not None else None
    return Decision(False, silenced or "no-grant", quiet=silenced is not None)


def _first(entries: Iterable[Entry], peer: Peer) -> str | None:
    return next((entry.rule for entry in entries if entry.holds(peer.port, peer.protocol)), None)
