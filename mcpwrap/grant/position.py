"""Where each key and each value of a TOML document stands; `tomllib` does not tell.

The scan is laxer than TOML and reads left to right: where it gives up, `tomllib` finds an error no
later. It runs first and enforces the bounds (`MAX_DEPTH`, `MAX_KEY_PARTS`) on which `tomllib` spends
quadratic time or the stack, so a document that passes is safe to hand on.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from contextlib import suppress

Path = tuple[str | int, ...]

MAX_DEPTH = 16
"""Nesting of arrays and inline tables. A grant file needs three."""
MAX_KEY_PARTS = 16
"""Parts of a dotted key. A grant file needs three; tomllib's time grows with the square."""

_SKIP = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY_PART = re.compile(r"""([A-Za-z0-9_-]+)|("(?:[^"\\\n]|\\[^\n])*")|('[^'\n]*')""")
_STRING = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""(?:"{0,2})'''
    r"""|'''(?:[^']|'(?!''))*'''(?:'{0,2})"""
    r"""|"(?:[^"\\\n]|\\[^\n])*"|'[^'\n]*'""",
    re.DOTALL,
)
_SCALAR = re.compile(r"[^,\]\}\n#]+")


class TooDeep(ValueError):
    """A document beyond the bounds; `offset` is where it crosses them."""

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(what)
        self.offset = offset


class _GaveUp(Exception):
    """Not TOML from here on; tomllib will say why."""


class Positions:
    """Offsets of all keys and values of `text`. Raises TooDeep.

    `keys[path]` and `values[path]` are (start, end) of a key part and of a value; array items have
    their index in the path. `headers[path]` is where the header of a table names it. `twice` lists
    (path, start, end, start of the first) of what is defined again.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: dict[Path, tuple[int, int]] = {}
        self.values: dict[Path, tuple[int, int]] = {}
        self.twice: list[tuple[Path, int, int, int]] = []
        self.headers: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self._at = 0
        with suppress(_GaveUp):
            self._document()

    def place(self, offset: int) -> tuple[int, int]:
        """Return line and column, from 1, of an offset."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of a line, without its end."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def span(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Return (start, end) of a value, or of its key, or of the nearest thing that holds it."""
        while path:
            if not key and path in self.values:
                return self.values[path]
            if path in self.keys:
                return self.keys[path]
            path = path[:-1]
        return 0, 0

    def _document(self) -> None:
        table: Path = ()
        text = self.text
        while True:
            self._skip()
            if self._at >= len(text):
                return
            if text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table, 0)

    def _header(self) -> Path:
        double = self.text.startswith("[[", self._at)
        self._at += 2 if double else 1
        path, start, end = self._key(())
        self._take("]]" if double else "]")
        if double:
            index = self._arrays.get(path, -1) + 1
            self._arrays[path] = index
            return (*path, index)
        if path in self.headers or path in self.values:
            self.twice.append((path, start, end, self.keys[path][0]))
        self.headers.setdefault(path, start)
        return path

    def _pair(self, table: Path, depth: int) -> None:
        path, start, end = self._key(table)
        self._take("=")
        if path in self.values or path in self.headers:
            self.twice.append((path, start, end, self.keys[path][0]))
        self._at = _end(_SPACE, self.text, self._at)
        self._value(path, depth)

    def _key(self, table: Path) -> tuple[Path, int, int]:
        """Read a key; return its path, and where it starts and ends."""
        path = table
        first = -1
        for count in range(MAX_KEY_PARTS + 1):
            self._at = _end(_SPACE, self.text, self._at)
            match = _KEY_PART.match(self.text, self._at)
            if match is None:
                raise _GaveUp
            if count == MAX_KEY_PARTS:
                raise TooDeep(f"a key of more than {MAX_KEY_PARTS} parts", self._at)
            if path in self._arrays:  # a header goes on in the last table of an array
                path = (*path, self._arrays[path])
            path = (*path, _key_text(match))
            self.keys.setdefault(path, match.span())
            first = match.start() if first < 0 else first
            self._at = _end(_SPACE, self.text, match.end())
            if not self.text.startswith(".", self._at):
                return path, first, match.end()
            self._at += 1
        raise AssertionError("the loop ends by return or raise")

    def _value(self, path: Path, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise TooDeep(f"values nested deeper than {MAX_DEPTH}", self._at)
        start = self._at
        opening = self.text[start : start + 1]
        if opening == "[":
            self._array(path, depth)
        elif opening == "{":
            self._inline(path, depth)
        else:
            match = (_STRING if opening in ('"', "'") else _SCALAR).match(self.text, start)
            if match is None:
                raise _GaveUp
            self._at = match.end()
        end = start + len(self.text[start : self._at].rstrip())
        self.values.setdefault(path, (start, end))

    def _array(self, path: Path, depth: int) -> None:
        self._at += 1
        index = 0
        while True:
            self._skip()
            if self.text.startswith("]", self._at):
                self._at += 1
                return
            self._value((*path, index), depth + 1)
            index += 1
            self._skip()
            if self.text.startswith(",", self._at):
                self._at += 1
            elif not self.text.startswith("]", self._at):
                raise _GaveUp

    def _inline(self, path: Path, depth: int) -> None:
        self._at += 1
        while True:
            self._skip()
            if self.text.startswith("}", self._at):
                self._at += 1
                return
            self._pair(path, depth + 1)
            self._skip()
            if self.text.startswith(",", self._at):
                self._at += 1
            elif not self.text.startswith("}", self._at):
                raise _GaveUp

    def _skip(self) -> None:
        self._at = _end(_SKIP, self.text, self._at)

    def _take(self, mark: str) -> None:
        self._at = _end(_SPACE, self.text, self._at)
        if not self.text.startswith(mark, self._at):
            raise _GaveUp
        self._at += len(mark)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    assert match is not None, "the pattern matches the empty string"
    return match.end()


def _key_text(match: re.Match[str]) -> str:
    bare, basic, literal = match.groups()
    if bare is not None:
        return str(bare)
    if literal is not None:
        return str(literal)[1:-1]
    if "\\" not in basic:
        return str(basic)[1:-1]
    try:
        return str(tomllib.loads(f"k = {basic}")["k"])
    except tomllib.TOMLDecodeError:
        raise _GaveUp from None
