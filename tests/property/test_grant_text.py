"""Nothing but BadGrant escapes the parser, and nothing escapes a string that is rendered."""

from __future__ import annotations

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap import profiles
from mcpwrap.grant.nouns import NOUNS
from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import UNSAFE, Variables
from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.render import key_text, path_text, printable, rules_text, toml_string

VARIABLES = Variables("/home/u", "", "/srv/w", "/tmp", "/home/u/s", "/home/u/c", {"A": "/a", "E": ""})
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SURROGATES = st.text(st.characters(), max_size=300)
NAMES = st.sampled_from([noun.name for noun in NOUNS])
RULES = st.one_of(
    TEXT,
    st.text("~/$*?.abAE[] {}", max_size=12),
    st.builds(
        "$arg:{}{} in {}".format, TEXT, st.sampled_from(["", "/x", "[]", ".a"]), st.text("~/ab*.", max_size=6)
    ),
)
VALUES = st.one_of(
    RULES.map(toml_string),
    st.lists(RULES, max_size=4).map(lambda texts: "[" + ", ".join(map(toml_string, texts)) + "]"),
    st.sampled_from(["1", "true", "[]", "{}", "[1, [2]]", "{ a = 1 }", "1979-05-27"]),
)
TABLES = st.one_of(
    st.sampled_from(
        [
            "server",
            "server.quiet",
            "server.set",
            "startup",
            "policy",
            "tools.a",
            'tools."*"',
            "resources",
            "prompts",
        ]
    ),
    TEXT.map(lambda text: f"tools.{toml_string(text)}"),
)


def refusal(text: str) -> BadGrant | None:
    try:
        parse(text, "grant.toml", VARIABLES, profiles.text, is_directory=bool, read_text=lambda _: None)
    except BadGrant as error:
        return error
    return None


def read(text: str) -> None:
    """Read `text`; what is wrong must be told inside the file and without characters that deceive."""
    error = refusal(text)
    if error is not None:
        lines = text.split("\n")
        for problem in error.problems:
            assert 1 <= problem.where.line <= len(lines)
            assert 1 <= problem.where.column <= len(lines[problem.where.line - 1]) + 1
        assert not UNSAFE.search(error.diagnostics().replace("\n", ""))


@given(st.lists(st.tuples(TABLES, st.lists(st.tuples(NAMES, VALUES), max_size=4)), max_size=4))
def test_documents_of_right_words_are_taken_or_refused_with_places(
    tables: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    read(
        "\n".join(
            f"[{table}]\n" + "\n".join(f"{key} = {value}" for key, value in pairs) for table, pairs in tables
        )
    )


@given(st.text(max_size=200))
def test_any_text_is_taken_or_refused(text: str) -> None:
    read(text.encode("utf-8", "replace").decode())


@given(TEXT)
def test_a_rendered_string_reads_back_and_holds_no_character_that_deceives(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}\nb = 1") == {"a": text, "b": 1}
    assert tomllib.loads(f"{key_text(text)} = 1") == {text: 1}
    assert not UNSAFE.search(toml_string(text))


@given(SURROGATES)
def test_what_is_printed_can_be_printed(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert len(shown) <= 200
    assert not UNSAFE.search(shown)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12), min_size=1, max_size=5
    )
)
def test_an_offered_path_is_exactly_that_path_when_pasted(components: list[str]) -> None:
    if any(component in (".", "..") for component in components):
        return
    path = "/home/u/" + "/".join(components)
    text = path_text(path, VARIABLES.home)
    if text is not None:
        pasted = rules_text({("tools", "a.b"): {"fs_read": [text]}})
        grant = parse(pasted, "g", VARIABLES, profiles.text)
        assert [rule.path for rule in grant.tools[0].block.paths] == [path]
