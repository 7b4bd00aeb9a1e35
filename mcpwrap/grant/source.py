"""The text of one grant file or profile, read as TOML, with the place of everything in it."""

from __future__ import annotations

import re
import tomllib

from mcpwrap.grant.grant import Where
from mcpwrap.grant.position import Path, Positions, TooDeep
from mcpwrap.grant.problem import BadGrant, Problem

MAX_BYTES = 1024 * 1024
"""Bytes of a grant file. The largest hand-written one is a few KiB; the parser's time must end."""

MAX_TWICE = 100
"""Repeated keys that are told of; the rest is of the same cause."""

_HEADER_AND_MORE = re.compile(r"\s*\[[A-Za-z][^=]*\][ \t]*[A-Za-z_]+[ \t]*=")
_UNQUOTED_HEADER = re.compile(r"\s*\[\s*tools\s*\.\s*([\w.*|?-]+)\s*\]")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def decode(data: bytes, file: str) -> str:
    """Return the text of a grant file as read from disk. Raises BadGrant: too large, no UTF-8."""
    if len(data) > MAX_BYTES:
        raise BadGrant([Problem(Where(file, 1, 1), f"the file is larger than {MAX_BYTES // 1024} KiB")])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        line = before.count("\n") + 1
        column = len(before) - (before.rfind("\n") + 1) + 1
        shown = data.split(b"\n")[line - 1].decode("utf-8", "replace")
        problem = Problem(
            Where(file, line, column), "this byte is not UTF-8", "save the file as UTF-8", shown
        )
        raise BadGrant([problem]) from None


class Source:
    """A parsed document and the problems found in it so far.

    `profile`: the profile's name, empty for the grant file. Raises BadGrant where the text is no
    TOML, defines something twice, or is beyond the bounds.
    """

    def __init__(self, text: str, file: str, profile: str = "") -> None:
        self.file = file
        self.profile = profile
        self.problems: list[Problem] = []
        if len(text) > MAX_BYTES:
            raise BadGrant([Problem(Where(file, 1, 1), f"the file is larger than {MAX_BYTES // 1024} KiB")])
        try:
            self._positions = Positions(text)
        except TooDeep as error:
            line, column = (
                text.count("\n", 0, error.offset) + 1,
                error.offset - text.rfind("\n", 0, error.offset),
            )
            raise BadGrant([Problem(Where(file, line, column), f"{error} is not taken")]) from None
        self._refuse_twice()
        try:
            self.table: dict[str, object] = tomllib.loads(text)
        except ValueError as error:  # a TOMLDecodeError, or an integer beyond Python's limit
            raise BadGrant([self._syntax(text, str(error))]) from None

    def where(self, path: Path, *, key: bool = False) -> Where:
        return Where(self.file, *self._positions.place(self._positions.span(path, key=key)[0]))

    def lines(self) -> dict[tuple[str, ...], int]:
        """Return the line at which each table and each value in one begins, by its path."""
        known = self._positions
        places = {path: known.keys[path][0] for path in known.values if path in known.keys} | known.headers
        return {tuple(map(str, path)): known.place(offset)[0] for path, offset in places.items()}

    def problem(self, path: Path, what: str, hint: str = "", *, key: bool = False) -> None:
        """Note a problem of the value at `path`, or of its key."""
        start, end = self._positions.span(path, key=key)
        self.problems.append(self._at(start, end, what, hint))

    def problem_at(self, where: Where, what: str, hint: str = "") -> None:
        """Note a problem at a place that `where()` gave."""
        source = self._positions.line(where.line)
        self.problems.append(Problem(where, what, hint, source, _word(source, where.column)))

    def _at(self, start: int, end: int, what: str, hint: str = "") -> Problem:
        line, column = self._positions.place(start)
        source = self._positions.line(line)
        width = min(end - start, len(source) - column + 1)
        return Problem(Where(self.file, line, column), what, hint, source, max(1, width))

    def _refuse_twice(self) -> None:
        problems = []
        tables: list[Path] = []
        for path, start, end, first in self._positions.twice[:MAX_TWICE]:
            if any(path[: len(table)] == table for table in tables):
                continue  # told of with its table
            tables.append(path)
            name = ".".join(str(step) for step in path)
            hint = f"first on line {self._positions.place(first)[0]}; put all of it there"
            problems.append(self._at(start, end, f'"{name}" is listed twice', hint))
        if problems:
            raise BadGrant(problems)

    def _syntax(self, text: str, message: str) -> Problem:
        match = _TOML_PLACE.search(message)
        what = "this is not TOML: " + _TOML_PLACE.sub("", message)
        if match is None or match[1] is None:
            line = text.rstrip("\n").count("\n") + 1
            column = len(self._positions.line(line)) + 1
        else:
            line, column = int(match[1]), int(match[2])
        shown = self._positions.line(line)
        return Problem(Where(self.file, line, column), what, _syntax_hint(shown), shown)


def _syntax_hint(line: str) -> str:
    if _HEADER_AND_MORE.match(line):
        return "a header stands on a line of its own; what it holds begins on the next"
    header = _UNQUOTED_HEADER.match(line)
    return f'a tool header with "*" or "|" is quoted: [tools."{header[1]}"]' if header else ""


def _word(source: str, column: int) -> int:
    """Return the width of the quoted string or key that begins at `column`."""
    match = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'|[\w-]+""").match(source, column - 1)
    return len(match[0]) if match else 1
