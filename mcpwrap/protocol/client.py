"""Lines of the client, on their way to the server.

Whatever might be a call for some server, and cannot be read with certainty, is answered here and never
forwarded; so is what is no message. Everything else passes at once, as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwrap.limits import LONG_TEXT_BYTES, MAX_DEPTH, UNPARSABLE_LINES
from mcpwrap.protocol import mcp, overlap
from mcpwrap.protocol.actions import Forward, Note, Reply
from mcpwrap.protocol.asking import is_ours
from mcpwrap.protocol.bounded import is_short
from mcpwrap.protocol.framing import stray_cr
from mcpwrap.protocol.glance import STAND_IN, LongText, calls_outline
from mcpwrap.protocol.jsonrpc import (
    BLANK,
    ENVELOPE,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOTYPE,
    Reader,
    Reading,
    Unreadable,
    deeper_than,
    error_reply,
    folded,
    named,
    usable_id,
)
from mcpwrap.protocol.window import Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.protocol.calls import Calls
    from mcpwrap.protocol.passing import Id
    from mcpwrap.protocol.questions import Questions

_BLANK = BLANK.encode()


class Refusal(Exception):
    """A message that is not forwarded: the JSON-RPC error to answer with, or with no `code` nothing."""

    def __init__(self, why: str, code: int = 0, request_id: Id | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.code = code
        self.request_id = request_id


class ClientLines:
    """Takes the client's lines one by one."""

    def __init__(self, calls: Calls, questions: Questions, mode: str, listed: frozenset[str]) -> None:
        self._calls = calls
        self._questions = questions
        self._mode = mode
        self._listed = listed
        self._reader = Reader()
        self._outlines = Reader(self._long_text)
        self._sizes: Iterator[int] = iter(())
        self._unparsable = 0

    def is_hopeless(self) -> bool:
        """Tell whether so many lines in a row were no JSON that no more is to be expected."""
        return self._unparsable >= UNPARSABLE_LINES

    def line(self, line: bytes, now: float) -> None:
        """Take one line with its LF."""
        try:
            if stray_cr(line):
                raise Refusal(
                    "a carriage return inside the line makes it two messages for some servers", PARSE_ERROR
                )
            if len(line) > LONG_TEXT_BYTES and (call := self._glanced(line)) is not None:
                self._calls.submit(line, [call], now)
                return
            try:
                reading = self._reader.read(line)
            except Unreadable as unreadable:
                if not line.strip(_BLANK):
                    self._calls.out.append(Forward(line))
                    return
                raise Refusal(str(unreadable), PARSE_ERROR) from None
            if not reading.exact:
                raise Refusal("it is not UTF-8", PARSE_ERROR)
            self._unparsable = 0
            if type(reading.value) is dict:
                self._message(reading, line, now)
            elif type(reading.value) is list:
                self._batch(reading, line, now)
            else:
                raise Refusal("it is no message", INVALID_REQUEST)
        except Refusal as refusal:
            if refusal.code == PARSE_ERROR:
                self._unparsable += 1
            self._refuse(refusal)

    def _glanced(self, line: bytes) -> Call | None:
        """Return the call a large line makes with certainty, its long arguments unread; None if it is to be parsed.

        Only what lies inside `arguments` may be long: all that is not certain or not to be forwarded is parsed,
        and answered then.
        """
        found = calls_outline(line)
        if found is None:
            return None
        short, sizes = found
        self._sizes = iter(sizes)
        try:
            line.decode()
            reading = self._outlines.read(short)
            message = reading.value
            params = message.get("params") if type(message) is dict else None
            if type(params) is not dict or any(type(value) is LongText for value in params.values()):
                return None
            return self._read(reading, message)
        except (UnicodeDecodeError, Unreadable, Refusal):
            return None

    def _long_text(self, constant: str) -> LongText | float:
        return LongText(next(self._sizes)) if constant.encode() == STAND_IN else float(constant)

    def _message(self, reading: Reading, line: bytes, now: float) -> None:
        message = reading.value
        call = self._read(reading, message)
        if call is not None:
            self._calls.submit(line, [call], now)
        elif message.get("method") == mcp.CANCELLED:
            self._calls.cancel(self._cancelled(reading, message), line, now)
        else:
            self._calls.out.append(Forward(line))
            self._passed(message)

    def _batch(self, reading: Reading, line: bytes, now: float) -> None:
        messages = [message for message in reading.value if type(message) is dict]
        named_ids = [message.get("id") for message in messages if "method" in message]
        ids = [request_id for request_id in named_ids if usable_id(request_id)]
        try:
            calls = [call for message in messages if (call := self._read(reading, message)) is not None]
            if len(messages) != len(reading.value):
                raise Refusal("it holds what is no message", INVALID_REQUEST)
            if len(set(ids)) != len(ids):
                raise Refusal("it uses one id twice", INVALID_REQUEST)
            if conflict := overlap.batch_conflict(calls, self._mode):
                raise Refusal(conflict, INVALID_REQUEST)
        except Refusal as refusal:
            # All of it or nothing: each request in it hears why, those without a usable id cannot.
            for request_id in dict.fromkeys(ids) if refusal.code else []:
                self._refuse(Refusal(f"the batch is refused: {refusal.why}", INVALID_REQUEST, request_id))
            if not ids or not refusal.code:
                self._refuse(refusal)
            return
        for message in messages:
            if message.get("method") == mcp.CANCELLED:
                self._calls.cancel(self._cancelled(reading, message), b"", now)
        if calls:
            self._calls.submit(line, calls, now, is_batch=True)
        else:
            self._calls.out.append(Forward(line))
        for message in messages:
            if not mcp.opens_window(str(message.get("method")), self._listed):
                self._passed(message)

    def _read(self, reading: Reading, message: dict[str, Any]) -> Call | None:
        """Return the call a message makes, or None if it is certain that it makes none. Raises `Refusal`."""
        twice = bool(reading.twice)
        if (twice and reading.is_twice(message)) or ENVELOPE.odd(message):
            pairs = list(reading.pairs(message))
            if not named(pairs, "method"):
                return None
            ids = named(pairs, "id")
            if not ids:
                raise Refusal("a notification whose members are named twice, or in odd case")
            only = ids[0] if len(ids) == 1 and usable_id(ids[0]) else None
            raise Refusal("members are named twice, or in odd case", INVALID_REQUEST, only)
        method, request_id = message.get("method"), message.get("id")
        usable = request_id if usable_id(request_id) else None
        if PROTOTYPE in message:
            raise Refusal(f"some servers read its {PROTOTYPE} as members of its own", INVALID_REQUEST, usable)
        if is_ours(request_id) and "method" in message:
            raise Refusal("ids that begin so are mcpwrap's own", INVALID_REQUEST, request_id)
        if type(method) is not str:
            if method is not None:  # some peers write every member of an answer, absent ones as null
                raise Refusal("a method is a text", INVALID_REQUEST, usable)
            return None
        if method == mcp.CANCELLED and is_ours(self._cancelled(reading, message)):
            raise Refusal("a cancel of what mcpwrap itself asked for")
        if usable_id(request_id):
            if self._calls.is_known(request_id):
                raise Refusal("a request with this id is still in flight", INVALID_REQUEST, request_id)
            if not mcp.opens_window(method, self._listed):
                if mcp.opens_window(_loosely(method), self._listed):
                    raise Refusal(
                        "its method is a call, for who compares loosely", INVALID_REQUEST, request_id
                    )
                return None
        elif mcp.opens_window(_loosely(method), self._listed):
            raise Refusal("a call without an id that every peer reads alike")
        else:
            return None
        if twice:
            raise Refusal("it names a key twice", INVALID_REQUEST, request_id)
        if len(reading.text) > 2 * MAX_DEPTH and deeper_than(MAX_DEPTH, message):
            raise Refusal(f"it nests deeper than {MAX_DEPTH} levels", INVALID_REQUEST, request_id)
        call = mcp.call_of(method, request_id, message.get("params"))
        if type(call) is str:
            raise Refusal(call, INVALID_PARAMS, request_id)
        assert isinstance(call, Call)
        return call

    def _passed(self, message: dict[str, Any]) -> None:
        """Remember what a message that was forwarded asks, or answers."""
        request_id = message.get("id")
        if not usable_id(request_id):
            # It may be answered all the same, under whatever the server makes of that id.
            if "method" in message and "id" in message:
                self._calls.passing.forgot = True
            return
        if "method" in message:
            method = message["method"] if type(message["method"]) is str else ""
            params = message.get("params")
            task = params.get("taskId") if type(params) is dict else None
            self._calls.passing[request_id] = (
                method,
                task if method in mcp.TASK_REQUESTS and type(task) is str and is_short(task) else "",
            )
        elif "result" in message or "error" in message:
            self._questions.replied(request_id)

    def _cancelled(self, reading: Reading, message: dict[str, Any]) -> Id | None:
        """Return the id a cancel names, or None if that is not certain."""
        params = message.get("params")
        if type(params) is not dict or reading.twice:
            return None
        request_id = params.get("requestId")
        return request_id if usable_id(request_id) else None

    def _refuse(self, refusal: Refusal) -> None:
        out = self._calls.out
        text = f"mcpwrap did not forward this message: {refusal.why}"
        if refusal.code:
            out.append(Reply(error_reply(refusal.request_id, refusal.code, text)))
        fields: dict[str, str | int] = {"code": refusal.code}
        if refusal.request_id is not None:
            fields["id"] = refusal.request_id
        out.append(Note("not-forwarded", f"a message of the client: {refusal.why}", fields, loud=True))


def _loosely(method: str) -> str:
    """Return a method as who compares without case, or trims (U+FEFF too, in JavaScript), has it."""
    return folded(method.replace("\ufeff", " ")).strip()
