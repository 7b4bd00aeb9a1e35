from __future__ import annotations

import tomllib

import pytest

from mcpwrap.grant.render import path_text, printable, rules_text, table_header, toml_string
from tests.unit.grant.reading import VARIABLES, read

HOSTILE = 'x"]\nexec = ["sh"]\u202e\x1b[31m\\'


def test_a_hostile_name_stays_one_string_of_toml() -> None:
    assert tomllib.loads(f"a = {toml_string(HOSTILE)}") == {"a": HOSTILE}
    assert "\n" not in toml_string(HOSTILE)
    assert "\u202e" not in toml_string(HOSTILE)


def test_what_is_printed_has_no_control_and_no_bidi_characters_and_is_short() -> None:
    shown = printable(HOSTILE * 100 + "\udcff\x85\u2028")
    assert len(shown) <= 200
    assert not set(shown) & set("\n\x1b\u202e\udcff\x85\u2028")


@pytest.mark.parametrize(("limit", "length"), [(200, 500), (60, 61), (61, 1000), (10, 10)])
def test_what_is_too_long_is_cut_in_its_middle(limit: int, length: int) -> None:
    text = "a" + "-" * (length - 2) + "z"
    shown = printable(text, limit)
    assert len(shown) == limit
    assert (shown[0], shown[-1]) == ("a", "z")
    assert ("…" in shown) is (length > limit)


@pytest.mark.parametrize(
    "path", ["/home/u/w/a b", "/srv/pri$ce", '/srv/"q"', "/home/u/$HOME", "/home/u/~x", "/home/uu"]
)
def test_the_text_of_a_path_reads_back_as_that_path(path: str) -> None:
    text = path_text(path, "/home/u")
    assert text is not None
    grant = read(rules_text({("server",): {"fs_read": [text]}}))
    assert grant.server.paths[0].path == path
    assert (text.startswith("~/")) is path.startswith("/home/u/")


@pytest.mark.parametrize(
    "path", ["/srv/a\nb", "/srv/\u202ex", "/srv/\udcff", "/srv/a*b", "/srv/what?", "/" + "a" * 200]
)
def test_a_path_no_rule_can_name_exactly_is_not_offered(path: str) -> None:
    assert path_text(path, VARIABLES.home) is None


def test_rules_are_rendered_as_a_file_that_reads_back() -> None:
    text = rules_text(
        {
            ("server",): {"fs_read": ["~/a"], "exec": []},
            ("startup",): {"exec": []},
            ("tools", 'odd "name"'): {"fs_write": ["~/b", "~/c"], "exec": ["git"]},
        }
    )
    assert text == (
        '[server]\nfs_read = ["~/a"]\n\n[tools."odd \\"name\\""]\nfs_write = ["~/b", "~/c"]\nexec = ["git"]'
    )
    assert read(text).tools[0].patterns == ('odd "name"',)


def test_headers_are_quoted_where_they_must_be() -> None:
    assert table_header("server") == "[server]"
    assert table_header(("tools", "read_file")) == "[tools.read_file]"
    assert table_header(("tools", "a.b|c*")) == '[tools."a.b|c*"]'
    assert table_header(("tools", "")) == '[tools.""]'
