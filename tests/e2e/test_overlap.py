"""Overlapping calls: no call uses another's grant, none waits for what waits for it."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator

import pytest

from tests.e2e.client import Message, failed, text
from tests.e2e.victim import Victim, refused

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")


@pytest.fixture(scope="module", params=["auto", "serialize"])
def ordered(request: pytest.FixtureRequest) -> Iterator[Victim]:
    """A victim under each mode in which calls of different tools wait for each other."""
    with Victim(f"overlap-{request.param}", options=["--overlap", request.param]) as victim:
        yield victim


def test_a_call_cannot_use_the_grant_of_one_sent_after_it(ordered: Victim) -> None:
    path = str(ordered.case("after") / "a.txt")
    foreign = str(ordered.data / "other" / "file")
    first = ordered.start("reader", "sleep_then_read", {"path": path}, seconds=0.6, path=foreign)
    second = ordered.start("other", "sleep", seconds=0.8)
    assert refused(ordered.session.answer(first)), "it read what only the other call may"
    assert text(ordered.session.answer(second)) == "slept"


def test_a_call_cannot_use_the_grant_of_one_sent_before_it(ordered: Victim) -> None:
    path = str(ordered.case("before") / "a.txt")
    foreign = str(ordered.data / "other" / "file")
    first = ordered.start("other", "sleep", seconds=0.6)
    second = ordered.start("reader", "read", {"path": path}, path=foreign)
    assert refused(ordered.session.answer(second))
    assert text(ordered.session.answer(first)) == "slept"
    assert ordered.session.arrived[first] < ordered.session.arrived[second]


def test_each_waiting_call_gets_its_own_grant_when_its_turn_comes(ordered: Victim) -> None:
    path = str(ordered.case("turns") / "a.txt")
    foreign = str(ordered.data / "other" / "file")
    calls = [
        ordered.start("reader", "read", {"path": path}, path=path),
        ordered.start("other", "read", path=foreign),
        ordered.start("reader", "read", {"path": path}, path=foreign),
        ordered.start("other", "read", path=path),
        ordered.start("nothing", "read", path=path),
    ]
    answers = [ordered.session.answer(call) for call in calls]
    assert [failed(answer) for answer in answers] == [False, False, True, True, True], answers
    assert [text(answer) for answer in answers[:2]] == ["mine\n", "OTHER\n"]


def test_one_tool_reads_its_own_argument_and_no_second_file_within(ordered: Victim) -> None:
    directory = ordered.case("second")
    a, b = str(directory / "a.txt"), str(directory / "b.txt")
    assert text(ordered.act("reader", "read", {"path": a}, path=a)) == "mine\n"
    assert refused(ordered.act("reader", "read", {"path": a}, path=b))
    assert text(ordered.act("reader", "read", {"path": b}, path=b)) == "SECRET-B\n"
    assert refused(ordered.act("reader", "read", {"path": a}, path=b)), (
        "the last call's file is open to this one"
    )


def test_calls_of_one_tool_run_together() -> None:
    with Victim("together") as victim:
        victim.act("sleeper", "sleep", seconds=0)
        start = time.monotonic()
        calls = [victim.start("sleeper", "sleep", seconds=1) for _ in range(8)]
        assert [text(victim.session.answer(call)) for call in calls] == ["slept"] * 8
        # One after the other they take 8 s; what a busy machine adds is measured by bench/.
        assert time.monotonic() - start < 5


def test_serialize_runs_one_call_at_a_time() -> None:
    with Victim("one-by-one", options=["--overlap", "serialize"]) as victim:
        calls = [victim.start("sleeper", "sleep", seconds=0.3) for _ in range(3)]
        for call in calls:
            victim.session.answer(call)
        arrived = [victim.session.arrived[call] for call in calls]
        assert arrived[1] - arrived[0] >= 0.29
        assert arrived[2] - arrived[1] >= 0.29


@pytest.mark.parametrize("mode", ["auto", "union"])
def test_a_call_that_samples_and_whose_handler_calls_another_tool_does_not_deadlock(mode: str) -> None:
    inner: list[Message] = []

    def sample(_: Message) -> Message:
        path = str(victim.data / "case" / "a.txt")
        answer = victim.session.call(
            "reader", {"act": "read", "with": {"path": path}, "path": path}, seconds=20
        )
        inner.append(answer)
        content = {"type": "text", "text": "sampled"}
        return {"role": "assistant", "content": content, "model": "none"}

    handlers = {"sampling/createMessage": sample}
    with Victim(f"sampling-{mode}", options=["--overlap", mode], handlers=handlers) as victim:
        victim.case("case")
        answer = victim.session.call("asker", {"act": "sample"}, seconds=25)
        assert "sampled" in text(answer), answer
        assert [text(item) for item in inner] == ["mine\n"]


def test_union_lets_them_overlap_and_the_audit_says_so() -> None:
    with Victim("union", options=["--overlap", "union"]) as victim:
        foreign = str(victim.data / "other" / "file")
        path = str(victim.case("case") / "a.txt")
        first = victim.start("other", "sleep", seconds=1)
        second = victim.start("reader", "read", {"path": path}, path=foreign)
        assert text(victim.session.answer(second)) == "OTHER\n"
        victim.session.answer(first)
        assert "union" in str(victim.place.audit())


def test_a_cancelled_call_loses_its_grant() -> None:
    with Victim("cancelled") as victim:
        path = str(victim.case("case") / "b.txt")
        call = victim.start("reader", "detach_later", {"path": path}, path=path, result="/tmp/early", delay=0)
        victim.session.answer(call)
        call = victim.start("reader", "sleep_then_read", {"path": path}, seconds=4, path=path)
        victim.session.notify("notifications/cancelled", {"requestId": call})
        answer = victim.session.answer(call)
        assert text(answer).startswith(errno.errorcode[errno.EACCES]), answer
