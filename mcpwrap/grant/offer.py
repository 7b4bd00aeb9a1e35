"""Lines offered to the user: read back from where they were kept, put together, and said where they go."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.paths import below
from mcpwrap.grant.render import array, rules_text, table_header, toml_string

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Tables = dict[tuple[str, ...], dict[str, list[str]]]
"""{("tools", "read_file"): {"fs_read": ["~/x"]}}"""

INDENT: Final = "    "
"""Before each line that is meant to be pasted; TOML does not mind it."""

_COVERS: Final = {"fs_read": ("fs_read", "fs_write"), "fs_write": ("fs_write",)}
"""The nouns that grant, of a directory above, what this one grants."""


def place_of(lines: Mapping[tuple[str, ...], int], table: tuple[str, ...], noun: str) -> str:
    """Return where in a grant file a rule goes: its table or array with the line, "" if it has neither yet.

    `lines` are `Grant.lines`. A table begun twice, or an array given twice, is an error.
    """
    header = table_header(table)
    for key, words in (((*table, noun), f"{noun} of {header}"), (table, header)):
        if key in lines:
            return f"{words} (line {lines[key]})"
    return ""


def gathered(offers: Iterable[str]) -> Tables:
    """Return the rules of all `offers`: each once, and no path that another of the same table covers."""
    found: Tables = {}
    for offer in offers:
        for table, noun, text in _rules(offer):
            known = found.setdefault(table, {}).setdefault(noun, [])
            if text not in known:
                known.append(text)
    return {
        table: {
            noun: [text for text in texts if not _covered(noun, text, nouns)] for noun, texts in nouns.items()
        }
        for table, nouns in found.items()
    }


def merged(offers: Iterable[str]) -> str:
    """Return the TOML of all `offers` as one."""
    return rules_text(gathered(offers))


def first_file(keeps: str, offers: Iterable[str]) -> str:
    """Return a whole grant file: `keeps`, the TOML of what is in force without one, and what `offers` add."""
    return f"schema = 1\n\n{merged([keeps, *offers])}"


def additions(offers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return (place, text to paste there) for pairs (offer, place), one for each place.

    Text without a place has its headers; text for a table is its lines, for an array its strings.
    """
    offers = tuple(offers)
    places = {(table, noun): place for offer, place in offers for table, noun, _ in _rules(offer)}
    found: dict[str, Tables] = {}
    for table, nouns in gathered(offer for offer, _ in offers).items():
        for noun, texts in nouns.items():
            if texts:
                found.setdefault(places[table, noun], {}).setdefault(table, {})[noun] = texts
    return [(place, _text(place, tables)) for place, tables in found.items()]


def added_before(offers: Iterable[str], offer: str) -> str:
    """Return where `offer` goes in a file that has had `offers` added: as `place_of`, but without a line."""
    there = gathered(offers)
    table, noun, _ = next(_rules(offer), ((), "", ""))
    if table not in there:
        return ""
    return f"{noun} of {table_header(table)}" if noun in there[table] else table_header(table)


def indented(text: str, by: str = INDENT) -> list[str]:
    return [by + line for line in text.splitlines()]


def _text(place: str, tables: Tables) -> str:
    if not place:
        return rules_text(tables)
    nouns = next(iter(tables.values()))
    if place.startswith("["):
        return "\n".join(f"{noun} = {array(texts)}" for noun, texts in nouns.items())
    return ", ".join(toml_string(text) for texts in nouns.values() for text in texts)


def _rules(offer: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield (table, noun, text); nothing of what is no offer: an audit may be damaged, or edited."""
    try:
        document = tomllib.loads(offer)
    except (ValueError, RecursionError):
        return
    tools = document.pop("tools", {})
    tables: dict[tuple[str, ...], object] = {(name,): content for name, content in document.items()}
    if isinstance(tools, dict):
        tables |= {("tools", name): content for name, content in tools.items()}
    for table, nouns in tables.items():
        for noun, texts in nouns.items() if isinstance(nouns, dict) else ():
            for text in texts if isinstance(texts, list) else ():
                if isinstance(text, str):
                    yield table, noun, text


def _covered(noun: str, text: str, nouns: Mapping[str, list[str]]) -> bool:
    return any(
        below(text, other) and (other, by) != (text, noun)
        for by in _COVERS.get(noun, ())
        for other in nouns.get(by, ())
    )
