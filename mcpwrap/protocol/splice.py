"""Changing one place of a JSON text and no other byte of it: number spelling, escapes and key order stay."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_GAP: Final = re.compile(r"[ \t\r\n]*")
_value_at: Final = json.JSONDecoder().raw_decode


class Span(NamedTuple):
    """Where a value stands in a text, as half-open character offsets."""

    start: int
    end: int

    def of(self, text: str) -> str:
        """Return the value's own text."""
        return text[self.start : self.end]


class Edit(NamedTuple):
    """Put `text` in the place of `span`."""

    span: Span
    text: str


def _walk(text: str, span: Span) -> Iterator[tuple[str, int, Span]]:
    """Yield each member of an object: its key, where the key begins, and the span of its value."""
    at = _skip(text, span.start + 1)
    while text[at] == '"':
        begin = at
        key, at = _value_at(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, end = _value_at(text, start)
        yield key, begin, Span(start, end)
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def members(text: str, span: Span) -> dict[str, Span]:
    """Return the spans of an object's values by key. `span` must be that of a valid object."""
    return {key: value for key, _, value in _walk(text, span)}


def elements(text: str, span: Span) -> list[Span]:
    """Return the spans of an array's values. `span` must be that of a valid array."""
    found: list[Span] = []
    at = _skip(text, span.start + 1)
    while text[at] != "]":
        _, end = _value_at(text, at)
        found.append(Span(at, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return found


def whole_value(text: str) -> Span:
    """Return the span of the one value a text holds, white space aside."""
    start = _skip(text, 0)
    return Span(start, _value_at(text, start)[1])


def at_path(text: str, path: Sequence[str]) -> Span:
    """Return the span of the value below the keys of `path`. Raises KeyError if one is missing."""
    span = whole_value(text)
    for key in path:
        span = members(text, span)[key]
    return span


def appended(text: str, span: Span, *items: str) -> Edit:
    """Return the edit that puts `items` (members, or values of an array) behind the last one there."""
    end = span.end - 1
    empty = _skip(text, span.start + 1) == end
    return Edit(Span(end, end), ("" if empty else ",") + ",".join(items))


def without_prefix(text: str, span: Span, prefix: str, *, plus: str = "") -> Edit:
    """Return the edit that drops members whose key begins with `prefix`, and adds the member `plus`."""
    kept = [text[begin : value.end] for key, begin, value in _walk(text, span) if not key.startswith(prefix)]
    return Edit(span, "{" + ",".join([*kept, plus] if plus else kept) + "}")


def apply(text: str, edits: Sequence[Edit]) -> str:
    """Return `text` with all edits made; their spans must not overlap."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.span.start, edit.span.end)):
        parts += (text[at : edit.span.start], edit.text)
        at = edit.span.end
    parts.append(text[at:])
    return "".join(parts)


def _skip(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    return match.end() if match else at
