"""How a run ends: what to do next, and until when to wait for it. Time in, steps out.

An ordinary end is the client closing our stdin: the server gets what is on its way, then its own end of
input, then time to leave (Python servers need up to 2 s), then SIGTERM (4 of 56 servers ignore the end of
input), then SIGKILL. A signal to us means the same with less time: clients kill the launcher 0.5 to 2 s later.
"""

from __future__ import annotations

import signal
from enum import Enum, auto
from typing import Final

EOF_GRACE: Final = 2.0
"""From the end of the server's input to SIGTERM, when no call is in flight."""
CALL_GRACE: Final = 3.0
"""The same while a call is: its answer may still be wanted by a client that only closed its stdin."""
TERM_GRACE: Final = 1.0
"""From the first signal to SIGKILL."""
KILL_GRACE: Final = 0.7
"""From SIGKILL, sent by the stem when the life pipe closes, to our own SIGKILL of the stem."""
UNREAD_GRACE: Final = 30.0
"""A server that has not answered anything yet may need so long to start and to read what it was sent
(`printf … | mcpwrap -- CMD`); counted from the client's end of input, only while the client lives."""
CHECK_SECONDS: Final = 0.05
"""How often a wait for the server to read its input looks again."""


class Step(Enum):
    """What the relay is to do now."""

    CLOSE_INPUT = auto()
    INTERRUPT = auto()
    TERMINATE = auto()
    END_TREE = auto()
    KILL_STEM = auto()


class _Phase(Enum):
    RUNNING = auto()
    DELIVERING = auto()
    READING = auto()
    LEAVING = auto()
    SIGNALLED = auto()
    KILLED = auto()
    GIVEN_UP = auto()


class Shutdown:
    """The state of the end. `reason` says in words what began it; empty while the run goes on."""

    def __init__(self) -> None:
        self.reason = ""
        self._phase = _Phase.RUNNING
        self._since = 0.0
        self._signals: list[Step] = []
        self._input_closed = False
        self._asked = ""

    @property
    def begun(self) -> bool:
        return self._phase is not _Phase.RUNNING

    @property
    def hurried(self) -> bool:
        """Whether whoever ends the run will not wait much longer."""
        return self._phase in (_Phase.SIGNALLED, _Phase.KILLED, _Phase.GIVEN_UP)

    @property
    def overdue(self) -> str:
        """What to say of a server that had to be killed because it did not leave in time; empty for any other."""
        return (
            f"the server did not end within {TERM_GRACE:g} s of {self._asked}; it was ended"
            if self._asked and self._phase in (_Phase.KILLED, _Phase.GIVEN_UP)
            else ""
        )

    def client_eof(self, now: float) -> None:
        """The client closed our stdin."""
        if self._phase is _Phase.RUNNING:
            self._begin(_Phase.DELIVERING, "the client closed its end", now)

    def client_gone(self, now: float) -> None:
        """Nobody reads our stdout any more: nothing the server could still say would arrive."""
        if self._phase in (_Phase.RUNNING, _Phase.DELIVERING, _Phase.READING):
            self._begin(_Phase.LEAVING, "the client is gone", now)

    def signalled(self, number: int, now: float) -> None:
        """We were sent SIGINT, SIGTERM or SIGHUP; the server is sent SIGINT or SIGTERM."""
        step = Step.INTERRUPT if number == signal.SIGINT else Step.TERMINATE
        self._signals.append(step)
        if not self.hurried:
            self._asked = "the signal"
            self._begin(_Phase.SIGNALLED, signal.Signals(number).name, now)

    def fail(self, reason: str, now: float) -> None:
        """The run cannot go on: the tree is ended at once."""
        if self._phase not in (_Phase.KILLED, _Phase.GIVEN_UP):
            self._asked = ""
            self._begin(_Phase.SIGNALLED, reason, now - TERM_GRACE)

    def deadline(self, now: float) -> float | None:
        """Return when `due` must be asked next, None while the run goes on."""
        match self._phase:
            case _Phase.RUNNING | _Phase.GIVEN_UP:
                return None
            case _Phase.DELIVERING | _Phase.READING:
                return now + CHECK_SECONDS
            case _Phase.LEAVING:
                # A call that is answered meanwhile shortens the wait to what is left of `EOF_GRACE`.
                return min(self._since + CALL_GRACE, max(self._since + EOF_GRACE, now + CHECK_SECONDS))
            case _Phase.SIGNALLED:
                return self._since + TERM_GRACE
            case _Phase.KILLED:
                return self._since + KILL_GRACE

    def due(self, now: float, *, undelivered: bool, unread: bool, working: bool) -> list[Step]:
        """Return what to do now, in order.

        `undelivered`: bytes or held calls have not been handed to the server. `unread`: the server has
        not yet answered anything, and has not read all it was handed. `working`: a call is in flight.
        """
        steps, self._signals = self._signals, []
        if self._phase is _Phase.DELIVERING and (not undelivered or now >= self._since + UNREAD_GRACE):
            self._phase = _Phase.READING
            steps += self._close_input()
        if self._phase is _Phase.READING and (not unread or now >= self._since + UNREAD_GRACE):
            self._phase = _Phase.LEAVING
            self._since = now
        if self._phase is _Phase.LEAVING:
            steps += self._close_input()
            if now >= self._since + (CALL_GRACE if working else EOF_GRACE):
                self._phase = _Phase.SIGNALLED
                self._asked = "SIGTERM"
                self._since = now
                steps.append(Step.TERMINATE)
        if self._phase is _Phase.SIGNALLED:
            steps += self._close_input()
            if now >= self._since + TERM_GRACE:
                self._phase = _Phase.KILLED
                self._since = now
                steps.append(Step.END_TREE)
        if self._phase is _Phase.KILLED and now >= self._since + KILL_GRACE:
            self._phase = _Phase.GIVEN_UP
            steps.append(Step.KILL_STEM)
        return steps

    def _begin(self, phase: _Phase, reason: str, now: float) -> None:
        self._phase = phase
        self._since = now
        self.reason = self.reason or reason

    def _close_input(self) -> list[Step]:
        if self._input_closed:
            return []
        self._input_closed = True
        return [Step.CLOSE_INPUT]
