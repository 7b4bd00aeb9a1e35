"""What the kernel side is told of calls, and in which order with the bytes."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.relay.wrapped import ECHO, INITIALIZE, Wrapped, call

REFUSING = """
import json, os, sys
records = int(os.environ["RECORDS"])
for line in sys.stdin.buffer:
    message = json.loads(line)
    event = {"act": "read", "need": "read", "object": "/secret", "written": "", "allowed": False, "rule": "no-grant",
             "quiet": False, "windows": ["w1"], "errno": 13, "pid": 1}
    os.write(records, json.dumps(event).encode() + b"\\n")
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "EACCES"}]}}
    os.write(1, json.dumps(answer).encode() + b"\\n")
"""
"""Plays broker and server: writes the record of a refusal, then answers at once."""


def test_a_window_is_open_from_before_the_request_until_before_the_answer(tmp_path: Path) -> None:
    with Wrapped(ECHO, tmp=tmp_path) as run:
        run.send(call("a", "first"))
        run.message()
        # The answer has arrived, so the window has been closed.
        assert [entry for entry in run.told() if entry[0] in ("opened", "closed")] == [
            ["opened", "w1", "first"],
            ["closed", "w1", "answered", [], True],
        ]


def test_what_was_refused_during_a_call_is_on_its_answer() -> None:
    for _ in range(20):  # The record and the answer race to the relay; the record must always win.
        with Wrapped(REFUSING) as run:
            run.send(call(1))
            answer = run.message()
            assert "refused /secret" in json.dumps(answer)
            run.end()
            assert run.wait() == 0


def test_a_call_whose_window_cannot_be_opened_never_reaches_the_server(tmp_path: Path) -> None:
    with Wrapped(ECHO, "--refuse", "bad", tmp=tmp_path) as run:
        run.send(call(1, "bad", x="y") + call(2, "good"))
        answers = {answer["id"]: answer for answer in (run.message(), run.message())}
        assert answers[1]["result"]["isError"] is True
        assert "no room on the page" in json.dumps(answers[1])
        assert "isError" not in answers[2]["result"]
        run.end()
        assert "refused the call of 'bad'" in run.errors()


def test_a_full_disk_is_said_once_and_the_answer_still_leaves() -> None:
    with Wrapped(ECHO, "--full", "t") as run:
        run.send(call(1) + call(2))
        assert [run.message()["id"], run.message()["id"]] == [1, 2]
        run.end()
        assert run.errors().count("the audit cannot be written") == 1


def test_calls_wait_for_the_end_of_start_up(tmp_path: Path) -> None:
    with Wrapped(ECHO, "--startup", tmp=tmp_path) as run:
        run.send(INITIALIZE + call(1))
        assert run.message()["id"] == 0
        assert not [entry for entry in run.told() if entry[0] == "opened"]
        assert run.message()["id"] == 1
        order = [entry[0] for entry in run.told() if entry[0] in ("startup ended", "opened")]
        assert order[0] == "startup ended"
        assert order[-1] == "opened"


def test_calls_held_for_start_up_are_still_answered_after_the_end_of_input() -> None:
    with Wrapped(ECHO, "--startup") as run:
        run.send(INITIALIZE + call(1))
        run.end()
        assert [json.loads(line)["id"] for line in run.rest().splitlines()] == [0, 1]
        assert run.wait() == 0
