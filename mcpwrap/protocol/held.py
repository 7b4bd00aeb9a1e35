"""Calls that wait for their turn, in the order they came."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from mcpwrap.limits import HOLD_SECONDS, MAX_HELD_BYTES, MAX_HELD_CALLS

if TYPE_CHECKING:
    from mcpwrap.protocol.window import Call


class Held:
    """One line of the client whose calls wait; `after` are the cancels that came for calls of a batch."""

    __slots__ = ("after", "calls", "is_batch", "line", "since")

    def __init__(self, line: bytes, calls: list[Call], since: float, *, is_batch: bool) -> None:
        self.line = line
        self.calls = calls
        self.since = since
        self.is_batch = is_batch
        self.after: list[tuple[Call, bytes]] = []

    @property
    def tool(self) -> str:
        """The tool it calls (of a batch, the first)."""
        return self.calls[0].tool


class Queue:
    """First come, first served; bounded in calls and bytes."""

    def __init__(self) -> None:
        self._waiting: deque[Held] = deque()
        self._by_id: dict[int | str, Held] = {}
        self._bytes = 0

    def __len__(self) -> int:
        """Return how many calls wait."""
        return len(self._by_id)

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._by_id

    def get(self, request_id: int | str | None) -> Held | None:
        """Return the line that holds the call of this id."""
        return self._by_id.get(request_id) if request_id is not None else None

    def has_room(self, held: Held) -> bool:
        """Tell whether one more may wait."""
        return (
            len(self) + len(held.calls) <= MAX_HELD_CALLS and self._bytes + len(held.line) <= MAX_HELD_BYTES
        )

    def push(self, held: Held) -> None:
        """Put a line at the end."""
        self._waiting.append(held)
        self._bytes += len(held.line)
        for call in held.calls:
            self._by_id[call.request_id] = held

    def remove(self, held: Held) -> None:
        """Take a line out, wherever it stands."""
        self._waiting.remove(held)
        self._bytes -= len(held.line)
        for call in held.calls:
            del self._by_id[call.request_id]

    def head(self) -> Held | None:
        """Return the line whose turn is next."""
        return self._waiting[0] if self._waiting else None

    def drain(self) -> list[Held]:
        """Take all out."""
        all_held = list(self._waiting)
        for held in all_held:
            self.remove(held)
        return all_held

    def restart(self, now: float) -> None:
        """Let every wait begin anew."""
        for held in self._waiting:
            held.since = now

    def deadline(self) -> float | None:
        """Return when the next line has waited too long."""
        return self._waiting[0].since + HOLD_SECONDS if self._waiting else None
