"""Memory, and records, that peers cannot fill."""

from __future__ import annotations

from typing import TypeVar

from mcpwrap.limits import NOISE_NOTED, REMEMBERED, REMEMBERED_CHARACTERS
from mcpwrap.protocol.actions import Note

K = TypeVar("K")
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dict that forgets its oldest entry when it would hold more than `REMEMBERED`."""

    forgot = False
    """Something that should be here is not: what is not found may be it."""

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        if len(self) >= REMEMBERED:
            del self[next(iter(self))]
            self.forgot = True
        super().__setitem__(key, value)


def is_short(key: int | str) -> bool:
    """Tell whether an id the server chose may be a key of what is remembered."""
    return type(key) is int or (type(key) is str and len(key) <= REMEMBERED_CHARACTERS)


class Faults:
    """Notes a peer can cause as often as it likes: of each kind the first few, then each doubling of their number."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def note(self, kind: str, text: str, *, loud: bool = False, **fields: str | int) -> list[Note]:
        """Return the note, or nothing if there were too many of its kind."""
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        if seen > NOISE_NOTED and seen & (seen - 1):
            return []
        return [Note(kind, text, {**fields, "lines_so_far": seen}, loud=loud)]
