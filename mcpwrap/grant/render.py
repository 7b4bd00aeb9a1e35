"""Rules as TOML and names as text, safe to print and to paste whatever a file is called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpwrap.grant.paths import UNSAFE, below
from mcpwrap.grant.pattern import is_glob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

MAX_PRINTED = 200
"""Characters of a name that are printed. Linux allows 4,095 bytes; a message has to stay readable."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_UNPRINTABLE = re.compile(UNSAFE.pattern + "|[\ud800-\udfff]")


def printable(text: str, limit: int = MAX_PRINTED) -> str:
    """Return `text` with control, bidi and undecodable characters as `?`, cut in its middle to `limit`."""
    if len(text) > limit:
        text = text[: limit // 2 - 1] + "…" + text[-(limit - limit // 2) :]
    return _UNPRINTABLE.sub("?", text)


def toml_string(text: str) -> str:
    """Return `text` as a basic string of TOML. Every string tomllib can hold reads back as it was."""
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", out) + '"'


def key_text(text: str) -> str:
    """Return a key, quoted if it must be."""
    return text if _BARE_KEY.fullmatch(text) else toml_string(text)


def path_text(path: str, home: str = "") -> str | None:
    """Return the text of a rule that names exactly this absolute path, with `~` for `home`.

    None if no rule can be offered: the name has characters a rule may not have, a wildcard, or is
    longer than what is printed.
    """
    if len(path) > MAX_PRINTED or _UNPRINTABLE.search(path) or is_glob(path):
        return None
    text = path.replace("$", "$$")
    if home and path != home and below(path, home):
        text = "~" + path[len(home) :].replace("$", "$$")
    return text


def array(texts: Iterable[str]) -> str:
    return "[" + ", ".join(toml_string(text) for text in texts) + "]"


def table_header(table: str | Sequence[str]) -> str:
    """Return the header of `server`, `startup`, or of `("tools", NAME)`."""
    steps = [table] if isinstance(table, str) else table
    return "[" + ".".join(key_text(step) for step in steps) + "]"


def rules_text(tables: Mapping[tuple[str, ...], Mapping[str, Sequence[str]]]) -> str:
    """Return TOML that grants `tables`: {("tools", "read_file"): {"fs_read": ["~/x"]}}.

    Empty nouns and tables are left out; the text is a whole grant file, without a trailing newline.
    """
    parts: list[str] = []
    for table, nouns in tables.items():
        lines = [f"{noun} = {array(texts)}" for noun, texts in nouns.items() if texts]
        if lines:
            parts.append("\n".join([table_header(table), *lines]))
    return "\n\n".join(parts)
