"""The one transition table is complete, and the diagram above it is true."""

from __future__ import annotations

import pytest

from mcpwrap.protocol.window import TRANSITIONS, Call, State, Turn


def test_every_state_has_its_row() -> None:
    assert TRANSITIONS.keys() == set(State)


def test_every_turn_befalls_some_state_and_leads_to_one() -> None:
    assert {turn for row in TRANSITIONS.values() for turn in row} == set(Turn)
    assert {state for row in TRANSITIONS.values() for state in row.values()} == set(State) - {State.HELD}


def test_every_state_but_the_last_ends_with_the_stream_and_the_last_is_never_left() -> None:
    for state, row in TRANSITIONS.items():
        if state is State.CLOSED:
            assert not row
        else:
            assert row[Turn.ENDED] is State.CLOSED


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.HELD}
    for _ in State:
        reached |= {new for state in reached for new in TRANSITIONS[state].values()}
    assert reached == set(State)


@pytest.mark.parametrize("state", [State.OPEN, State.WAITING, State.DRAINING])
def test_an_answer_and_a_refusal_close_whatever_is_in_flight(state: State) -> None:
    assert TRANSITIONS[state][Turn.ANSWERED] is State.CLOSED
    assert TRANSITIONS[state][Turn.REFUSED] is State.CLOSED


def test_a_turn_that_is_not_in_the_table_is_a_fault() -> None:
    call = Call("tools/call", 1, "t", {})
    with pytest.raises(KeyError):
        call.take(Turn.ANSWERED)
    assert call.state is State.HELD
