"""Which calls may run together (`[policy] overlap`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.limits import NAME_SHOWN
from mcpwrap.protocol.window import Call, State

if TYPE_CHECKING:
    from collections.abc import Iterable

AUTO: Final = "auto"
SERIALIZE: Final = "serialize"
UNION: Final = "union"
MODES: Final = frozenset({AUTO, SERIALIZE, UNION})

_YIELDING: Final = {State.WAITING: "waits for the client", State.TASK: "has become a task"}
"""Calls nobody waits behind under `auto`: the client may need the second call to answer the first."""


def blocker(new: Call, active: Iterable[Call], mode: str) -> Call | None:
    """Return a call that `new` must wait for, or None.

    `auto`: any call of another tool, unless it waits for the client itself or is a task. `serialize`: any at all
    that does not wait for the client, which may need `new` to answer. Never one whose grant was withdrawn.
    """
    if mode == UNION:
        return None
    for call in active:
        if call.withdrawn:
            continue  # It has no grant that the other could use.
        if mode == SERIALIZE:
            if call.state is not State.WAITING:
                return call
        elif call.state not in _YIELDING and not _same_tool(call, new):
            return call
    return None


def union(new: Call, active: Iterable[Call], mode: str) -> str:
    """Return why `new` runs beside calls of other tools ("" if it does not), for the audit.

    Under `serialize`, beside any.
    """
    others = [
        f"{call.window.id} ({call.tool[:NAME_SHOWN]}) {_why(call)}"
        for call in active
        if call.window is not None and (mode == SERIALIZE or not _same_tool(call, new))
    ]
    return "; ".join(others)


def _why(call: Call) -> str:
    if call.withdrawn:
        return "has had its time"
    return _YIELDING.get(call.state, "runs (overlap = union)")


def _same_tool(one: Call, other: Call) -> bool:
    """Tell whether two calls have one grant. A tool may be named like a method; it is not the same."""
    if one.area != other.area:
        return False
    return one.area != "tools" or one.tool == other.tool


def batch_conflict(calls: list[Call], mode: str) -> str:
    """Return why the calls of one batch cannot all be open at once, or ""."""
    if mode == UNION or len(calls) < 2:
        return ""
    if mode == SERIALIZE:
        return "its calls would run together, and the grant says overlap = serialize"
    alike = all(_same_tool(call, calls[0]) for call in calls)
    return "" if alike else "it calls different tools, whose grants must not be mixed"
