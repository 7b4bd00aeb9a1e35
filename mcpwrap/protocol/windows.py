"""The open windows of one connection: what opens, closes and times them.

Every `Opened` has exactly one `Closed`, and a window is closed before the bytes that tell the client so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.limits import CANCEL_DRAIN_SECONDS, TASK_WINDOWS
from mcpwrap.protocol import overlap
from mcpwrap.protocol.actions import Action, Closed, Forward, Opened, Reply, Withdrawn
from mcpwrap.protocol.annotate import failure
from mcpwrap.protocol.bounded import Remembered
from mcpwrap.protocol.passing import Id, Passing
from mcpwrap.protocol.window import Call, State, Turn, Window

if TYPE_CHECKING:
    from mcpwrap.protocol.held import Held

_UNANSWERED: Final = frozenset({"cancelled", "uncertain"})
"""Ways to end in which the server may not have given its answer yet."""
_TIMED: Final = {State.DRAINING: (Turn.DRAINED, "cancelled"), State.TASK: (Turn.TASK_ENDED, "ttl")}


class Windows:
    """Calls the server has been given. Every method appends what is to be done to `out`."""

    def __init__(self, mode: str, limit: float) -> None:
        """`mode` is that of overlap; `limit` how long a call keeps its grant, in seconds."""
        self.out: list[Action] = []
        self.active: dict[str, Call] = {}
        """Calls with an open window, by window id, oldest first."""
        self.in_flight: dict[Id, Call] = {}
        """Calls the server has yet to answer, by request id; a task is no longer among them."""
        self.passing = Passing()
        """Other requests of the client in flight."""
        self.legs: Remembered[int, Call] = Remembered()
        """Calls that ended with `input_required`, by the hash of the requestState the client is to send back."""
        self._mode = mode
        self._limit = limit
        self._opened = 0
        self._timed: dict[str, Call] = {}
        self._granted: dict[str, Window] = {}

    # Open

    def open(self, held: Held, now: float) -> None:
        """Open the windows of a line and forward it."""
        ids: list[str] = []
        for call in held.calls:
            window = self._window(call, now)
            call.take(Turn.OPENED)
            call.window = window
            call.batch = ids
            self.active[window.id] = call
            self._granted[window.id] = window
            self.in_flight[call.request_id] = call
            ids.append(window.id)
            self.out.append(Opened(window))
        self.out.append(Forward(held.line, tuple(ids)))
        for call, cancel in held.after:
            if cancel:
                self.out.append(Forward(cancel))
            self.drain(call, now)

    def _window(self, call: Call, now: float) -> Window:
        self._opened += 1
        leg = self.legs.pop(hash(call.request_state), None) if call.request_state is not None else None
        if leg is not None:
            for denial in leg.denials:
                call.deny(denial)
        return Window(
            id=f"w{self._opened}",
            tool=call.tool,
            arguments=call.arguments,
            request_id=call.request_id,
            opened=now,
            method=call.method,
            area=call.area,
            union=overlap.union(call, self.active.values(), self._mode),
            joined=leg.window.id if leg is not None and leg.window is not None else None,
        )

    def drain(self, call: Call, now: float) -> None:
        """The client has cancelled an open call: its window stays open for the work that is being undone."""
        if call.state is not State.DRAINING:
            call.deadline = now + CANCEL_DRAIN_SECONDS
        call.take(Turn.CANCELLED)
        window = call.window
        assert window is not None
        self._timed[window.id] = call

    def become_task(self, call: Call, ttl: float | None, now: float) -> None:
        """The call was answered with a task: its window stays open until that ends, or for `ttl` seconds."""
        call.take(Turn.BECAME_TASK)
        window = call.window
        assert window is not None
        del self.in_flight[call.request_id]
        if ttl is not None:
            call.deadline = now + ttl
            self._timed[window.id] = call
        tasks = [other for other in self.active.values() if other.state is State.TASK]
        if len(tasks) > TASK_WINDOWS:
            self.close(tasks[0], Turn.TASK_ENDED, "crowded")

    # Close

    def close(self, call: Call, turn: Turn, how: str) -> None:
        """Close the call's window. The caller pumps when it has written what the client is to get first."""
        call.take(turn)
        window = call.window
        assert window is not None
        del self.active[window.id]
        self._timed.pop(window.id, None)
        self._granted.pop(window.id, None)
        if self.in_flight.get(call.request_id) is call:
            del self.in_flight[call.request_id]
            if how in _UNANSWERED:
                self.passing.late[call.request_id] = None
        self.out.append(Closed(window, how, call.denials))

    def refuse(self, window_id: str, why: str) -> None:
        """The window could not be put into force: answer its call, and all of its batch, with an error."""
        refused = self.active.get(window_id)
        if refused is None or refused.window is None:
            return
        batch = [call for call in self.active.values() if call.batch is refused.batch]
        for call in batch:
            self.close(call, Turn.REFUSED, "refused")
            self.out.append(Reply(failure(call, why, call.denials)))

    def close_all(self) -> None:
        """The server's stream has ended."""
        for call in list(self.active.values()):
            self.close(call, Turn.ENDED, "eof")

    # Time

    def next_time(self) -> float | None:
        """Return when `pass_time` next has something to do, or None."""
        due = None
        if self._granted:
            due = (
                next(iter(self._granted.values())).opened + self._limit
            )  # The oldest has had most of its time.
        for call in self._timed.values():
            if due is None or call.deadline < due:
                due = call.deadline
        return due

    def pass_time(self, now: float) -> None:
        """Close what has drained or outlived its ttl; withdraw the grants of what has had its time."""
        for call in [call for call in self._timed.values() if call.deadline <= now]:
            turn, how = _TIMED[call.state]
            self.close(call, turn, how)
        for window in list(self._granted.values()):
            if window.opened + self._limit > now:
                break
            del self._granted[window.id]
            self.active[window.id].withdrawn = True
            self.out.append(Withdrawn(window))
