"""Carries out what the interposer says is to be done, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpwrap.limits import NAME_SHOWN, REFUSALS_SAID
from mcpwrap.protocol.actions import (
    Action,
    Closed,
    EndInput,
    Failed,
    Forward,
    Listed,
    Noise,
    Note,
    Opened,
    Refused,
    Reply,
    StartupArmed,
    StartupEnded,
    Withdrawn,
)

if TYPE_CHECKING:
    from mcpwrap.protocol.interposer import Interposer
    from mcpwrap.relay.calls import OpenCalls
    from mcpwrap.relay.journal import Journal
    from mcpwrap.relay.startup import StartupWatch
    from mcpwrap.relay.stderr import ErrorOutput

_BY_HAND = {
    "unknown-tool": '; a header that names it, or `unknown_tools = "allow"` under [policy], would let it be'
}
"""What lets a call be that was not started, by the rule it was refused by: for the user."""


class Effects:
    """One action at a time; what is an action's consequence (a refused call) is carried out before the next.

    `forward` and `reply` have bytes written to the server and to the client, `end_input` closes the server's stdin
    when all has been written, `failed` is told what cannot go on.
    """

    def __init__(
        self,
        interposer: Interposer,
        calls: OpenCalls,
        startup: StartupWatch,
        journal: Journal,
        output: ErrorOutput,
        *,
        forward: Callable[[bytes], None],
        reply: Callable[[bytes], None],
        end_input: Callable[[], None],
        failed: Callable[[str, float], None],
    ) -> None:
        self._interposer = interposer
        self._calls = calls
        self._startup = startup
        self._journal = journal
        self._output = output
        self._write_server = forward
        self._write_client = reply
        self._close_input = end_input
        self._fail = failed
        self._refused: set[str] = set()
        self._audit_full = False
        self._said: set[tuple[str, str, str]] = set()

    def perform(self, actions: Iterable[Action], now: float) -> None:
        for action in actions:
            match action:
                case Forward():
                    # Bytes of a window that could not be put in force start no work.
                    if not self._refused or self._refused.isdisjoint(action.windows):
                        self._write_server(action.data)
                case Reply():
                    self._write_client(action.data)
                case Opened():
                    if action.window.id not in self._refused:
                        self._open(action, now)
                case Closed():
                    self._close(action, now)
                case Withdrawn():
                    self._calls.withdraw_window(action.window)
                    self._flush()
                    self._output.say(
                        f"{action.window.tool[:NAME_SHOWN]!a} has had its time (window_limit): its grant is withdrawn; "
                        '`window_limit = "10m"` under [policy] would give it more'
                    )
                case Refused():
                    self._refuse(action)
                case Listed():
                    self._list(action)
                case Note():
                    self._note(action)
                case Noise():
                    self._output.noise(action.data)
                case StartupArmed():
                    self._startup.arm(now)
                case StartupEnded():
                    self._startup.over = True
                    self._calls.end_startup()
                case EndInput():
                    self._close_input()
                case Failed():
                    self._fail(action.text, now)

    def _open(self, action: Opened, now: float) -> None:
        window = action.window
        reason = self._calls.open_window(window)
        if reason:
            self._output.say(f"refused the call of {window.tool!a}: {reason}")
            self.perform(self._interposer.refuse(window, f"mcpwrap refused the call: {reason}", now), now)

    def _close(self, action: Closed, now: float) -> None:
        if action.how == "refused":
            self._refused.add(action.window.id)  # With it the rest of its batch, opened or not yet.
        try:
            self._calls.close_window(action.window, action.how, action.denials, now)
            self._audit_full = False
        except OSError as error:
            # The call is done and its record is kept in memory; no other is taken until it is written.
            if not self._audit_full:
                self._audit_full = True
                self._output.say(
                    f"the audit cannot be written ({error.strerror}): calls are refused until it can"
                )

    def _refuse(self, action: Refused) -> None:
        objection = action.objection
        self._journal.refused(action.tool, action.request_id, objection)
        self._flush()
        key = (action.tool[:NAME_SHOWN], objection.rule, objection.why)
        if key in self._said or len(self._said) > REFUSALS_SAID:
            return
        self._said.add(key)
        if len(self._said) > REFUSALS_SAID:
            self._output.say("more calls were refused: `mcpwrap audit` prints all of them")
        else:
            self._output.say(
                f"refused: a call of {key[0]!a} was not started: {objection.why} (rule {objection.rule})"
                f"{_BY_HAND.get(objection.rule, '')}"
            )

    def _list(self, action: Listed) -> None:
        self._journal.listed(action.tools, action.held)
        self._flush()
        for tool, held in action.held.items():
            self._output.say(
                f"the tool {tool[:NAME_SHOWN]!a} is held: {held.why}; if that is right, "
                + ("pin what is listed" if held.pinned else "restart the server in your client")
            )

    def _flush(self) -> None:
        with suppress(OSError):  # The next window says so; what was not written is kept.
            self._journal.flush()

    def _note(self, action: Note) -> None:
        self._journal.note(action.kind, action.text, action.fields)
        if action.loud:
            self._output.say(action.text)
