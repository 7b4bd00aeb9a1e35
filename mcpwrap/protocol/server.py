"""Lines of the server, on their way to the client.

An answer closes its call's window before it goes on, and carries what was refused meanwhile. A response
without a denial goes on byte for byte. What is no JSON-RPC message is noise for stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwrap.limits import GLANCE_BYTES
from mcpwrap.protocol import mcp, splice
from mcpwrap.protocol.actions import Reply
from mcpwrap.protocol.annotate import failure, stripped
from mcpwrap.protocol.asking import is_ours
from mcpwrap.protocol.bounded import Faults
from mcpwrap.protocol.certainty import answered_ids, doubt, lists_tools
from mcpwrap.protocol.doubtful import LOST, Doubtful
from mcpwrap.protocol.framing import stray_cr
from mcpwrap.protocol.glance import outline
from mcpwrap.protocol.jsonrpc import (
    Reader,
    Reading,
    Unreadable,
    usable_id,
)
from mcpwrap.protocol.outcomes import Outcomes
from mcpwrap.protocol.tasks import Tasks
from mcpwrap.protocol.window import Call, State, Turn, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwrap.operation import Denial
    from mcpwrap.protocol.calls import Calls
    from mcpwrap.protocol.questions import Questions


_WITHHELD = "The server's answer was withheld by mcpwrap."


class ServerLines:
    """Takes the server's lines one by one."""

    def __init__(
        self,
        calls: Calls,
        questions: Questions,
        lookups: Callable[[Window], Sequence[Denial]],
        on_denial: str,
    ) -> None:
        self._calls = calls
        self._questions = questions
        self._outcomes = Outcomes(on_denial)
        self._tasks = Tasks(calls, self._outcomes)
        self._lookups = lookups
        self._reader = Reader()
        self._faults = Faults()
        self._doubtful = Doubtful(calls, self._faults)

    def line(self, line: bytes, now: float) -> None:
        """Take one line with its LF."""
        if stray_cr(line):
            self._doubtful.noise(
                line, "raw-cr", "a carriage return inside the line makes it two messages for some clients"
            )
            return
        if len(line) < GLANCE_BYTES or not self._plain(line):
            try:
                self._parsed(self._reader.read(line), line, now)
            except Unreadable as unreadable:
                self._doubtful.unreadable(line, unreadable)
            except RecursionError:
                self._doubtful.unreadable(line, Unreadable("it nests too deep", deep=True))
        self._calls.pump(now)

    # Whole lines

    def _plain(self, line: bytes) -> bool:
        """Take an ordinary answer to a call that saw no denial, by its outline. False if it is none."""
        short = outline(line)
        if short is None:
            return False
        try:
            line.decode()
            reading = self._reader.read(short)
        except (UnicodeDecodeError, Unreadable):
            return False
        message = reading.value
        if type(message) is not dict or doubt(reading, [message]) or "method" in message:
            return False
        request_id = message.get("id")
        if not usable_id(request_id) or request_id == "":
            return False
        call = self._calls.in_flight.get(request_id)
        result = message.get("result")
        if call is None or call.denials or not mcp.is_ordinary(call, result):
            return False
        self._calls.close(call, Turn.ANSWERED, "answered")
        self._calls.out.append(Reply(line))
        return True

    def _parsed(self, reading: Reading, line: bytes, now: float) -> None:
        messages = reading.value if type(reading.value) is list else [reading.value]
        if not any(type(message) is dict and message.get("jsonrpc") == "2.0" for message in messages):
            self._doubtful.noise(line, "noise", "it is no JSON-RPC message")
        elif why := doubt(reading, messages):
            readings = [reading] if reading.exact else [reading, *self._ignoring(line)]
            ids = [each for one in readings for each in answered_ids(one, [one.value])]
            listing = any(lists_tools(one, one.value) for one in readings)
            self._doubtful.uncertain(ids, line, why, passes=not listing)
        elif type(reading.value) is list:
            self._batch(reading, line, now)
        else:
            text = self._message(reading.value, reading.text, now, reading)
            if text is not None:
                self._calls.out.append(Reply(line if text is reading.text else text.encode()))

    def _ignoring(self, line: bytes) -> list[Reading]:
        """Return how a client reads a line that leaves out what is no UTF-8, if it can."""
        try:
            return [self._reader.read(line.decode(errors="ignore").encode())]
        except Unreadable:
            return []

    def _batch(self, reading: Reading, line: bytes, now: float) -> None:
        text = reading.text
        kept: list[str] = []
        changed = False
        for message, span in zip(reading.value, splice.elements(text, splice.whole_value(text)), strict=True):
            own = span.of(text)
            new = self._message(message, own, now, reading)
            changed = changed or new is not own
            if new is not None:
                kept.append(new.rstrip("\n"))
        if not changed:
            self._calls.out.append(Reply(line))
        elif kept:
            self._calls.out.append(Reply(("[" + ",".join(kept) + "]\n").encode()))

    # One message

    def _message(self, message: dict[str, Any], text: str, now: float, reading: Reading) -> str | None:
        """Return what goes to the client for one certain message: `text` itself, a changed one, or None."""
        text = self._without_ours(message, text)
        calls = self._calls
        if "method" in message:
            return self._own(message, text)
        spelled = request_id = message.get("id")
        if type(request_id) is not int or request_id not in calls.in_flight:
            request_id = calls.meant(request_id)
        if calls.listings.expects(spelled):
            calls.listings.take_own(message, text, twice=bool(reading.twice), out=calls.out)
            return None
        passes = request_id is None and self._may_pass(spelled, message)
        if (request_id is None and not passes) or request_id in calls.held:
            self._doubtful.forged(spelled)
            return None
        call = calls.in_flight.get(request_id) if request_id is not None else None
        if call is not None:
            return self._answer(call, message, text, now)
        method, task_id = calls.passing.pop(request_id, ("", "")) if request_id is not None else ("", "")
        if task_id:
            return self._tasks.answered(method, task_id, message, text)
        if method in mcp.HANDSHAKES and "result" in message:
            calls.server_is_up()
        if method == mcp.TOOLS_LIST or lists_tools(reading, message):
            return calls.listings.take(message, text, twice=bool(reading.twice), out=calls.out)
        return text

    def _own(self, message: dict[str, Any], text: str) -> str:
        """Take a request or notification of the server."""
        method = message["method"]
        if type(method) is str:
            self._questions.asked(message)
            if method in mcp.TASK_NOTICES:
                text = self._tasks.noticed(message, text)
            elif method == mcp.LIST_CHANGED:
                self._calls.listings.changed()
        return text

    def _may_pass(self, request_id: object, message: dict[str, Any]) -> bool:
        """Tell whether an answer to nothing in flight goes on: to a line without an id, a cancelled request."""
        if is_ours(request_id):
            return False
        return (request_id is None and "error" in message) or self._calls.passing.may_answer(request_id)

    def _answer(self, call: Call, message: dict[str, Any], text: str, now: float) -> str:
        """Close the call's window and return its answer, with the denials written on it."""
        calls = self._calls
        error = "error" in message
        result = message.get("result")
        task = mcp.created_task(call, result)
        if task is not None and (self._tasks.runs(task["taskId"]) or self._withholds(call, result)):
            task = None
        if task is not None and call.state is not State.DRAINING:
            self._tasks.created(call, task, now)
            return text
        how = "answered"
        if error or mcp.is_error(result):
            how = "error"
            window = call.window
            assert window is not None
            for denial in self._lookups(window):
                call.deny(denial)
        elif type(result) is dict and result.get("resultType") == "input_required":
            how = "input_required"
        if call.denials and self._outcomes.withholds:
            how = "withheld"
        elif how == "input_required" and type(state := message["result"].get("requestState")) is str:
            calls.legs[hash(state)] = call
        calls.close(call, Turn.ANSWERED, how)
        if not call.denials:
            return text
        if self._outcomes.withholds and not error and call.method != mcp.TOOLS_CALL:
            return failure(call, _WITHHELD, call.denials).decode()
        try:
            if error:
                return self._outcomes.of_error(text, ("error",), call)
            # Who does not know of such results takes what content they have for the outcome.
            final = (how != "input_required" and task is None) or "content" in message["result"]
            changed = self._outcomes.written(text, ("result",), call, final=final)
        except RecursionError:
            changed = None
        return changed if changed is not None else failure(call, LOST, call.denials).decode()

    def _withholds(self, call: Call, result: object) -> bool:
        """Tell whether an answer that announces a task already says to the model what is to be withheld."""
        return bool(call.denials) and self._outcomes.withholds and mcp.speaks(result)

    def _without_ours(self, message: dict[str, Any], text: str) -> str:
        """Take away `_meta` keys only mcpwrap may write: a server must not speak in its name."""
        for outer in ("result", "params"):
            part = message.get(outer)
            if type(part) is not dict:
                continue
            inner = part.get("result")
            holders = [((outer,), part)] + ([((outer, "result"), inner)] if type(inner) is dict else [])
            for path, name in [
                (path, name) for path, holder in holders for name in mcp.spoken_for_us(holder)
            ]:
                text = stripped(text, (*path, name))
                what = "the server sent _meta keys in mcpwrap's name; they were removed"
                self._calls.out += self._faults.note("meta-removed", what, loud=True)
        return text
