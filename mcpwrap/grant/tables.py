"""The shape of a document: which keys stand in which table, and of what type; problems are noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.grant.noun import Grammar, Noun, Table
from mcpwrap.grant.nouns import nouns_of, tables_of
from mcpwrap.grant.problem import did_you_mean
from mcpwrap.grant.render import key_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.grant.position import Path
    from mcpwrap.grant.source import Source

_NOT_IN_PROFILES = ("command", "policy")


def kind_of(value: object) -> str:
    """Return what a TOML value is, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    names: dict[type, str] = {
        str: "a string", int: "a number", float: "a number", list: "an array", dict: "a table"
    }  # fmt: skip
    return names.get(type(value), "a date")


def entries(source: Source, path: Path, table: Mapping[str, object], kind: Table) -> dict[str, object]:
    """Return what may stand in `table` and has the right type; note the rest."""
    valid = nouns_of(kind)
    out: dict[str, object] = {}
    for name, value in table.items():
        place = (*path, name)
        noun = valid.get(name)
        if noun is None:
            _unknown(source, place, value, kind)
        elif source.profile and name in _NOT_IN_PROFILES:
            source.problem(place, f'"{name}" has no place in a profile', key=True)
        elif _fits(source, place, noun, value):
            out[name] = value
    return out


def table_at(source: Source, path: Path, values: Mapping[str, object]) -> Mapping[str, object]:
    """Return the table at the last step of `path`, empty if there is none; note another type."""
    value = values.get(str(path[-1]), {})
    if isinstance(value, dict):
        return value
    name = str(path[-1])
    hint = f"a tool is a table of its own: [tools.{key_text(name)}]"
    source.problem(path, f'"{name}" wants a table, not {kind_of(value)}', hint, key=True)
    return {}


def strings_at(source: Source, path: Path, values: Mapping[str, object]) -> list[tuple[int, str]]:
    """Return the strings of the array at the last step of `path` with their indices; note what is none."""
    out: list[tuple[int, str]] = []
    value = values.get(str(path[-1]))
    for index, item in enumerate(value if isinstance(value, list) else []):
        if not isinstance(item, str):
            source.problem((*path, index), f"a string is wanted here, not {kind_of(item)}")
        elif "\0" in item:
            source.problem((*path, index), "a NUL character is not allowed")
        else:
            out.append((index, item))
    return out


def _unknown(source: Source, place: Path, value: object, kind: Table) -> None:
    name = str(place[-1])
    elsewhere = tables_of(name)
    if kind is Table.TOOL and isinstance(value, dict):
        hint = f'a tool whose name has a dot is quoted: [tools."{place[1]}.{name}"]'
    elif elsewhere:
        hint = f'"{name}" may stand in ' + ", ".join(table.value for table in elsewhere)
    else:
        hint = did_you_mean(name, nouns_of(kind))
    title = f"[tools.{key_text(str(place[1]))}]" if kind is Table.TOOL else kind.value
    source.problem(place, f'unknown key "{name}" in {title}', hint, key=True)


def _fits(source: Source, place: Path, noun: Noun, value: object) -> bool:
    match noun.grammar:
        case Grammar.TABLE | Grammar.VALUES | Grammar.CONDITIONS:
            fits = isinstance(value, dict)
        case Grammar.BOOLEAN:
            fits = isinstance(value, bool)
        case Grammar.VERSION:
            fits = type(value) is int and value == 1
        case Grammar.DIGEST | Grammar.DURATION:
            fits = isinstance(value, str)
        case Grammar.CHOICE:
            return _chosen(source, place, noun, value)
        case _:
            fits = isinstance(value, list)
    if not fits:
        found = str(value) if type(value) is int else kind_of(value)
        source.problem(
            place, f'"{noun.name}" wants {noun.grammar.value}, not {found}', f"as in: {noun.example}"
        )
    return fits


def _chosen(source: Source, place: Path, noun: Noun, value: object) -> bool:
    if not isinstance(value, str) or value not in noun.choices:
        found = f'"{value}"' if isinstance(value, str) else kind_of(value)
        source.problem(place, f'"{noun.name}" cannot be {found}', did_you_mean(str(value), noun.choices))
        return False
    return True
