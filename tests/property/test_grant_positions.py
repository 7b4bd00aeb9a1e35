"""The position finder against tomllib: the text it points at is the value tomllib read."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.grant.position import Positions, TooDeep

if TYPE_CHECKING:
    from mcpwrap.grant.position import Path

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\r")
BARE = st.text("abcXYZ019_-", min_size=1, max_size=4)
SPACE = st.sampled_from(["", " ", "\t", "  "])
BREAK = st.sampled_from(["", " ", "\n", " # ]}\" '''\n", "\r\n\t"])
SCALARS = st.sampled_from(["1", "-1.5e3", "true", "1979-05-27T07:32:00Z", "0x1F", "inf"])


def escaped(text: str) -> str:
    return "".join(
        f"\\U{ord(char):08X}" if char in '"\\' or not char.isprintable() else char for char in text
    )


BASIC = st.text(CHARACTERS, max_size=6).map(lambda text: f'"{escaped(text)}"')
LITERAL = st.text('ab#[]{}=,."\\ ', max_size=6).map(lambda text: f"'{text}'")
LONG_BASIC = st.text("ab#[]{}=,'\n ", max_size=8).map(lambda text: f'"""{text}"""')
LONG_QUOTES = st.sampled_from(
    ['""""a"""', '"""a""""', '"""a"""""', "''''a''''", "'''\n'\"'''", '"""a\\"""""']
)
STRINGS = st.one_of(BASIC, LITERAL, LONG_BASIC, LONG_QUOTES)
KEYS = st.one_of(BARE, BASIC, LITERAL)


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(values, max_size=4))
    body = ",".join(draw(BREAK) + item + draw(BREAK) for item in items)
    comma = draw(st.sampled_from(["", ","])) if items else ""
    return "[" + body + comma + draw(BREAK) + "]"


@st.composite
def inline_tables(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    pairs = draw(st.lists(st.tuples(KEYS, values), max_size=3))
    return (
        "{" + ",".join(f"{draw(SPACE)}{key}{draw(SPACE)}={draw(SPACE)}{value}" for key, value in pairs) + " }"
    )


VALUES = st.recursive(
    st.one_of(SCALARS, STRINGS), lambda values: st.one_of(arrays(values), inline_tables(values)), max_leaves=8
)


@st.composite
def documents(draw: st.DrawFn) -> str:
    out = []
    for _ in range(draw(st.integers(0, 8))):
        keys = (draw(SPACE) + "." + draw(SPACE)).join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        kind = draw(st.integers(0, 5))
        if kind == 0:
            line = f"[{draw(SPACE)}{keys}{draw(SPACE)}]"
        elif kind == 1:
            line = f"[[{keys}]]"
        else:
            line = f"{keys}{draw(SPACE)}={draw(SPACE)}{draw(VALUES)}"
        comment = draw(st.sampled_from(["", " ", " # x = [1]\" '"]))
        out.append(draw(SPACE) + line + comment + draw(st.sampled_from(["\n", "\r\n"])))
    return "".join(out)


def leaves(value: Any, path: Path = ()) -> list[tuple[Path, Any]]:
    """Return all values by path, containers too."""
    inside: list[tuple[Path, Any]] = [(path, value)]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        inside += leaves(item, (*path, key))
    return inside


@given(documents())
def test_every_value_tomllib_reads_is_found_where_it_stands(text: str) -> None:
    try:
        parsed = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        Positions(text)
        return
    found = Positions(text)
    assert found.twice == []
    for path, value in leaves(parsed):
        if path in found.values:
            start, end = found.values[path]
            again = tomllib.loads("x = " + text[start:end])["x"]
            assert repr(again) == repr(value), path
        elif not isinstance(value, dict | list):
            raise AssertionError(f"{path} was not found")
        if path and isinstance(path[-1], str):
            start, end = found.keys[path]
            assert tomllib.loads(f"{text[start:end]} = 1") == {path[-1]: 1}


@given(st.text("[]{}=.,#\"'\\ab1 \n\r", max_size=60))
def test_no_text_makes_the_finder_fail_and_tomllib_takes_none_it_gave_up_on(text: str) -> None:
    try:
        found = Positions(text)
        parsed = tomllib.loads(text)
    except (TooDeep, tomllib.TOMLDecodeError):
        return
    for path, value in leaves(parsed):
        assert path in found.values or isinstance(value, dict | list), path
