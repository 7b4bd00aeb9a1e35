from __future__ import annotations

import pytest

from mcpwrap.grant.position import MAX_DEPTH, MAX_KEY_PARTS, Positions, TooDeep

TEXT = '''\
# a comment with [brackets] and = "strings"
schema=1
[ server . set ]
"A B" = """
three
lines"""   # after
'C#' = 'x]"'
[tools."a.b|\\"c\\""]
fs_read = [ # comment, with ]
  "/a#", '/b',
\t"""/c""", [ "/d", { e = "/f" } ],
]
args.sql.pattern = 'q' # later
'''


def test_keys_and_values_are_found_through_comments_strings_and_nesting() -> None:
    found = Positions(TEXT)

    def value(*path: str | int) -> str:
        start, end = found.values[path]
        return TEXT[start:end]

    assert value("schema") == "1"
    assert value("server", "set", "A B") == '"""\nthree\nlines"""'
    assert value("server", "set", "C#") == "'x]\"'"
    tool = ("tools", 'a.b|"c"')
    assert [value(*tool, "fs_read", index) for index in range(3)] == ['"/a#"', "'/b'", '"""/c"""']
    assert value(*tool, "fs_read", 3, 0) == '"/d"'
    assert value(*tool, "fs_read", 3, 1, "e") == '"/f"'
    assert value(*tool, "args", "sql", "pattern") == "'q'"
    assert TEXT[slice(*found.keys["server", "set"])] == "set"
    assert TEXT[slice(*found.keys[tool])] == '"a.b|\\"c\\""'


def test_lines_and_columns_count_from_one_and_in_characters() -> None:
    text = 'a = 1\r\n[t]\r\n  "é" = ["ü", "x"]'
    found = Positions(text)
    assert found.place(found.values["a",][0]) == (1, 5)
    assert found.place(found.keys["t", "é"][0]) == (3, 3)
    assert found.place(found.values["t", "é", 1][0]) == (3, 15)
    assert found.line(2) == "[t]"


def test_what_is_defined_twice_is_found_with_both_places() -> None:
    text = "[a]\nx = 1\n[b]\n[a]\ny = 1\ny = 2\n"
    found = Positions(text)
    twice = [(path, found.place(again)[0], found.place(first)[0]) for path, again, _, first in found.twice]
    assert twice == [(("a",), 4, 1), (("a", "y"), 6, 5)]


def test_tables_of_an_array_are_told_apart() -> None:
    text = "[[x]]\na = 1\n[[x]]\na = 2\n"
    found = Positions(text)
    assert text[slice(*found.values["x", 1, "a"])] == "2"
    assert found.twice == []


@pytest.mark.parametrize(
    "text", ["a = ", "a", "[a", "a = [1", "a = {b = 1", 'a = "x', "= 1", "a = [1 2]", '"\\z" = 1']
)
def test_what_is_no_toml_ends_the_scan_without_a_fault(text: str) -> None:
    Positions(text)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        "a = " + "{a=" * 100_000,
        "a." * 100_000 + "a = 1",
        "[" + "a." * 100_000 + "a]",
        "a = {" + "a." * 100_000 + "a = 1}",
    ],
)
def test_depth_is_bounded_before_anything_recurses(text: str) -> None:
    with pytest.raises(TooDeep):
        Positions(text)


def test_the_bounds_themselves_are_taken() -> None:
    Positions("a = " + "[" * MAX_DEPTH + "]" * MAX_DEPTH)
    Positions(".".join(["a"] * MAX_KEY_PARTS) + " = 1")


def test_the_nearest_holder_stands_in_for_what_has_no_place() -> None:
    text = "a = {b = 1}"
    found = Positions(text)
    assert text[slice(*found.span(("a", "c", "d")))] == "{b = 1}"
    assert text[slice(*found.span(("a", "c"), key=True))] == "a"
    assert found.span(("nowhere",)) == (0, 0)
