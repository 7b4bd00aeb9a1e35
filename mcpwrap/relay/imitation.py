"""Marks what a server writes to look like a line of mcpwrap's own.

A line may also begin where a control character or an escape sequence puts the cursor, and what is not seen
(colours, zero-width characters) may stand between the letters.
"""

from __future__ import annotations

import re
from typing import Final

OWN: Final = b"mcpwrap:"
"""How every line of ours begins."""
MARK: Final = b"server: "
"""Put before the same word where the server wrote it."""
HELD_BYTES: Final = 64
"""Bytes that may yet become the word and are held back until the next; more of them get the mark unseen."""

_STRING = rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d\x9e\x9f])[^\x00-\x1f\x7f]*+"
_PARAMETERS = rb"(?:\x1b\[|\xc2\x9b)[0-?]*+[ -/]*+"
_CONTROL = (
    rb"(?:" + _STRING + rb"(?:\x07|\x1b\\|\xc2\x9c)|" + _PARAMETERS + rb"[@-~]"
    rb"|\x1b[ -/]*+[0-Z\\`-~]|[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9])"
)
"""The control functions of ECMA-48: strings, sequences with parameters, others; and the line separators."""
_UNSEEN = rb"(?: |\xc2[\xa0\xad]|\xe2\x80[\x80-\x8f\xaa-\xaf]|\xe2\x81[\x9f-\xaf]|\xef\xbb\xbf)"
_BEFORE = rb"(?:" + _CONTROL + rb"|" + _UNSEEN + rb")*+"
_WITHIN = rb"(?:(?!\n)" + _CONTROL + rb"|" + _UNSEEN + rb")*+"
_LETTERS = [re.escape(bytes([letter])) for letter in OWN]


def _beginning(letters: list[bytes]) -> bytes:
    """Return the expression of what may yet become the word: its letters from the first on, as many as there are."""
    return rb"(?:" + letters[0] + _WITHIN + (_beginning(letters[1:]) if letters[1:] else b"") + rb")?+"


_PLACE = re.compile(
    _CONTROL
    + _BEFORE
    + rb"(?:(" + _WITHIN.join(_LETTERS) + rb")|(" + _beginning(_LETTERS[:-1]) + rb")\Z)?+",
    re.IGNORECASE,
)  # fmt: skip
_UNFINISHED = re.compile(
    rb"(?:" + _STRING + rb"\x1b?|" + _PARAMETERS + rb"|\x1b[ -/]*+|\xc2|\xe2[\x80\x81]?|\xef\xbb?)\Z"
)
"""An escape sequence, or a character that is not seen, whose end has not come yet."""


class Imitations:
    """One stream, in pieces as they come. What `passed` returns may be shown at once."""

    def __init__(self) -> None:
        # What is held back at the beginning of a line; None: something has been written in this line.
        self._held: bytes | None = b""

    def passed(self, data: bytes) -> bytes:
        """Return what can be shown by now, marked."""
        held = self._take(None)
        text = data if held is None else b"\n" + held + data
        unfinished = _UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        out = _PLACE.sub(self._mark, text[:end])
        if unfinished:
            self._held = (self._held or b"") + text[end:]
        if self._held is not None and len(self._held) > HELD_BYTES:
            out += MARK + self._held
            self._held = None
        return out if held is None else out[1:]

    def line_ended(self) -> bytes:
        """Return what is held back: another line begins behind it, of whomever."""
        return self._take(b"") or b""

    def _take(self, instead: bytes | None) -> bytes | None:
        held, self._held = self._held, instead
        return held

    def _mark(self, match: re.Match[bytes]) -> bytes:
        word, held = match[1], match[2]
        if word is not None:
            return match[0].removesuffix(word) + MARK + word
        if held is None:
            return match[0]
        self._held = held
        return match[0].removesuffix(held)
