"""The one facade of the protocol room: what both sides say, and when, in; what is to be done, out.

    client ── from_client ──► Lines ──► ClientLines ──► Calls ──► Opened, Forward …
    server ── from_server ──► Lines ──► ServerLines ──► Calls ──► Closed, Reply …

The caller does the actions in order: on `Opened` it puts the window's grant into force before it writes the
bytes of the `Forward` behind it; on `Closed` it withdraws the grant and has the records on disk before it
writes the `Reply`. What the kernel refused is told by `denied` before the answer's bytes are fed to
`from_server`. No clock is read: `now` is any clock that never goes back, in seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.limits import MAX_LINE, UNPARSABLE_LINES
from mcpwrap.protocol import overlap as overlaps
from mcpwrap.protocol.actions import Action, Failed, Noise, Note, Reply
from mcpwrap.protocol.calls import Calls
from mcpwrap.protocol.client import ClientLines
from mcpwrap.protocol.framing import Lines
from mcpwrap.protocol.jsonrpc import PARSE_ERROR, error_reply
from mcpwrap.protocol.questions import Questions
from mcpwrap.protocol.server import ServerLines

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcpwrap.operation import Denial
    from mcpwrap.protocol.terms import Terms
    from mcpwrap.protocol.window import Window


class Interposer:
    """Stands between one client and one server. Every method returns the actions to do, in order."""

    def __init__(
        self,
        *,
        overlap: str,
        terms: Terms,
        lookups: Callable[[Window], Sequence[Denial]],
        max_line: int = MAX_LINE,
        startup: bool = True,
    ) -> None:
        """Begin a connection.

        `overlap` is "auto", "serialize" or "union"; `terms` is what else the grant asks of calls. `lookups(window)`
        is asked after an error answer for arguments that name existing objects the call may not reach. `max_line`
        is in bytes. With `startup`, calls are held until `startup_quiet`.
        """
        if overlap not in overlaps.MODES:
            raise ValueError(f"overlap is {overlap!r}, not one of {sorted(overlaps.MODES)}")
        self._calls = Calls(overlap, terms, startup=startup)
        questions = Questions(self._calls)
        self._client = ClientLines(self._calls, questions, overlap, terms.listed)
        self._server = ServerLines(self._calls, questions, lookups, terms.on_denial)
        self._max_line = max_line
        self._from_client = Lines(max_line)
        self._from_server = Lines(max_line)
        self._server_ended = False

    def from_client(self, data: bytes, now: float) -> list[Action]:
        """Take bytes the client wrote. Once the server has ended, or the client has failed, they go nowhere."""
        if self._server_ended or self._client.is_hopeless():
            return []
        was = self._from_client.too_long
        for line in self._from_client.feed(data):
            self._client.line(line, now)
            if self._client.is_hopeless():
                self._give_up_client()
                return self._done()
        if self._from_client.too_long and not was:
            self._too_long("client")
        return self._done()

    def from_server(self, data: bytes, now: float) -> list[Action]:
        """Take bytes the server wrote to its stdout."""
        was = self._from_server.too_long
        for line in self._from_server.feed(data):
            self._server.line(line, now)
        if self._from_server.too_long and not was:
            self._too_long("server")
        return self._done()

    def client_eof(self, now: float) -> list[Action]:
        """The client's stream has ended. `EndInput` follows, at once or behind the last held call."""
        rest = self._from_client.rest()
        if rest:
            text = "the client's stream ended inside a line; it was dropped"
            self._calls.out.append(Note("unfinished", text, {"bytes": len(rest)}, loud=True))
        self._calls.end_input(now)
        return self._done()

    def server_eof(self, now: float) -> list[Action]:  # noqa: ARG002 (all inputs carry their time)
        """The server's stdout has ended: every window is closed, and no answer is made up."""
        rest = self._from_server.rest()
        if rest:
            self._calls.out.append(Noise(rest))
            text = "the server's stdout ended inside a line"
            self._calls.out.append(Note("unfinished", text, {"bytes": len(rest)}))
        self._server_ended = True
        self._calls.end()
        return self._done()

    def startup_quiet(self, now: float) -> list[Action]:
        """Start-up is over: the server was quiet, or its time was up."""
        self._calls.startup_quiet(now)
        return self._done()

    def denied(self, window_ids: tuple[str, ...], denial: Denial) -> None:
        """The kernel refused something while these windows were open; of several, no one knows in which."""
        for window_id in window_ids:
            call = self._calls.active.get(window_id)
            if call is not None:
                call.deny(denial)

    def refuse(self, window: Window, text: str, now: float) -> list[Action]:
        """The window just opened could not be put into force: `text` tells the model why."""
        self._calls.refuse(window.id, text)
        self._calls.pump(now)
        return self._done()

    def tick(self, now: float) -> list[Action]:
        """Do what `deadline` said is due."""
        self._calls.tick(now)
        return self._done()

    def deadline(self) -> float | None:
        """Return the time at which `tick` has something to do, or None."""
        return self._calls.deadline()

    def _give_up_client(self) -> None:
        text = (
            f"the client sent {UNPARSABLE_LINES} lines in a row that are not JSON; nothing more of it is read"
        )
        self._calls.out.append(Reply(error_reply(None, PARSE_ERROR, f"mcpwrap ends this connection: {text}")))
        self._calls.out.append(Failed(text))

    def _too_long(self, side: str) -> None:
        what = f"the {side} sent a line of more than {self._max_line} bytes"
        self._calls.out.append(Failed(f"{what}; --max-line sets another limit"))

    def _done(self) -> list[Action]:
        out = self._calls.out
        self._calls.out = []
        return out
