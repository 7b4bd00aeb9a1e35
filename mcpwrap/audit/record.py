"""The records of one run's audit: plain JSON objects, one a line, `"v": 1`.

Kinds, in the order a run writes them: `run`, `protections`, then as they happen `manifest` (tools as listed),
`opened`, `operation`, `withdrawn`, `closed`, `stream` (a connection that is over), `refused` (calls that were
not started) and `note`, `exit` last.
Times are UTC; `ms` are milliseconds of the window.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpwrap.audit.redact import shape
from mcpwrap.limits import RECORDS_PER_WINDOW

if TYPE_CHECKING:
    from mcpwrap.operation import Denial, Event

VERSION: Final = 1

Record: TypeAlias = dict[str, object]

_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False, default=shape).encode


def encode(at: str, record: Mapping[str, object]) -> bytes:
    """Return one line. Bytes no UTF-8 can say stand as the lone surrogates `os.fsdecode` made of them."""
    return _encode({"v": VERSION, "at": at, **record}).encode("ascii") + b"\n"


def operation(event: Event, *, late: bool = False) -> Record:
    """One operation with its decision. `late`: its window had closed when the record arrived."""
    acted, decision = event.operation, event.decision
    record: Record = {
        "kind": "operation",
        "windows": list(event.windows),
        "act": acted.act,
        "need": acted.need.value,
        "object": acted.object,
        "allowed": decision.allowed,
        "rule": decision.rule,
        "pid": event.pid,
    }
    if acted.written:
        record["written"] = acted.written
    if not decision.allowed:
        record["errno"] = event.errno
        if decision.quiet:
            record["quiet"] = True
    if late:
        record["late"] = True
    return record


def stream(
    windows: Iterable[str],
    host: str,
    rule: str,
    *,
    address: str,
    via: str,
    sent: int,
    received: int,
    seconds: float,
    how: str,
) -> Record:
    """One connection that is over. `windows`: those open when it was made; it may have outlived them.

    `address`: what was dialed; empty if nothing was, or only the proxy `via`. Bytes are the server's.
    """
    record: Record = {
        "kind": "stream",
        "windows": list(windows),
        "host": host,
        "rule": rule,
        "address": address,
        "sent": sent,
        "received": received,
        "seconds": round(seconds, 3),
        "how": how,
    }
    if via:
        record["via"] = via
    return record


def denials(found: Iterable[Denial]) -> list[Record]:
    return [
        {
            "act": denial.act,
            "object": denial.object,
            "rule": denial.rule,
            "count": denial.times,
            "sentence": denial.sentence,
            "offer": denial.offer,
            "place": denial.place,
        }
        for denial in found
    ]


class Tally:
    """Decides which operations are written one by one, and counts the rest exactly.

    One key per window, `""` for what happened outside every call.
    """

    __slots__ = ("_counts", "_limit", "_written")

    def __init__(self, limit: int = RECORDS_PER_WINDOW) -> None:
        self._limit = limit
        self._written: dict[str, int] = {}
        self._counts: dict[str, dict[str, int]] = {}

    def admit(self, event: Event) -> bool:
        """Return whether `event` is to be written; if not it is counted for each of its windows."""
        keys = event.windows or ("",)
        # Several candidates: the event is written while any of them has room, and used up for all.
        room = any(self._written.get(key, 0) < self._limit for key in keys)
        for key in keys:
            self._written[key] = self._written.get(key, 0) + 1
            if not room:
                verdict = "allowed" if event.decision.allowed else "refused"
                name = f"{verdict} {event.operation.need.value} {event.decision.rule}"
                counts = self._counts.setdefault(key, {})
                counts[name] = counts.get(name, 0) + 1
        return room

    def close(self, key: str) -> dict[str, int]:
        """Forget the window; return what was counted and not written, by verdict, need and rule."""
        self._written.pop(key, None)
        return self._counts.pop(key, {})
