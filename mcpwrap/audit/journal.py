"""Turns what the relay sees into the records of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mcpwrap.audit import record
from mcpwrap.audit.redact import shapes
from mcpwrap.limits import LONG_TEXT_BYTES
from mcpwrap.operation import Decision, Event, Need, Operation

if TYPE_CHECKING:
    from mcpwrap.audit.writer import AuditWriter
    from mcpwrap.operation import Denial
    from mcpwrap.policy.active import Bound
    from mcpwrap.protocol.manifest import Held
    from mcpwrap.protocol.terms import Objection
    from mcpwrap.protocol.window import Window

KEPT_ARGUMENT_BYTES: Final = LONG_TEXT_BYTES
"""Arguments of one call beyond this, and single strings, are recorded by their shapes even if the user asked
for them."""


class Journal:
    """One run's. `keep_arguments`: record the arguments of calls as they are, not only their shapes."""

    def __init__(self, writer: AuditWriter, *, keep_arguments: bool = False) -> None:
        self._writer = writer
        self._keep_arguments = keep_arguments
        self._tally = record.Tally()
        self._open: set[str] = set()

    def opened(self, window: Window, bound: Bound) -> None:
        """Record a window with what its arguments bound."""
        self._open.add(window.id)
        opened: record.Record = {
            "kind": "opened",
            "window": window.id,
            "tool": window.tool,
            "method": window.method,
            "area": window.area,
            "request": window.request_id,
            "arguments": self._arguments(window),
            "bound": [
                {"need": each.need.value, "path": each.path, "kind": each.kind, "rule": each.rule}
                for each in bound.paths
            ]
            + [
                {
                    "need": "connect",
                    "path": each.host,
                    "kind": "host",
                    "ports": list(each.ports),
                    "rule": each.rule,
                }
                for each in bound.hosts
            ],
        }
        if bound.unbound:
            opened["unbound"] = [{"argument": each.argument, "reason": each.reason} for each in bound.unbound]
        if window.union:
            opened["union"] = window.union
        if window.joined:
            opened["joined"] = window.joined
        self._writer.write(opened)

    def closed(self, window: Window, how: str, denials: Sequence[Denial], seconds: float) -> None:
        """Record how a window ended, with what was told of it and what was only counted."""
        self._open.discard(window.id)
        closed: record.Record = {
            "kind": "closed",
            "window": window.id,
            "tool": window.tool,
            "how": how,
            "ms": round(seconds * 1000, 1),
        }
        if denials:
            closed["denials"] = record.denials(denials)
        if counts := self._tally.close(window.id):
            closed["not_written"] = counts
        self._writer.write(closed)

    def withdrawn(self, window: Window) -> None:
        """Record that a window goes on without its grant."""
        self._writer.write({"kind": "withdrawn", "window": window.id, "tool": window.tool})

    def refused(self, tool: str, request_id: int | str, objection: Objection) -> None:
        """Record a call that was not given to the server."""
        self._writer.write(
            {
                "kind": "refused",
                "tool": tool,
                "request": request_id,
                "rule": objection.rule,
                "why": objection.why,
            }
        )

    def listed(self, tools: Mapping[str, str], held: Mapping[str, Held]) -> None:
        """Record what a listing brought that was not known."""
        listed: record.Record = {"kind": "manifest", "tools": dict(tools)}
        if held:
            listed["held"] = [
                {
                    "tool": tool,
                    "was": each.was,
                    "now": each.now,
                    "pinned": each.pinned,
                    "changed": list(each.fields),
                }
                for tool, each in held.items()
            ]
        self._writer.write(listed)

    def operation(self, event: Event, *, late: bool) -> None:
        """Record one operation, or count it if its window has had its share."""
        if self._tally.admit(event):
            self._writer.write(record.operation(event, late=late))

    def stream(self, windows: Sequence[str], host: str, rule: str, **fields: Any) -> None:
        """Record one connection that is over (`record.stream`), or count it as an operation is counted."""
        # It may have outlived its calls: then it counts among what happened outside of any.
        living = tuple(id for id in windows if id in self._open)
        if self._tally.admit(Event(Operation("stream", Need.CONNECT, host), Decision(True, rule), living)):
            self._writer.write(record.stream(windows, host, rule, **fields))

    def note(self, kind: str, text: str, fields: Mapping[str, str | int]) -> None:
        """Record a note."""
        self._writer.write({**fields, "kind": "note", "note": kind, "text": text})

    def flush(self) -> None:
        """Write all of it to disk. Raises `OSError`."""
        self._writer.flush()

    def counts_outside(self) -> dict[str, int]:
        """Return what happened outside every call and was not written one by one."""
        return self._tally.close("")

    def _arguments(self, window: Window) -> Mapping[str, Any]:
        if self._keep_arguments and len(record.encode("", window.arguments)) <= KEPT_ARGUMENT_BYTES:
            return dict(window.arguments)
        return shapes(window.arguments)
