"""Looking at a large line without parsing the long strings in it: 0.05 ms a megabyte instead of 0.5 to 2.

A long string is cut out (file contents, images), and what is left is parsed by the same reader under the same
rules. For a text that is JSON the two readings are equal but for the cut values, none of which is a key.
A text whose only fault lies inside a long string (a bad escape) passes as it would without mcpwrap: whoever
takes it at all takes the string to end where it is taken to end here. Of what goes to the server that must be
certain, see `calls_outline`.
"""

from __future__ import annotations

from typing import Final

from mcpwrap.limits import LONG_TEXT_BYTES

CUT_BYTES: Final = 1_024
"""Strings longer than this are cut. An id that is one is empty in the outline, and the line then parsed."""

STAND_IN: Final = b"Infinity"
"""No JSON, and nothing else in the reader's language calls its `parse_constant` but NaN and -Infinity."""

_LINE_ENDS: Final = (b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e")
"""The control characters that end a line for Python's `str.splitlines`; LF and a stray CR are not in a line."""

_DENSE_BYTES: Final = 128
"""With a quote more often than every so many bytes, parsing is the cheaper way."""

_FIRST_LOOK: Final = 64
_BACKSLASH: Final = 0x5C
_LONGEST_RUN: Final = 64


class LongText:
    """A string among the arguments of a call that was not read: `size` bytes as written.

    It is longer than any path, however that is escaped: it can name no file.
    """

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size


def outline(line: bytes) -> bytes | None:
    """Return `line` with every long string value emptied, or None if that would not pay or not be certain."""
    spans = _long_strings(line, CUT_BYTES)
    return _replaced(line, spans, b'""') if spans else None


def calls_outline(line: bytes) -> tuple[bytes, list[int]] | None:
    """Return a line of the client with each string beyond `LONG_TEXT_BYTES` as `STAND_IN`, and their sizes.

    None where a parser might find the end of such a string elsewhere (blindly skipping four characters after
    `\\u`), where a server might split the line in it, or where `STAND_IN` is in what is left.
    """
    spans = _long_strings(line, LONG_TEXT_BYTES)
    if not spans or any(_is_uncertain(line, *span) for span in spans):
        return None
    short = _replaced(line, spans, STAND_IN)
    if short.count(STAND_IN) != len(spans):
        return None
    return short, [end - at - 1 for at, end in spans]


def _is_uncertain(line: bytes, start: int, end: int) -> bool:
    # A single byte is looked for at 100 GB/s, two at 6: most base64 holds no backslash at all.
    if line.find(b"\\", start, end) >= 0 and line.find(b"\\u", start, end) >= 0:
        return True
    return any(line.find(mark, start, end) >= 0 for mark in _LINE_ENDS)


def _replaced(line: bytes, spans: list[tuple[int, int]], stand_in: bytes) -> bytes:
    pieces: list[bytes] = []
    kept = 0
    for at, end in spans:
        pieces.append(line[kept:at])
        kept = end + 1
    pieces.append(line[kept:])
    return stand_in.join(pieces)


def _long_strings(line: bytes, longest: int) -> list[tuple[int, int]]:
    """Return where the quotes of each value stand that is a string of more than `longest` bytes.

    None are returned if looking for them would not pay, or is not certain.
    """
    spans: list[tuple[int, int]] = []
    seen = 0
    at = line.find(b'"')
    while at >= 0:
        end = _end_of_string(line, at)
        if end < 0:
            return []
        # A key is followed by a colon: keys are never cut.
        if end - at > longest and line[end + 1 : end + 2] in (b",", b"]", b"}"):
            spans.append((at, end))
        seen += 2
        if seen > _FIRST_LOOK and seen * _DENSE_BYTES > end:
            return []
        at = line.find(b'"', end + 1)
    return spans


def _end_of_string(line: bytes, at: int) -> int:
    """Return where the string that begins at `at` ends, or -1 if it does not or has too many escapes."""
    end = line.find(b'"', at + 1)
    escaped = 0
    while end >= 0:
        run = 1
        while line[end - run] == _BACKSLASH and run <= _LONGEST_RUN:
            run += 1
        if run > _LONGEST_RUN:
            return -1
        if run % 2:
            return end
        escaped += 1
        if escaped > _FIRST_LOOK and escaped * _DENSE_BYTES > end - at:
            return -1
        end = line.find(b'"', end + 1)
    return -1
