"""Ordinary calls of real servers answer behind mcpwrap as they do bare."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM

import pytest

from tests.e2e.client import Message, Session, failed
from tests.e2e.corpus import Row, bench, do_call, environment, fill, launch, masked, parameters
from tests.e2e.services import surroundings

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "git")


def answers(row: Row, how: str) -> tuple[list[Message], list[Message], Row, str]:
    """Run all calls of a row; return their answers, the notifications, the filled row and the stderr."""
    place = bench(f"ordinary-{row['name']}", row.get("setup", ""), environment(row, how))
    row = fill(row, place.work)
    stderr = place.work / f"stderr.{how}"
    with surroundings(row.get("services", ()), place.work) as around:
        command = around.command(launch(row, place, how))
        with Session(
            command, env=place.env | around.environ, cwd=place.work / "data", stderr=stderr
        ) as session:
            told = session.initialize()
            listed = session.answer(session.request("tools/list"))
            done = [do_call(session, call) for call in row["call"]]
            for call, answer in zip(row["call"], done, strict=True):
                assert re.search(call.get("expect", ""), json.dumps(answer), re.DOTALL), (call, answer)
                assert failed(answer) == call.get("is_error", False), (call, answer, session.stderr())
                assert (
                    "file" not in call or call["file"].endswith("new.txt") or os.path.exists(call["file"])
                ), call
            assert session.noise == []
            # Some end late at the end of their input, or never, bare or not; a SIGTERM ends them.
            assert session.close() in ((0, -SIGTERM, 128 + SIGTERM) if row.get("ends_by_signal") else (0,)), (
                session.stderr()
            )
    return [{"result": told}, listed, *done], session.notifications, row, session.stderr()


def own_words(answer: Message) -> object:
    return answer["error"] if "error" in answer else answer["result"]["content"][0]


@pytest.mark.parametrize("row", parameters("server"))
def test_ordinary_calls_answer_as_bare(row: Row, installed: Callable[[str], Path]) -> None:
    installed(row["server"])
    bare, bare_notes, filled, _ = answers(row, "bare")
    wrapped, wrapped_notes, _, stderr = answers(row, "mcpwrap")
    calls = [{"tool": "initialize"}, {"tool": "tools/list"}, *filled["call"]]
    for call, expected, got in zip(calls, bare, wrapped, strict=True):
        if call.get("is_error"):
            # A refused path is explained beside the server's own words.
            assert own_words(got) == own_words(expected)
            continue
        volatile = call.get("volatile", "")
        assert masked(got, volatile) == masked(expected, volatile), (call, stderr)
    assert [note["method"] for note in wrapped_notes] == [note["method"] for note in bare_notes]
