"""Framing against an oracle: cutting at LF and nowhere else, however the bytes arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.protocol.framing import Lines

PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r", b"\r\n", b"\x0b", b"\x0c", b"\x1c", b"\xc2\x85", b"\xe2\x80\xa8", b"{}"]
        ),
        st.binary(max_size=12),
    ),
    max_size=30,
)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """Draw bytes, and the same bytes in chunks (empty ones too)."""
    data = b"".join(draw(PIECES))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=8)))
    ends = [*cuts, len(data)]
    return data, [data[start:end] for start, end in zip([0, *cuts], ends, strict=True)]


@given(chunked())
def test_lines_are_what_split_at_lf_says(drawn: tuple[bytes, list[bytes]]) -> None:
    data, chunks = drawn
    lines = Lines(1 << 20)
    got = [line for chunk in chunks for line in lines.feed(chunk)]
    assert all(line.endswith(b"\n") for line in got)
    assert [line[:-1] for line in got] + [lines.rest()] == data.split(b"\n")


@given(chunked(), st.integers(0, 20))
def test_a_line_above_the_limit_ends_the_stream_after_all_lines_before_it(
    drawn: tuple[bytes, list[bytes]], limit: int
) -> None:
    data, chunks = drawn
    lines = Lines(limit)
    got = [line[:-1] for chunk in chunks for line in lines.feed(chunk)]
    expected = data.split(b"\n")
    too_long = next((n for n, line in enumerate(expected) if len(line) > limit), None)
    assert lines.too_long is (too_long is not None)
    assert got == (expected[:-1] if too_long is None else expected[:too_long])
