"""Peeking at one line: what is certain, what is not; and cutting out long strings."""

from __future__ import annotations

import json

import pytest

from mcpwrap.protocol.framing import Lines, stray_cr
from mcpwrap.protocol.glance import calls_outline, outline
from mcpwrap.protocol.jsonrpc import (
    ENVELOPE,
    Reader,
    Unreadable,
    as_number,
    deeper_than,
    scan_ids,
    usable_id,
)


@pytest.mark.parametrize("value", [0, -1, 2**53 - 1, "", "7", "é", "\U0001f600"])
def test_an_exact_integer_or_whole_text_is_a_usable_id(value: object) -> None:
    assert usable_id(value)


@pytest.mark.parametrize("value", [None, True, 1.0, 2**53, -(2**53), "\ud800", [], {}])
def test_anything_else_is_none(value: object) -> None:
    assert not usable_id(value)


def test_duplicate_keys_are_remembered_with_the_object_they_are_in() -> None:
    reading = Reader().read(b'{"a":{"x":1,"x":2},"b":{}}')
    assert reading.is_twice(reading.value["a"])
    assert not reading.is_twice(reading.value)
    assert list(reading.pairs(reading.value["a"])) == [("x", 1), ("x", 2)]


def test_a_reader_forgets_the_line_before() -> None:
    reader = Reader()
    first = reader.read(b'{"x":1,"x":2}')
    assert not reader.read(b'{"x":1}').twice
    assert first.twice


@pytest.mark.parametrize(
    ("text", "deep"), [(b"{", False), (b"", False), (b"{} {}", False), (b"[" * 99_999, True)]
)
def test_what_cannot_be_parsed_says_whether_it_is_merely_deep(text: bytes, deep: bool) -> None:
    with pytest.raises(Unreadable) as caught:
        Reader().read(text)
    assert caught.value.deep is deep


def test_bytes_that_are_no_utf_8_are_read_as_a_lenient_peer_would() -> None:
    reading = Reader().read(b'{"id":1,"x":"\xff"}')
    assert not reading.exact
    assert reading.value == {"id": 1, "x": "\ufffd"}


@pytest.mark.parametrize("key", ["ID", "Id", "METHOD", "param\u017f", "Re\u017fult"])
def test_a_key_that_folds_to_a_known_one_is_odd(key: str) -> None:
    assert ENVELOPE.odd(["id", key]) == key


@pytest.mark.parametrize(
    "text",
    ["7", " 7 ", "\n7\t", "\ufeff7", "\u20287", "\x1f7", "+7", "007", "7.", "7.0", "7e0", "70e-1", ".7e1", "0x7", "0O7",
     "0b111", "0_7", "\uff17", "\u0667", "7." + "0" * 5_000, "0" * 5_000 + "7"],
)  # fmt: skip
def test_a_text_some_client_reads_as_a_number_is_that_number(text: str) -> None:
    assert as_number(text) == 7


@pytest.mark.parametrize(
    "text", ["a", "7a", "7.5", "--7", "nan", "inf", "1e400", "0x", "9007199254740992", "req-7"]
)
def test_any_other_text_is_no_number(text: str) -> None:
    assert as_number(text) is None


def test_an_empty_text_is_zero_to_javascript() -> None:
    assert as_number("") == as_number(" ") == 0
    assert as_number("-7") == -7


def test_ids_are_found_in_what_cannot_be_parsed() -> None:
    assert scan_ids(b'{"id":7e0,"x":{"id":70E-1},"id":8.0,"id":9.5,"id":1e400,"id":') == [7, 7, 8]
    assert scan_ids(b'{"id" : 7,"x":{"ID":"a\\"b"},"id":1.5,"id":') == [7, 'a"b']


def test_depth_counts_containers_of_both_kinds() -> None:
    assert not deeper_than(3, {"a": [{}]})
    assert deeper_than(2, {"a": [{}]})
    assert not deeper_than(1, {"a": 1})


@pytest.mark.parametrize(
    ("line", "stray"),
    [
        (b"a\r\n", False),
        (b"a\r\r\n", True),
        (b"\ra\n", True),
        (b"a\rb\n", True),
        (b"a\n", False),
        (b"\r\n", False),
        (b"\r", True),
    ],
)
def test_a_cr_is_stray_unless_lf_follows(line: bytes, stray: bool) -> None:
    assert stray_cr(line) is stray


def test_a_long_value_is_cut_and_a_long_key_is_not() -> None:
    long = "x" * 2_000
    line = json.dumps({"id": 1, "a": long, long: [long], "b": "\\" * 10 + '"' + long}).encode()
    short = outline(line)
    assert short is not None
    assert json.loads(short) == {"id": 1, "a": "", long: [""], "b": ""}


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b'{"a":"' + b"x" * 5_000,
        b'{"a":"' + b"\\" * 5_000 + b'"}',
        b'{"a":"' + b'\\"' * 5_000 + b'"}',
        json.dumps([{"n": "v"}] * 1_000).encode(),
    ],
)
def test_no_outline_is_made_where_it_does_not_pay_or_is_not_certain(line: bytes) -> None:
    assert outline(line) is None


LONG = b"x" * 70_000


def test_long_strings_of_a_call_are_stood_in_for_and_counted() -> None:
    line = b'{"a":"' + LONG + b'","b":["\\n' + LONG + b'"],"' + LONG + b'":"' + LONG[:20_000] + b'"}\n'
    assert calls_outline(line) == (
        b'{"a":Infinity,"b":[Infinity],"' + LONG + b'":"' + LONG[:20_000] + b'"}\n',
        [70_000, 70_002],
    )


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":"b"}',
        b'{"a":"' + LONG + b'","b":Infinity}',
        b'{"a":"' + LONG + b'","b":"-Infinity"}',
        *(
            b'{"a":"' + LONG + odd + b'"}'
            for odd in (b"\\u00e9", b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e")
        ),
    ],
)
def test_a_call_that_is_not_certain_by_its_outline_has_none(line: bytes) -> None:
    assert calls_outline(line) is None


def test_a_line_of_millions_of_chunks_is_put_together_in_bounded_memory() -> None:
    lines = Lines(1 << 20)
    for _ in range(1 << 18):
        assert lines.feed(b"abcd") == []
    assert lines.feed(b"\nrest") == [b"abcd" * (1 << 18) + b"\n"]
    assert lines.rest() == b"rest"
    assert lines.rest() == b""
