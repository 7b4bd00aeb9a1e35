"""Names from outside, made fit to stand in a sentence of mcpwrap's own."""

from __future__ import annotations

from typing import Final

MAX_TEXT: Final = 200
"""Characters of one name from outside in a sentence (threat model: a file name is the attacker's text)."""


def shown(text: str) -> str:
    """Return `text` fit for a sentence: printable, at most `MAX_TEXT` characters, `"` and `\\` escaped.

    Bytes that are no UTF-8 show as `\\xNN`; control, format (bidi) and unassigned characters vanish.
    """
    out: list[str] = []
    length = 0
    for char in text:
        if "\udc80" <= char <= "\udcff":
            piece = f"\\x{ord(char) - 0xDC00:02x}"
        elif char in '"\\':
            piece = "\\" + char
        else:
            piece = char if char.isprintable() else ""
        length += len(piece)
        if length > MAX_TEXT:
            while out and length - len(piece) > MAX_TEXT - 1:
                length -= len(out.pop())
            return "".join(out) + "…"
        out.append(piece)
    return "".join(out)
