"""Paths that the command itself names: in its own arguments, and in values of its environment.

A server whose client config says `server-filesystem ~/work` was given that directory by the user. Which of
them may be bound unasked is judged elsewhere (`grant.named`); here they are only found.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

WORDS: Final = 256
"""Words of a command line looked at; a longer one is not written by a person."""


def named_paths(words: Iterable[str], cwd: str) -> tuple[str, ...]:
    """Return what exists of the paths that `words` name, absolute and normalized, in order, each once.

    `/p`, `./p`, `p`, `--option=/p`, `NAME=/p`, `file:///p` and lists `/p:/q` or `/p,/q` are understood.
    """
    candidates = (text for word in list(words)[:WORDS] for text in _candidates(word))
    return tuple(dict.fromkeys(filter(None, (_existing(text, cwd) for text in candidates))))


def _candidates(word: str) -> list[str]:
    value = word.partition("=")[2] if word.startswith("-") or "=/" in word else word
    if not value or value.startswith("-"):
        return []
    if value.startswith("file://"):
        from urllib.parse import unquote  # here only: 5 ms of start-up

        return [unquote(value.removeprefix("file://").removeprefix("localhost"), errors="surrogateescape")]
    if value.startswith("/") and (":/" in value or ",/" in value):
        return [value, *value.replace(",/", ":/").split(":")]
    return [value]


def _existing(text: str, cwd: str) -> str:
    written = os.path.join(cwd, text)
    path = os.path.normpath(written)
    try:
        if os.path.realpath(path) != os.path.realpath(written):
            # `link/..` is not where normpath takes it.
            path = os.path.realpath(written)
        os.stat(path)
    except (OSError, ValueError):
        return ""
    return path
