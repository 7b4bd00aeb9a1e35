"""The calls of one connection: who is held, whose window is open, and what moves them on.

Whatever becomes of a call passes through here, so that every `Opened` has exactly one `Closed`, and a window
is closed before the bytes that tell the client so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.limits import CANCEL_DRAIN_SECONDS, HOLD_SECONDS, TASK_WINDOWS
from mcpwrap.protocol import overlap
from mcpwrap.protocol.actions import (
    Action,
    Closed,
    EndInput,
    Forward,
    Note,
    Opened,
    Reply,
    StartupArmed,
    StartupEnded,
)
from mcpwrap.protocol.annotate import failure
from mcpwrap.protocol.bounded import Remembered
from mcpwrap.protocol.held import Held, Queue
from mcpwrap.protocol.jsonrpc import as_number
from mcpwrap.protocol.mcp import HANDSHAKES
from mcpwrap.protocol.passing import Id, Passing
from mcpwrap.protocol.window import Call, State, Turn, Window

if TYPE_CHECKING:
    from mcpwrap.operation import Denial

_UNANSWERED: Final = frozenset({"cancelled", "uncertain"})
"""Ways to end in which the server may not have given its answer yet."""
_TIMED: Final = {State.DRAINING: (Turn.DRAINED, "cancelled"), State.TASK: (Turn.TASK_ENDED, "ttl")}


class Calls:
    """The book of one connection. Every method appends what is to be done to `out`."""

    def __init__(self, mode: str, *, startup: bool) -> None:
        self.out: list[Action] = []
        self.active: dict[str, Call] = {}
        """Calls with an open window, by window id, oldest first."""
        self.in_flight: dict[Id, Call] = {}
        """Calls the server has yet to answer, by request id; a task is no longer among them."""
        self.held = Queue()
        """Calls the server has not been given."""
        self.passing = Passing()
        """Other requests of the client in flight."""
        self.legs: Remembered[int, Call] = Remembered()
        """Calls that ended with `input_required`, by the hash of the requestState the client is to send back."""
        self._mode = mode
        self._startup = startup
        self._armed = not startup
        self._opened = 0
        self._timed: dict[str, Call] = {}
        self._input_ended = False

    # Towards the server

    def is_known(self, request_id: Id) -> bool:
        """Tell whether a request of the client with this very id is unanswered."""
        return request_id in self.in_flight or request_id in self.held or request_id in self.passing

    def meant(self, request_id: object) -> Id | None:
        """Return the request in flight that some client takes an answer with this id for, or None."""
        if type(request_id) is not int and type(request_id) is not str:
            return None
        if self.is_known(request_id):
            return request_id
        number = as_number(request_id) if type(request_id) is str else None
        return number if number is not None and self.is_known(number) else None

    def submit(self, line: bytes, calls: list[Call], now: float, *, is_batch: bool = False) -> None:
        """Open the windows of a line and forward it: at once if that is allowed, else in its turn."""
        held = Held(line, calls, now, is_batch=is_batch)
        if not self.held.has_room(held):
            why = f"mcpwrap did not start this call: {len(self.held)} calls already wait for their turn."
            for call in calls:
                self._withdraw(call, why)
            self._note("held-full", "too many calls wait for their turn; one more was answered with an error")
            return
        self.held.push(held)
        self.pump(now)

    def pump(self, now: float) -> None:
        """Let the calls go that may go, first come first served."""
        while (head := self.held.head()) is not None and not self._startup:
            if overlap.blocker(head.calls[0], self.active.values(), self._mode) is not None:
                break
            self.held.remove(head)
            self._open(head, now)
        if head is not None and not self._armed:
            self._arm()
        if self._input_ended and head is None:
            self._input_ended = False
            self.out.append(EndInput())

    def cancel(self, request_id: Id | None, line: bytes, now: float) -> None:
        """Do what a cancel of the client asks for, and forward it unless the server never saw the call.

        `line` is empty for a cancel that travels inside a batch.
        """
        held = self.held.get(request_id)
        if held is not None and held.is_batch:
            held.after += [(call, line) for call in held.calls if call.request_id == request_id]
            return
        if held is not None:
            self.held.remove(held)
            held.calls[0].take(Turn.WITHDRAWN)
            self._note(
                "cancelled-held",
                "a call was cancelled before it was started",
                tool=held.tool[: overlap.NAME_SHOWN],
            )
        else:
            self._forward_cancel(line)
            if request_id is not None:
                self.passing.give_up(request_id)
                if (call := self.in_flight.get(request_id)) is not None:
                    self._drain(call, now)
        self.pump(now)

    def end_input(self, now: float) -> None:
        """The client's stream has ended; the server's input ends behind the last held call."""
        self._input_ended = True
        self.pump(now)

    # Start-up

    def server_is_up(self) -> None:
        """The first successful answer to a handshake was seen, or none is to be expected."""
        if not self._armed:
            self._armed = True
            self.out.append(StartupArmed())

    def startup_quiet(self, now: float) -> None:
        """Start-up is over: let the calls go that waited for it; their wait for a turn begins now."""
        if self._startup:
            self._startup = False
            self._armed = True
            self.out.append(StartupEnded())
            self.held.restart(now)
            self.pump(now)

    # Towards the client

    def close(self, call: Call, turn: Turn, how: str, denials: tuple[Denial, ...] | None = None) -> None:
        """Close the call's window. The caller pumps when it has written what the client is to get first."""
        call.take(turn)
        window = call.window
        assert window is not None
        del self.active[window.id]
        self._timed.pop(window.id, None)
        if self.in_flight.get(call.request_id) is call:
            del self.in_flight[call.request_id]
            if how in _UNANSWERED:
                self.passing.late[call.request_id] = None
        self.out.append(Closed(window, how, call.denials if denials is None else denials))

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

    def refuse(self, window_id: str, why: str) -> None:
        """The window could not be put into force: answer its call, and all of its batch, with an error."""
        refused = self.active.get(window_id)
        if refused is None or refused.window is None:
            return
        batch = [call for call in self.active.values() if call.batch is refused.batch]
        for call in batch:
            self.close(call, Turn.REFUSED, "refused")
            self.out.append(Reply(failure(call, why, call.denials)))

    # Time and end

    def deadline(self) -> float | None:
        """Return when `tick` next has something to do, or None."""
        if not self._timed and not self.held:
            return None
        times = [call.deadline for call in self._timed.values()]
        turn = None if self._startup else self.held.deadline()
        if turn is not None:
            times.append(turn)
        return min(times, default=None)

    def tick(self, now: float) -> None:
        """Close what has drained or outlived its ttl; answer calls that were held too long."""
        for call in [call for call in self._timed.values() if call.deadline <= now]:
            turn, how = _TIMED[call.state]
            self.close(call, turn, how)
        self.pump(now)
        while not self._startup and (due := self.held.deadline()) is not None and due <= now:
            self._give_up(now)

    def end(self) -> None:
        """The server's stream has ended: close every window; held calls are gone with it."""
        for call in list(self.active.values()):
            self.close(call, Turn.ENDED, "eof")
        if self.held:
            self._note("held-lost", "the server ended before these calls were started", calls=len(self.held))
        for held in self.held.drain():
            for call in held.calls:
                call.take(Turn.ENDED)

    # Inside

    def _open(self, held: Held, now: float) -> None:
        ids: list[str] = []
        for call in held.calls:
            self._opened += 1
            leg = self.legs.pop(hash(call.request_state), None) if call.request_state is not None else None
            if leg is not None:
                for denial in leg.denials:
                    call.deny(denial)
            window = Window(
                id=f"w{self._opened}",
                tool=call.tool,
                arguments=call.arguments,
                request_id=call.request_id,
                opened=now,
                method=call.method,
                union=overlap.union(call, self.active.values(), self._mode),
                joined=leg.window.id if leg is not None and leg.window is not None else None,
            )
            call.take(Turn.OPENED)
            call.window = window
            call.batch = ids
            self.active[window.id] = call
            self.in_flight[call.request_id] = call
            ids.append(window.id)
            self.out.append(Opened(window))
        self.out.append(Forward(held.line, tuple(ids)))
        for call, cancel in held.after:
            self._forward_cancel(cancel)
            self._drain(call, now)

    def _drain(self, call: Call, now: float) -> None:
        if call.state is not State.DRAINING:
            call.deadline = now + CANCEL_DRAIN_SECONDS
        call.take(Turn.CANCELLED)
        window = call.window
        assert window is not None
        self._timed[window.id] = call

    def _forward_cancel(self, line: bytes) -> None:
        if line:
            self.out.append(Forward(line))

    def _arm(self) -> None:
        """A call waits, and no handshake is still to be answered: in 2026-07-28 there need be none."""
        if not any(method in HANDSHAKES for method, _ in self.passing.values()):
            self.server_is_up()

    def _give_up(self, now: float) -> None:
        held = self.held.head()
        assert held is not None
        self.held.remove(held)
        behind = overlap.blocker(held.calls[0], self.active.values(), self._mode)
        whom = f"{behind.tool[: overlap.NAME_SHOWN]!a}, which still runs" if behind else "its turn"
        for call in held.calls:
            self._withdraw(
                call,
                f"mcpwrap did not start this call: it waited {HOLD_SECONDS:.0f} s for {whom}. "
                "Nothing was done; it may be called again when that one has ended.",
            )
        self._note(
            "held-too-long", "a call waited too long for its turn", tool=held.tool[: overlap.NAME_SHOWN]
        )
        self.pump(now)

    def _withdraw(self, call: Call, why: str) -> None:
        call.take(Turn.WITHDRAWN)
        self.out.append(Reply(failure(call, why)))

    def _note(self, kind: str, text: str, **fields: str | int) -> None:
        self.out.append(Note(kind, text, fields))
