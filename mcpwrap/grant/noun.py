"""The words of a grant file: which tables there are, what a noun is."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Table(StrEnum):
    """The tables of a grant file, as messages name them."""

    FILE = "the file's top level"
    SERVER = "[server]"
    QUIET = "[server.quiet]"
    STARTUP = "[startup]"
    POLICY = "[policy]"
    TOOL = "[tools.…]"


class Grammar(StrEnum):
    """What a noun's value looks like, as messages name it."""

    TABLE = "a table"
    VERSION = "the number 1"
    PATHS = "an array of paths"
    EXECS = "an array of programs"
    ROOTS = "an array of directories"
    WORDS = "an array of words"
    NAMES = "an array of variable names"
    PROFILES = "an array of profile names"
    VALUES = "a table of strings"
    BOOLEAN = "true or false"
    CHOICE = "one of its words"
    LATER = "not read yet"


class Noun(NamedTuple):
    """One word of the file. `way` is empty if it is held, else what to do instead in this release.

    `example` is a whole valid line (or header) where the noun is held.
    """

    name: str
    grammar: Grammar
    tables: tuple[Table, ...]
    help: str
    example: str = ""
    choices: tuple[str, ...] = ()
    way: str = ""

    @property
    def held(self) -> bool:
        return not self.way
