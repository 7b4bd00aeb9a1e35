"""One question in, one answer out; whatever else comes is answered as a name server would, or not at all."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwrap.broker import dns

LABEL = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789-_", min_size=1, max_size=63)
NAME = st.lists(LABEL, min_size=1, max_size=8).map(".".join).filter(lambda name: len(name) <= 253)
OPT = b"\0" + struct.pack(">2HIH", 41, 1232, 0, 0)


def query(
    name: str, kind: int = 1, *, flags: int = 0x100, of: int = 1, rest: bytes = b"", more: int = 0
) -> bytes:
    head = struct.pack(">6H", 7, flags, 1, 0, 0, more)
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split(".") if label)
    return head + labels + b"\0" + struct.pack(">2H", kind, of) + rest


def code(answer: bytes) -> int:
    return answer[3] & 15


@settings(deadline=None)
@given(NAME, st.integers(0, 65535))
def test_a_question_is_read_as_it_was_asked(name: str, kind: int) -> None:
    question = dns.parse(query(name, kind))
    assert (question.name, question.kind, question.id, question.edns) == (name.lower(), kind, 7, False)


@settings(deadline=None)
@given(NAME)
def test_an_answer_repeats_the_question_to_the_letter(name: str) -> None:
    data = query(name)
    answer = dns.respond(dns.parse(data), dns.NO_ERROR, dns.address(bytes((11, 0, 0, 1))))
    assert answer[12 : len(data)] == data[12:]
    assert struct.unpack_from(">6H", answer) == (7, 0x8180, 1, 1, 0, 0)
    assert answer[len(data) :] == b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\x0b\0\0\1"


def test_edns_is_answered_and_its_size_held_to() -> None:
    question = dns.parse(query("a.b", rest=OPT, more=1))
    assert (question.edns, question.size) == (True, 1232)
    assert dns.respond(question, 0).endswith(b"\0" + struct.pack(">2HIH", 41, 1232, 0, 0))
    for announced, taken in ((0, 512), (65535, 4096)):
        rest = b"\0" + struct.pack(">2HIH", 41, announced, 0, 0)
        assert dns.parse(query("a.b", rest=rest, more=1)).size == taken


@pytest.mark.parametrize(
    ("data", "answered"),
    [
        (b"", None),
        (bytes(11), None),
        (query("a.b", flags=0x8180), None),
        (query("a.b", flags=0x2800), dns.NOT_IMPLEMENTED),
        (query("a.b", of=3), dns.REFUSED),
        (query("a.b") + b"x", dns.FORMAT_ERROR),
        (query("a.b")[:-1], dns.FORMAT_ERROR),
        (query("a.b", rest=OPT[:-1], more=1), dns.FORMAT_ERROR),
        (query("a.b", rest=OPT * 2, more=2), dns.FORMAT_ERROR),
        (query("a.b", rest=b"\1a\0" + OPT[1:], more=1), dns.FORMAT_ERROR),
        (query("a.b", rest=bytes(2000)), dns.FORMAT_ERROR),
        (query("a b"), dns.FORMAT_ERROR),
        (struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1", dns.FORMAT_ERROR),
        (struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\x3fx", dns.FORMAT_ERROR),
        (
            struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + (b"\x3f" + b"x" * 63) * 4 + b"\0\0\1\0\1",
            dns.FORMAT_ERROR,
        ),
        (struct.pack(">6H", 7, 0x100, 2, 0, 0, 0) + b"\1a\0\0\1\0\1" * 2, dns.FORMAT_ERROR),
        (struct.pack(">6H", 7, 0x100, 0, 0, 0, 0), dns.FORMAT_ERROR),
    ],
)
def test_what_is_no_plain_question_gets_an_error_or_nothing(data: bytes, answered: int | None) -> None:
    with pytest.raises(dns.Unanswerable) as raised:
        dns.parse(data)
    answer = raised.value.answer
    assert (code(answer) if answer else None) == answered
    assert len(answer) <= max(len(data), 12)


@settings(deadline=None)
@given(st.binary(max_size=1500))
def test_no_bytes_do_more_than_that(data: bytes) -> None:
    try:
        answer = dns.respond(dns.parse(data), dns.NO_SUCH_NAME)
    except dns.Unanswerable as problem:
        answer = problem.answer
    assert len(answer) <= max(len(data), 12)
    assert not answer or answer[:2] == data[:2]


@settings(deadline=None)
@given(NAME, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), max_size=6), st.booleans())
def test_a_changed_question_is_survived(name: str, changes: list[tuple[int, int]], edns: bool) -> None:
    data = bytearray(query(name, rest=OPT if edns else b"", more=int(edns)))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        question = dns.parse(bytes(data))
    except dns.Unanswerable:
        return
    assert question.name == question.name.lower()
    assert set(question.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert len(question.name) <= 253


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("4.3.2.1.in-addr.arpa", bytes((1, 2, 3, 4))),
        ("256.3.2.1.in-addr.arpa", None),
        ("3.2.1.in-addr.arpa", None),
        ("a.3.2.1.in-addr.arpa", None),
        ("4.3.2.1.ip6.arpa", None),
        ("in-addr.arpa", None),
    ],
)
def test_reverse_names_are_read(name: str, host: bytes | None) -> None:
    assert dns.reverse_address(name) == host


def test_a_forwarded_question_holds_nothing_but_the_question_and_only_its_answer_comes_back() -> None:
    question = dns.parse(query("_x._tcp.Host.example", 33, rest=OPT, more=1))
    asked = dns.forwarded(question)
    assert asked == struct.pack(">6H", 0, 0x100, 1, 0, 0, 0) + question.raw
    answer = struct.pack(">6H", 99, 0x8180, 1, 1, 0, 0) + question.raw.lower() + b"record"
    returned = dns.returned(question, answer)
    assert returned == struct.pack(">6H", 7, 0x8180, 1, 1, 0, 0) + question.raw + b"record"
    assert dns.returned(question, asked) is None
    assert dns.returned(question, answer[:20]) is None
    assert dns.returned(question, answer.replace(b"host", b"else")) is None


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_what_comes_back_may_be_anything(data: bytes) -> None:
    question = dns.parse(query("a.example", 16))
    found = dns.returned(question, data)
    assert found is None or found[12:].startswith(question.raw)
