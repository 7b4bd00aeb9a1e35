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
    RESOURCES = "[resources]"
    PROMPTS = "[prompts]"


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
    HOSTS = "an array of hosts"
    SOCKETS = "an array of socket paths"
    PORTS = "an array of ports"
    CONDITIONS = "a table of conditions"
    DIGEST = "a digest"
    DURATION = "a duration"


class Noun(NamedTuple):
    """One word of the file. `example` is a whole valid line, or header."""

    name: str
    grammar: Grammar
    tables: tuple[Table, ...]
    help: str
    example: str
    choices: tuple[str, ...] = ()
