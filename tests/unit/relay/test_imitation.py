"""What a server writes on stderr cannot be mistaken for a line of mcpwrap's own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.relay.imitation import HELD_BYTES, MARK, Imitations
from mcpwrap.relay.stderr import UNREAD_BYTES, ErrorOutput
from tests.unit.relay.test_parts import Slow

PIECES = st.lists(
    st.sampled_from(
        [
            *(bytes([letter]) for letter in b"mcpwrap:[]\r\n\x1b\x07\x00 1;Kx\\"),
            *(text.encode() for text in ("mcpwrap:", "\x1b[31m", "\u200b", "\u00ad", "\u2028", "\u00e9")),
            *(b"\xc2", b"\xe2"),
        ]
    ),
    max_size=40,
)


def shown(*pieces: bytes) -> bytes:
    stream = Imitations()
    return b"".join(map(stream.passed, pieces)) + stream.line_ended()


@pytest.mark.parametrize(
    "before",
    ["", "x\n", "x\r", "x\b", " \t", "\x1b[31m", "x\x1b[1G", "\x1b]0;title\x07", "\x1b]0;title\n", "\x1bM", "\u200b",
     "\ufeff", "x\u2028", "\u009b31m"],
)  # fmt: skip
@pytest.mark.parametrize("word", ["mcpwrap:", "MCPwrap:", "mcp\x1b[0mwrap:", "m\u00adcpwrap:", "mcpwrap\0:"])
def test_a_line_that_looks_like_ours_is_marked_however_it_comes(before: str, word: str) -> None:
    head, tail = before.encode(), word.encode() + b" refused: x\n"
    assert shown(head + tail) == head + MARK + tail
    assert shown(*(bytes([byte]) for byte in head + tail)) == head + MARK + tail


@pytest.mark.parametrize(
    "text",
    [
        "see mcpwrap: x\n",
        "mcp\n",
        "mcpwrap\n",
        "\x1b[2K\rloading",
        "\u00e9mcpwrap: x",
        "\u65e5\u672c\u8a9e\n",
        "m",
    ],
)
def test_everything_else_passes_as_it_is(text: str) -> None:
    assert shown(text.encode()) == text.encode()
    assert shown(*(bytes([byte]) for byte in text.encode())) == text.encode()


def test_only_what_may_yet_become_the_word_is_held_back() -> None:
    stream = Imitations()
    assert stream.passed(b"Password? ") == b"Password? "
    assert stream.passed(b"\nmcp") == b"\n"
    assert stream.passed(b"s\n") == b"mcps\n"
    assert stream.passed(b"\x1b]0;" + b"x" * HELD_BYTES) == MARK + b"\x1b]0;" + b"x" * HELD_BYTES


@given(PIECES)
def test_nothing_is_lost_and_no_line_begins_as_ours(pieces: list[bytes]) -> None:
    out = shown(*pieces)
    assert out.replace(MARK, b"") == b"".join(pieces)
    for line in re.split(rb"[\r\n]", out):
        visible = re.sub(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-Z\\`-~]|[\x00-\x20]", b"", line)
        assert not visible.startswith(b"mcpwrap:")


def test_lines_of_both_are_told_apart_in_any_order() -> None:
    sink = Slow()
    sink.room = 10**9
    output = ErrorOutput(sink)
    output.server(b"half")
    output.say("refused: ours")
    output.server(b"mcpwrap: refused: theirs\nmc")
    output.noise(b"mcpwrap: on stdout")
    output.server(b"mcpwrap: again")
    output.finish()
    assert bytes(sink.taken).splitlines() == [
        b"half",
        b"mcpwrap: refused: ours",
        b"server: mcpwrap: refused: theirs",
        b"mc",
        b"server: mcpwrap: on stdout",
        b"server: mcpwrap: again",
    ]


def test_behind_what_was_not_read_in_time_a_line_begins() -> None:
    sink = Slow()
    output = ErrorOutput(sink)
    output.server(b"x" * (UNREAD_BYTES - 2) + b"\n")
    output.server(b"dropped, as it does not fit")
    sink.room = 10**9
    output.flush()
    output.server(b"mcpwrap: theirs\n")
    assert b"\nserver: mcpwrap: theirs\n" in sink.taken
