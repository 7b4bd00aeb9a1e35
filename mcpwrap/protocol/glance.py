"""Looking at a large answer without parsing the long strings in it: 0.05 ms a megabyte instead of 0.5 to 2.

A long string is cut out (file contents, images), and what is left is parsed by the same reader under the same
rules. For a text that is JSON the two readings are equal but for the cut values, none of which is a key.
A text whose only fault lies inside a long string (a bad escape) passes as it would without mcpwrap.
"""

from __future__ import annotations

from typing import Final

CUT_BYTES: Final = 1_024
"""Strings longer than this are cut. An id that is one is empty in the outline, and the line then parsed."""

_DENSE_BYTES: Final = 128
"""With a quote more often than every so many bytes, parsing is the cheaper way."""

_FIRST_LOOK: Final = 64
_BACKSLASH: Final = 0x5C
_LONGEST_RUN: Final = 64


def outline(line: bytes) -> bytes | None:
    """Return `line` with every long string value emptied, or None if that would not pay or not be certain."""
    pieces: list[bytes] = []
    kept = seen = 0
    at = line.find(b'"')
    while at >= 0:
        end = _end_of_string(line, at)
        if end < 0:
            return None
        # A key is followed by a colon: keys are never cut.
        if end - at > CUT_BYTES and line[end + 1 : end + 2] in (b",", b"]", b"}"):
            pieces.append(line[kept : at + 1])
            kept = end
        seen += 2
        if seen > _FIRST_LOOK and seen * _DENSE_BYTES > end:
            return None
        at = line.find(b'"', end + 1)
    if not pieces:
        return None
    pieces.append(line[kept:])
    return b"".join(pieces)


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
