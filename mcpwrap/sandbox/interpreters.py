"""Command lines of known interpreters: which word is the script they run.

Wrong answers here are safe: a script that is not recognised is only not part of the installation,
so the server must be granted it like any other file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Interpreter(NamedTuple):
    """One family: options that take the next word, and those after which no script follows."""

    family: str
    takes_value: frozenset[str]
    no_script: frozenset[str] = frozenset()
    subcommand: str = ""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INTERPRETERS: Final = (
    (
        re.compile(r"node(js)?(\d+)?"),
        Interpreter(
            "node",
            _words("-r --require --import --loader --experimental-loader -C --conditions --env-file"),
            _words("-e --eval -p --print -i --interactive"),
        ),
    ),
    # Python's short options may share a word (`-uIm NAME`): see `_python_cluster`.
    (re.compile(r"(python|pypy)[\d.]*t?"), Interpreter("python", _words("--check-hash-based-pycs"))),
    (
        re.compile(r"(ba|da|z|k|a)?sh"),
        Interpreter("sh", _words("-o +o -O +O --rcfile --init-file"), _words("-c")),
    ),
    (re.compile(r"bun"), Interpreter("bun", _words("-c --config --preload -r"), subcommand="run")),
    (
        re.compile(r"deno"),
        Interpreter("deno", _words("-c --config --import-map --preload"), subcommand="run"),
    ),
    (re.compile(r"(ruby|perl)[\d.]*"), Interpreter("perl", _words("-I"), _words("-e -E"))),
)


def interpreter(path: str) -> Interpreter | None:
    """Return the family of the interpreter at `path`, by its name alone; None if it is not known."""
    name = os.path.basename(path)
    return next((grammar for pattern, grammar in INTERPRETERS if pattern.fullmatch(name)), None)


def family(path: str) -> str:
    """Return `node`, `python`, `sh`, ... or nothing."""
    grammar = interpreter(path)
    return grammar.family if grammar else ""


def script_argument(words: Sequence[str], grammar: Interpreter) -> tuple[str, str, int]:
    """Return (script, module, number of words up to and including it) of an interpreter's arguments."""
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word == "--":
            return (words[index], "", index + 1) if index < len(words) else ("", "", index)
        if word == "-" or word in grammar.no_script:
            return "", "", index
        if word == grammar.subcommand or word in grammar.takes_value:
            index += word in grammar.takes_value
        elif grammar.family == "python" and word[:1] == "-" and word[1:2] != "-":
            letter, value = _python_cluster(word)
            if letter and not value:
                value = words[index] if index < len(words) else ""
                index += 1
            if letter in ("m", "c"):
                return "", value if letter == "m" else "", index
        elif word[:1] not in ("-", "+"):
            return word, "", index
    return "", "", index


def _python_cluster(word: str) -> tuple[str, str]:
    """Return the letter in `-uIm` that takes a value, and what of it is in the same word."""
    for index, letter in enumerate(word[1:], 2):
        if letter in "cmWX":
            return letter, word[index:]
    return "", ""
