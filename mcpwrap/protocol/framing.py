"""Bytes to lines: one JSON message a line, LF ends it (MCP specification, transports, stdio)."""

from __future__ import annotations


class Lines:
    """Cuts a byte stream after each LF and nowhere else; a chunk may end anywhere.

    A lone CR, U+2028 and form feeds are ordinary bytes here (`stray_cr` judges the first).
    Work is linear in the bytes fed, whatever the size of the chunks or of the line.
    """

    __slots__ = ("_begun", "_limit", "too_long")

    def __init__(self, limit: int) -> None:
        """`limit` is the most bytes a line may have, its LF not counted."""
        self._begun = bytearray()
        self._limit = limit
        self.too_long = False
        """A line was longer than the limit: nothing after it is delivered, ever."""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, each with its LF.

        At a line above the limit, ended or not, the lines before it are returned and `too_long` is set.
        """
        if self.too_long:
            return []
        begun = self._begun
        lines: list[bytes] = []
        start = 0
        room = self._limit - len(begun)
        while (end := data.find(b"\n", start)) >= 0:
            if end - start > room:
                return self._give_up(lines)
            end += 1
            if begun:
                begun += memoryview(data)[start:end]
                lines.append(bytes(begun))
                begun.clear()
            else:
                lines.append(data[start:end])
            room = self._limit
            start = end
        if len(data) - start > room:
            return self._give_up(lines)
        if start < len(data):
            begun += memoryview(data)[start:]
        return lines

    def rest(self) -> bytes:
        """Return what came after the last LF, and forget it."""
        rest = bytes(self._begun)
        self._begun.clear()
        return rest

    def _give_up(self, lines: list[bytes]) -> list[bytes]:
        self.too_long = True
        self._begun.clear()
        return lines


def stray_cr(line: bytes) -> bool:
    """Tell whether `line` (with its LF, if it has one) holds a CR that is not directly before the LF.

    Python SDK servers and clients split there: one line for us would be two messages for them.
    """
    last = len(line) - 2 if line.endswith(b"\n") else len(line)
    return line.find(b"\r", 0, max(last, 0)) >= 0
