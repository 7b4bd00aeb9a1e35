"""Profiles: shipped grants that are merged table into table, each once, what they include first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.grant.document import Document, read
from mcpwrap.grant.grant import joined
from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcpwrap.grant.paths import Variables

BASE = "base"
"""The profile every grant has: what any runtime does."""


class Profile(NamedTuple):
    name: str
    text: str
    document: Document


def collect(names: Iterable[str], variables: Variables, load: Callable[[str], str]) -> tuple[Profile, ...]:
    """Return `base`, the named profiles and all they include, in the order they are merged.

    Raises BadGrant for a profile that is wrong in itself (a fault of the installation).
    """
    done: dict[str, Profile] = {}

    def add(name: str, inside: tuple[str, ...]) -> None:
        if name in done or name in inside:
            return
        text = load(name)
        source = Source(text, f"profile {name}", name)
        document = read(source, variables)
        if source.problems:
            raise BadGrant(source.problems)
        for included in document.profiles:
            add(included, (*inside, name))
        done[name] = Profile(name, text, document)

    for name in (BASE, *names):
        add(name, ())
    return tuple(done.values())


def merge(documents: Sequence[Document]) -> Document:
    """Return one document: rules add up in order; the last one's `command` and `policy` stand."""
    last = documents[-1]
    merged = Document()
    merged.command = last.command
    merged.profiles = last.profiles
    merged.env = tuple(dict.fromkeys(name for document in documents for name in document.env))
    merged.set = {name: value for document in documents for name, value in document.set.items()}
    merged.server = joined(document.server for document in documents)
    merged.quiet = joined(document.quiet for document in documents)
    merged.startup = joined(document.startup for document in documents)
    merged.resources = joined(document.resources for document in documents)
    merged.prompts = joined(document.prompts for document in documents)
    merged.within = last.within
    merged.overlap = last.overlap
    merged.on_denial = last.on_denial
    merged.unknown_tools = last.unknown_tools
    merged.window_limit = last.window_limit
    merged.sni = last.sni
    merged.nested_sandbox = any(document.nested_sandbox for document in documents)
    merged.install_write = next((each.install_write for each in documents if each.install_write), "")
    merged.tools = tuple(tool for document in documents for tool in document.tools)
    return merged
