"""Pipes that are lent to connections: wide ones for downloads, and never more than a few of those."""

from __future__ import annotations

import fcntl
import os

import pytest

from mcpwrap.egress.pipes import PIPE_BYTES, WIDE, WIDE_BYTES, Pipes


def test_few_pipes_are_wide_at_a_time_and_one_is_kept() -> None:
    lender = Pipes()
    taken = [lender.take(wide=True) for _ in range(WIDE + 2)]
    assert [each.size for each in taken] == [WIDE_BYTES] * WIDE + [PIPE_BYTES] * 2
    assert [fcntl.fcntl(each.into, fcntl.F_GETPIPE_SZ) for each in taken] == [each.size for each in taken]
    for each in taken:
        lender.give(each, empty=True)
    # The kept one is lent again, and as many others may be widened anew.
    again = [lender.take(wide=True) for _ in range(WIDE + 1)]
    assert again[0] == taken[0]
    assert [each.size for each in again] == [WIDE_BYTES] * WIDE + [PIPE_BYTES]
    assert lender.take().size == PIPE_BYTES


def test_a_pipe_that_still_holds_bytes_is_not_lent_again() -> None:
    lender = Pipes()
    pipe = lender.take(wide=True)
    os.write(pipe.into, b"of another connection")
    lender.give(pipe, empty=False)
    with pytest.raises(BlockingIOError):
        os.read(lender.take(wide=True).out, 1)


def test_a_machine_that_allows_no_wide_pipe_gets_ordinary_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    lender = Pipes()
    assert [lender.take(wide=True).size for _ in range(2)] == [PIPE_BYTES] * 2
