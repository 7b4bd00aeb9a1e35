"""The calls of one connection: who is refused, who is held, and whose turn it is to have its window opened.

Whatever becomes of a call passes through here, or through `windows` once the server has been given it.
"""

from __future__ import annotations

from mcpwrap.limits import HOLD_SECONDS, NAME_SHOWN
from mcpwrap.protocol import overlap
from mcpwrap.protocol.actions import EndInput, Forward, Note, Refused, Reply, StartupArmed, StartupEnded
from mcpwrap.protocol.annotate import failure, refusal
from mcpwrap.protocol.held import Held, Queue
from mcpwrap.protocol.jsonrpc import as_number
from mcpwrap.protocol.listings import Listings, Wait
from mcpwrap.protocol.mcp import HANDSHAKES
from mcpwrap.protocol.passing import Id
from mcpwrap.protocol.terms import Objection, Terms
from mcpwrap.protocol.window import Call, Turn
from mcpwrap.protocol.windows import Windows

_IN_BATCH = Objection("batch", "another call of its batch was refused")


class Calls(Windows):
    """The book of one connection. Every method appends what is to be done to `out`."""

    def __init__(self, mode: str, terms: Terms, *, startup: bool) -> None:
        super().__init__(mode, terms.window_limit)
        self.held = Queue()
        """Calls the server has not been given."""
        self.listings = Listings(terms)
        self._permit = terms.permit
        self._startup = startup
        self._armed = not startup
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
        if self._object(calls, [self._permit(call) for call in calls]):
            return
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
            verdicts = [self.listings.judge(call, now, self.out) for call in head.calls]
            if Wait.FOR_THE_LIST in verdicts:
                break
            if any(verdicts):
                self.held.remove(head)
                self._object(head.calls, [each for each in verdicts if not isinstance(each, Wait)])
                continue
            if overlap.blocker(head.calls[0], self.active.values(), self._mode) is not None:
                break
            self.held.remove(head)
            self.open(head, now)
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
                tool=held.tool[:NAME_SHOWN],
            )
        else:
            self._forward_cancel(line)
            if request_id is not None:
                self.passing.give_up(request_id)
                if (call := self.in_flight.get(request_id)) is not None:
                    self.drain(call, now)
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

    # Time and end

    def deadline(self) -> float | None:
        """Return when `tick` next has something to do, or None."""
        due = self.next_time()
        if not self.held:
            return due  # Nobody waits for a list, either.
        times = (due, self.listings.deadline(), None if self._startup else self.held.deadline())
        return min((time for time in times if time is not None), default=None)

    def tick(self, now: float) -> None:
        """Do what is due for open windows; answer calls that were held too long."""
        self.pass_time(now)
        self.listings.tick(now)
        self.pump(now)
        while not self._startup and (due := self.held.deadline()) is not None and due <= now:
            self._give_up(now)

    def end(self) -> None:
        """The server's stream has ended: close every window; held calls are gone with it."""
        self.close_all()
        self.listings.end()
        if self.held:
            self._note("held-lost", "the server ended before these calls were started", calls=len(self.held))
        for held in self.held.drain():
            for call in held.calls:
                call.take(Turn.ENDED)

    # Inside

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
        whom = f"{behind.tool[:NAME_SHOWN]!a}, which still runs" if behind else "its turn"
        for call in held.calls:
            self._withdraw(
                call,
                f"mcpwrap did not start this call: it waited {HOLD_SECONDS:.0f} s for {whom}. "
                "Nothing was done; it may be called again when that one has ended.",
            )
        self._note("held-too-long", "a call waited too long for its turn", tool=held.tool[:NAME_SHOWN])
        self.pump(now)

    def _object(self, calls: list[Call], objections: list[Objection | None]) -> bool:
        """Answer all calls of a line in the server's place, if anything stands against one of them."""
        if not any(objections):
            return False
        for call, objection in zip(calls, objections, strict=True):
            call.take(Turn.WITHDRAWN)
            why = objection or _IN_BATCH
            self.out.append(Refused(call.tool, call.request_id, why))
            self.out.append(Reply(refusal(call, why)))
        return True

    def _withdraw(self, call: Call, why: str) -> None:
        call.take(Turn.WITHDRAWN)
        self.out.append(Reply(failure(call, why)))

    def _note(self, kind: str, text: str, **fields: str | int) -> None:
        self.out.append(Note(kind, text, fields))
