"""Globs and headers against a matcher too simple to be wrong."""

from __future__ import annotations

import re
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.grant.pattern import glob_error, glob_regex, header_regex, literal_directory


@cache
def text_matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return text_matches(pattern[1:], text) or (bool(text) and text_matches(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and text_matches(pattern[1:], text[1:])


@cache
def components_match(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether the pattern matches the path or a directory above it."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return components_match(pattern[1:], path) or (bool(path) and components_match(pattern, path[1:]))
    return bool(path) and text_matches(pattern[0], path[0]) and components_match(pattern[1:], path[1:])


COMPONENT = st.text("ab*?.[", min_size=1, max_size=5).filter(lambda text: "**" not in text)
PATTERN = st.lists(st.one_of(st.just("**"), COMPONENT), min_size=1, max_size=6)
PATH = st.lists(st.text("ab.[\n", min_size=1, max_size=5), min_size=1, max_size=7)


@given(PATTERN, PATH)
def test_globs_match_what_a_simple_matcher_matches(pattern: list[str], path: list[str]) -> None:
    text = "/".join(pattern)
    glob = text if pattern[0] == "**" else "/" + text
    if glob_error(glob) is not None:
        return
    expected = components_match(tuple(pattern), tuple(path))
    assert (re.match(glob_regex(glob), "/" + "/".join(path)) is not None) is expected


@given(PATTERN, PATH)
def test_all_matches_lie_in_the_fixed_beginning(pattern: list[str], path: list[str]) -> None:
    glob, text = "/" + "/".join(pattern), "/" + "/".join(path)
    base = literal_directory(glob)
    if glob_error(glob) is None and re.match(glob_regex(glob), text):
        assert base == "/" or text == base or text.startswith(base + "/")


@given(st.text("ab*._", min_size=1, max_size=8), st.text("ab._\n", max_size=8))
def test_headers_match_what_a_simple_matcher_matches(pattern: str, name: str) -> None:
    simple = re.sub(r"\*+", "*", pattern)
    assert (re.fullmatch(header_regex((pattern,)), name) is not None) is text_matches(simple, name)
