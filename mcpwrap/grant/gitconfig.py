"""The files a git configuration names: includes, and the user's ignore and attributes files.

Profile `git` makes the user's configuration readable, for identity; what it includes is part of it
(git-config(1), "Includes"). Conditions of `includeIf` are not judged: each file may be needed.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_INCLUDE_DEPTH = 10
"""git's own bound (MAX_INCLUDE_DEPTH in config.c)."""
MAX_FILES = 64
"""Files one configuration may name here; each becomes a rule."""

_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)(?:\s+"(?:[^"\\\n]|\\.)*")?\s*\]')
_VARIABLE = re.compile(r"\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*(.*)")
_NAMING = {("include", "path"), ("includeif", "path"), ("core", "excludesfile"), ("core", "attributesfile")}


def named_files(file: str, home: str, read: Callable[[str], str | None]) -> tuple[tuple[str, str, int], ...]:
    """Return (path, naming file, line) of each file that `file` names, includes followed.

    `read(path)` returns a file's text, None if it cannot be read. Paths are absolute.
    """
    found: dict[str, tuple[str, int]] = {}

    def follow(path: str, depth: int) -> None:
        text = read(path) if depth <= MAX_INCLUDE_DEPTH else None
        for target, includes, line in _naming(text or "", posixpath.dirname(path), home):
            if target in found or target == file or len(found) >= MAX_FILES:
                continue
            found[target] = (path, line)
            if includes:
                follow(target, depth + 1)

    follow(file, 1)
    return tuple((path, naming, line) for path, (naming, line) in found.items())


def _naming(text: str, directory: str, home: str) -> list[tuple[str, bool, int]]:
    out: list[tuple[str, bool, int]] = []
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        header = _SECTION.match(line)
        if header is not None:
            section = header[1].lower()
            line = line[header.end() :]
        variable = _VARIABLE.match(line)
        if variable is None or (section, variable[1].lower()) not in _NAMING:
            continue
        value = _value(variable[2])
        if value.startswith("~/"):
            value = home + value[1:]
        elif not value or value.startswith(("~", "%(")):
            continue
        out.append((posixpath.normpath(posixpath.join(directory, value)), section != "core", number))
    return out


def _value(text: str) -> str:
    """Undo git's quoting: quotes, backslashes, a comment after the value."""
    out: list[str] = []
    quoted = False
    escaped = False
    for char in text:
        if escaped:
            out.append({"n": "\n", "t": "\t", "b": "\b"}.get(char, char))
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            out.append(char)
    return "".join(out).strip()
