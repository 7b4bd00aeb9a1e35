"""The end of a run, step by step, with a clock that is an argument."""

from __future__ import annotations

import signal

from mcpwrap.relay.shutdown import CALL_GRACE, EOF_GRACE, KILL_GRACE, TERM_GRACE, UNREAD_GRACE, Shutdown, Step


def due(
    shutdown: Shutdown, now: float, *, undelivered: bool = False, unread: bool = False, working: bool = False
) -> list[Step]:
    return shutdown.due(now, undelivered=undelivered, unread=unread, working=working)


def test_nothing_is_due_before_the_end_has_begun() -> None:
    shutdown = Shutdown()
    assert shutdown.deadline(0) is None
    assert not shutdown.begun


def test_input_is_closed_once_all_is_delivered() -> None:
    shutdown = Shutdown()
    shutdown.client_eof(0)
    assert due(shutdown, 0, undelivered=True) == []
    assert due(shutdown, 1, undelivered=False) == [Step.CLOSE_INPUT]
    assert due(shutdown, 1.1) == []


def test_the_grace_counts_from_when_the_server_has_read_its_input() -> None:
    shutdown = Shutdown()
    shutdown.client_eof(0)
    assert due(shutdown, 0, unread=True) == [Step.CLOSE_INPUT]
    assert due(shutdown, 10, unread=True) == []
    assert due(shutdown, 10.1) == []
    assert due(shutdown, 10.1 + EOF_GRACE - 0.01) == []
    assert due(shutdown, 10.1 + EOF_GRACE) == [Step.TERMINATE]


def test_a_server_that_never_reads_is_not_waited_for_for_ever() -> None:
    shutdown = Shutdown()
    shutdown.client_eof(0)
    due(shutdown, 0, unread=True)
    assert due(shutdown, UNREAD_GRACE, unread=True) == []
    assert due(shutdown, UNREAD_GRACE + EOF_GRACE, unread=True) == [Step.TERMINATE]


def test_a_call_in_flight_is_given_longer() -> None:
    shutdown = Shutdown()
    shutdown.client_eof(0)
    due(shutdown, 0)
    assert due(shutdown, EOF_GRACE, working=True) == []
    assert due(shutdown, CALL_GRACE, working=True) == [Step.TERMINATE]


def test_who_is_killed_for_not_leaving_is_told_of_as_such() -> None:
    shutdown = Shutdown()
    shutdown.signalled(signal.SIGTERM, 0)
    due(shutdown, 0)
    assert shutdown.overdue == ""
    due(shutdown, TERM_GRACE)
    assert shutdown.overdue == f"the server did not end within {TERM_GRACE:g} s of the signal; it was ended"
    shutdown = Shutdown()
    shutdown.client_eof(0)
    due(shutdown, 0)
    due(shutdown, EOF_GRACE)
    due(shutdown, EOF_GRACE + TERM_GRACE)
    assert "of SIGTERM;" in shutdown.overdue
    shutdown = Shutdown()
    shutdown.fail("a fault", 0)
    due(shutdown, 0)
    assert shutdown.overdue == ""


def test_what_ignores_sigterm_is_killed_and_then_its_stem() -> None:
    shutdown = Shutdown()
    shutdown.signalled(signal.SIGTERM, 0)
    assert due(shutdown, 0) == [Step.TERMINATE, Step.CLOSE_INPUT]
    assert due(shutdown, TERM_GRACE) == [Step.END_TREE]
    assert due(shutdown, TERM_GRACE + KILL_GRACE) == [Step.KILL_STEM]
    assert shutdown.deadline(99) is None


def test_a_second_signal_is_passed_on_and_lengthens_nothing() -> None:
    shutdown = Shutdown()
    shutdown.signalled(signal.SIGINT, 0)
    assert due(shutdown, 0) == [Step.INTERRUPT, Step.CLOSE_INPUT]
    shutdown.signalled(signal.SIGTERM, 0.9)
    assert due(shutdown, 0.9) == [Step.TERMINATE]
    assert due(shutdown, TERM_GRACE) == [Step.END_TREE]


def test_a_signal_during_the_grace_shortens_it() -> None:
    shutdown = Shutdown()
    shutdown.client_eof(0)
    due(shutdown, 0)
    shutdown.signalled(signal.SIGINT, 0.05)
    assert due(shutdown, 0.05) == [Step.INTERRUPT]
    assert due(shutdown, 0.05 + TERM_GRACE) == [Step.END_TREE]
    assert shutdown.reason == "the client closed its end"


def test_a_client_that_is_gone_is_not_delivered_to() -> None:
    shutdown = Shutdown()
    shutdown.client_gone(0)
    assert due(shutdown, 0, undelivered=True, unread=True) == [Step.CLOSE_INPUT]
    assert due(shutdown, EOF_GRACE, unread=True) == [Step.TERMINATE]


def test_a_failure_kills_at_once() -> None:
    shutdown = Shutdown()
    shutdown.fail("broken", 5)
    assert due(shutdown, 5) == [Step.CLOSE_INPUT, Step.END_TREE]


def test_every_end_is_over_within_five_seconds() -> None:
    for begin in ("client_eof", "client_gone"):
        shutdown = Shutdown()
        getattr(shutdown, begin)(0.0)
        now, steps = 0.0, due(shutdown, 0, working=True)
        while (deadline := shutdown.deadline(now)) is not None:
            now = deadline
            steps += due(shutdown, now, working=True)
        assert steps == [Step.CLOSE_INPUT, Step.TERMINATE, Step.END_TREE, Step.KILL_STEM]
        assert now < 5
