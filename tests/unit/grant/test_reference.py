from __future__ import annotations

from pathlib import Path

import pytest

from mcpwrap.grant.noun import Grammar, Noun, Table
from mcpwrap.grant.nouns import NOUNS
from mcpwrap.grant.reference import reference
from tests.unit.grant.reading import problems

DOCUMENT = Path(__file__).parents[3] / "docs" / "grants.md"
HEADERS = {
    Table.FILE: "",
    Table.SERVER: "[server]\n",
    Table.QUIET: "[server.quiet]\n",
    Table.STARTUP: "[startup]\n",
    Table.POLICY: "[policy]\n",
    Table.TOOL: "[tools.x]\n",
    Table.RESOURCES: "[resources]\n",
    Table.PROMPTS: "[prompts]\n",
}
HELD = [(noun, table) for noun in NOUNS for table in noun.tables]


def test_the_document_is_what_the_table_of_nouns_says() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == reference(), (
        "python -m mcpwrap.grant.reference > docs/grants.md"
    )


def test_the_introductions_example_is_a_right_grant() -> None:
    assert problems(reference().partition("```toml\n")[2].partition("```")[0]) == []


@pytest.mark.parametrize(("noun", "table"), HELD, ids=[f"{noun.name}-{table.name}" for noun, table in HELD])
def test_every_example_is_right_in_every_table_it_may_stand_in(noun: Noun, table: Table) -> None:
    header = "" if noun.grammar is Grammar.TABLE else HEADERS[table]
    assert problems(header + noun.example + "\n") == []


def test_every_noun_is_named_in_the_document() -> None:
    text = reference()
    for noun in NOUNS:
        assert f"`{noun.name}`" in text or noun.example in text
