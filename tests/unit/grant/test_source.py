from __future__ import annotations

import contextlib
import time

import pytest

from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.source import MAX_BYTES, decode
from tests.unit.grant.reading import first_problem, read

BOMB_SECONDS = 60.0
"""Of processor time: ten times what the slowest takes on a slow machine (80,000 keys, a hint made for each)."""


def test_a_byte_order_mark_is_not_part_of_the_text() -> None:
    assert decode(b"\xef\xbb\xbfschema = 1", "g") == "schema = 1"


def test_a_byte_that_is_no_utf8_is_shown_where_it_stands() -> None:
    with pytest.raises(BadGrant) as caught:
        decode('schema = 1\nx = "é\xff"'.encode("latin-1").replace(b"\xe9", "é".encode()), "g")
    assert str(caught.value.problems[0].where) == "g:2:7"
    assert "not UTF-8" in caught.value.problems[0].what


def test_a_file_beyond_the_bound_is_refused_unread() -> None:
    with pytest.raises(BadGrant, match="larger than 1024 KiB"):
        decode(b"#" * (MAX_BYTES + 1), "g")
    assert "larger than 1024 KiB" in first_problem("#" * (MAX_BYTES + 1))


def test_a_syntax_error_keeps_the_parsers_place() -> None:
    with pytest.raises(BadGrant) as caught:
        read("schema = 1\n[server]\nexec = [git]\n")
    assert caught.value.problems[0].where.line == 3


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * (MAX_BYTES - 10),
        "a." * 500_000 + "a = 1",
        "a = " + "9" * (MAX_BYTES - 10),
        'a = "' + "x" * (MAX_BYTES - 10),
        'a = """' + '"" ' * 300_000,
        "[a]\n" * 250_000,
        "#\n" * 500_000,
        "\n".join(f"k{number} = 1" for number in range(80_000)),
        "[server]\nfs_read = [" + '"/a",' * 200_000 + "]",
        "[tools.x]\nfs_deny = [" + ",".join(f'"**/{number}/**"' for number in range(500)) + "]\nfs_read = ["
        + ",".join(f'"/srv/{number}"' for number in range(500)) + "]",
    ],
    ids=["arrays", "dots", "digits", "string", "quotes", "tables", "comments", "keys", "rules", "carve-outs"],
)  # fmt: skip
def test_a_hostile_document_costs_bounded_time(text: str) -> None:
    assert len(text) <= MAX_BYTES
    began = time.process_time()
    with contextlib.suppress(BadGrant):
        read(text)
    assert time.process_time() - began < BOMB_SECONDS


def test_what_is_printed_of_a_hostile_document_is_bounded() -> None:
    text = "\n".join(f"{'k' * 1000}{number} = 1" for number in range(900))
    with pytest.raises(BadGrant) as caught:
        read(text)
    assert len(caught.value.diagnostics()) < 10_000
