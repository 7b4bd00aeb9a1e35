"""Lines that are offered: put together, without repeats, and said where they go."""

from __future__ import annotations

import tomllib

import pytest

from mcpwrap.grant.offer import additions, first_file, gathered, merged, place_of
from tests.unit.grant.reading import read


def test_offers_for_one_table_are_merged_and_repeats_dropped() -> None:
    offers = [
        '[tools."a|b"]\nfs_read = ["/x"]',
        '[tools."a|b"]\nfs_read = ["/x", "/y"]',
        '[server]\nexec = ["git"]',
    ]
    assert merged(offers) == '[tools."a|b"]\nfs_read = ["/x", "/y"]\n\n[server]\nexec = ["git"]'


def test_what_another_line_of_the_table_covers_is_dropped() -> None:
    offers = [
        '[tools.a]\nfs_read = ["~/w/x"]',
        '[tools.a]\nfs_write = ["~/w/y", "/z"]',
        '[tools.a]\nfs_write = ["~/w"]',
        '[tools.b]\nfs_read = ["~/w/x", "~/wx"]',
        '[tools.b]\nfs_read = ["~/w"]',
        '[tools.b]\nfs_write = ["~/w/x"]',
    ]
    assert tomllib.loads(merged(offers))["tools"] == {
        "a": {"fs_write": ["/z", "~/w"]},
        "b": {"fs_read": ["~/wx", "~/w"], "fs_write": ["~/w/x"]},
    }


@pytest.mark.parametrize(
    "text", ["", "x", "[tools]", "tools = 1", "[tools]\nt = 1", "[a]\nb = [1]", "a = [" * 9999]
)
def test_what_is_no_offer_offers_nothing(text: str) -> None:
    assert not gathered([text])
    assert additions([(text, "")]) == []


def test_each_place_gets_the_text_that_fits_there() -> None:
    grant = read('[tools.a]\n\nfs_read = ["/r"]\n[server.set]\nX = "1"\n')
    assert place_of(grant.lines, ("tools", "a"), "fs_read") == "fs_read of [tools.a] (line 3)"
    assert place_of(grant.lines, ("tools", "a"), "fs_write") == "[tools.a] (line 1)"
    assert place_of(grant.lines, ("tools", "b"), "fs_read") == ""
    assert place_of(grant.lines, ("server",), "fs_read") == ""
    offers = [
        ('[tools.a]\nfs_read = ["/x"]', "fs_read of [tools.a] (line 3)"),
        ('[tools.a]\nfs_write = ["/y"]', "[tools.a] (line 1)"),
        ('[tools.a]\nfs_read = ["/z"]', "fs_read of [tools.a] (line 3)"),
        ('[tools.b]\nfs_read = ["/x"]', ""),
    ]
    assert additions(offers) == [
        ("fs_read of [tools.a] (line 3)", '"/x", "/z"'),
        ("[tools.a] (line 1)", 'fs_write = ["/y"]'),
        ("", '[tools.b]\nfs_read = ["/x"]'),
    ]


def test_a_first_file_keeps_what_works_without_one() -> None:
    keeps = '[server]\nprofile = ["node"]\nfs_read = ["~/w"]'
    text = first_file(keeps, ['[server]\nfs_read = ["/x"]', '[tools.a]\nfs_write = ["~/w/x"]'])
    assert tomllib.loads(text) == {
        "schema": 1,
        "server": {"profile": ["node"], "fs_read": ["~/w", "/x"]},
        "tools": {"a": {"fs_write": ["~/w/x"]}},
    }
