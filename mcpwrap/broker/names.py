"""Names and the addresses that stand for them inside: nothing is looked up, so nothing leaks by a query.

An address is given to one name and never to another, so a stale one leads nowhere, not elsewhere.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

NAMES: Final = 4_096
"""Names kept; the one that was not used for longest then makes room. Browsers keep 1,000 in their caches."""

RANGES: Final = (11, 22, 26, 28, 29, 30, 33, 55)
"""First bytes of /8 networks that are public in form, as careful programs demand, and have no hosts that
programs are sent to: all are of the United States' Department of Defense (IANA IPv4 address space registry).
198.18.0.0/15 and the like count as private: servers refuse to fetch from there."""

_FIRST: Final = 1
_END: Final = (1 << 24) - 1


def free_range(granted: Iterable[str]) -> int:
    """Return the first byte of a range that overlaps none of the granted networks (CIDR, IPv6 ones too).

    Raises ValueError if there is none: somebody granted the whole internet by networks.
    """
    taken = [_interval(network) for network in granted if ":" not in network]
    for first in RANGES:
        low, high = first << 24, ((first + 1) << 24) - 1
        if all(end < low or high < begin for begin, end in taken):
            return first
    raise ValueError("every range that could stand for names is granted by `net` networks")


def _interval(network: str) -> tuple[int, int]:
    """Return the first and last address of an IPv4 CIDR as numbers."""
    text, _, bits = network.partition("/")
    begin = int.from_bytes(bytes(map(int, text.split("."))), "big")
    size = 1 << (32 - int(bits or 32))
    begin &= -size
    return begin, begin + size - 1


class Names:
    """The table. `first` is the first byte of the range."""

    def __init__(self, first: int) -> None:
        self._base = first << 24
        self._next = _FIRST
        self._by_name: OrderedDict[str, bytes] = OrderedDict()
        self._by_address: dict[bytes, str] = {}

    def stands_for(self, host: bytes) -> bool:
        """Whether `host` is of the range, given to a name or not: it is never an address of the outside."""
        return len(host) == 4 and host[0] == self._base >> 24

    def address(self, name: str) -> bytes | None:
        """Return the address of `name`, a new one if it has none; None when the range is used up."""
        found = self._by_name.get(name)
        if found is None:
            if self._next > _END:
                return None
            found = (self._base + self._next).to_bytes(4, "big")
            self._next += 1
            if len(self._by_name) >= NAMES:
                del self._by_address[self._by_name.popitem(last=False)[1]]
            self._by_name[name] = found
            self._by_address[found] = name
        else:
            self._by_name.move_to_end(name)
        return found

    def name(self, host: bytes) -> str | None:
        """Return the name `host` was given to."""
        found = self._by_address.get(host)
        if found is not None:
            self._by_name.move_to_end(found)
        return found
