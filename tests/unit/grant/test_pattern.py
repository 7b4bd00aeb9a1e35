from __future__ import annotations

import re
import time

import pytest

from mcpwrap.grant.pattern import glob_error, glob_regex, header_patterns, header_regex, literal_directory


@pytest.mark.parametrize(
    ("glob", "path", "expected"),
    [
        ("/w/*.db", "/w/a.db", True),
        ("/w/*.db", "/w/.db", True),
        ("/w/*.db", "/w/a.dbx", False),
        ("/w/*.db", "/w/x/a.db", False),
        ("/w/*.db", "/w/a.db/below", True),
        ("/w/a?c", "/w/abc", True),
        ("/w/a?c", "/w/a/c", False),
        ("/w/a?c", "/w/ac", False),
        ("/w/t.db*", "/w/t.db-wal", True),
        ("/w/a*b*c", "/w/axbxbc", True),
        ("/w/a*b*c", "/w/axcb", False),
        ("/w/ab*ba", "/w/aba", False),
        ("/w/ab*ba", "/w/abba", True),
        ("/w/**", "/w", True),
        ("/w/**", "/w/a/b", True),
        ("/w/**", "/wx", False),
        ("/w/**/x", "/w/x", True),
        ("/w/**/x", "/w/a/b/x/c", True),
        ("/w/**/x", "/w/a/xy", False),
        ("**/.git/**", "/w/.git", True),
        ("**/.git/**", "/w/.git/config", True),
        ("**/.git/**", "/w/.gitignore", False),
        ("**/a/*/b", "/a/a/x/b", True),
        ("**/a/**/b/**/c", "/q/a/b/a/x/b/y/c", True),
        ("**/a/**/b/**/c", "/q/b/a/c", False),
        ("/w/[id].tsx", "/w/[id].tsx", True),
        ("/w/[id].*", "/w/i.tsx", False),
        ("/w/*", "/w/new\nline", True),
    ],
)
def test_globs_match_as_documented(glob: str, path: str, expected: bool) -> None:
    assert (re.match(glob_regex(glob), path) is not None) is expected


@pytest.mark.parametrize(
    "glob", ["**/a*a*a*a*a*b/c", "**/a/**/a/**/a/**/b", "/x/*?*?*?*?*?*?*?*y", "**/*a*/**/*a*/**/z"]
)
def test_a_name_chosen_by_the_server_cannot_make_a_match_expensive(glob: str) -> None:
    pattern = re.compile(glob_regex(glob))
    began = time.monotonic()
    for path in ("/" + "a" * 4094, "/a" * 2047, "/x/" + "a" * 4000, "/aa" * 1365):
        assert pattern.match(path) is None
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    ("glob", "directory"),
    [("/a/b/*.x", "/a/b"), ("/a/**/b", "/a"), ("/*", "/"), ("/a/b", "/a/b"), ("**/x", "/")],
)
def test_the_fixed_beginning_of_a_glob_is_a_directory(glob: str, directory: str) -> None:
    assert literal_directory(glob) == directory


def test_two_stars_stand_alone() -> None:
    assert glob_error("/a/**b") is not None
    assert glob_error("/a/***") is not None
    assert glob_error("**/**") is not None
    assert glob_error("**/a") is None


@pytest.mark.parametrize(
    ("header", "name", "expected"),
    [
        ("read_*|list", "read_file", True),
        ("read_*|list", "read_", True),
        ("read_*|list", "list", True),
        ("read_*|list", "lists", False),
        ("read_*|list", "my_read_file", False),
        ("*", "anything at all", True),
        ("*_file", "a_file_b_file", True),
        ("a*b*c", "abcbc", True),
        ("a.b", "axb", False),
        ("get?", "gets", False),
    ],
)
def test_headers_match_whole_names(header: str, name: str, expected: bool) -> None:
    assert (re.fullmatch(header_regex(header_patterns(header)), name) is not None) is expected
