"""Carries out what the interposer says is to be done, in its order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mcpwrap.protocol.actions import (
    Action,
    Closed,
    EndInput,
    Failed,
    Forward,
    Noise,
    Note,
    Opened,
    Reply,
    StartupArmed,
    StartupEnded,
)

if TYPE_CHECKING:
    from mcpwrap.protocol.interposer import Interposer
    from mcpwrap.relay.calls import Calls
    from mcpwrap.relay.journal import Journal
    from mcpwrap.relay.startup import StartupWatch
    from mcpwrap.relay.stderr import ErrorOutput


class Effects:
    """One action at a time; what is an action's consequence (a refused call) is carried out before the next.

    `forward` and `reply` have bytes written to the server and to the client, `end_input` closes the server's stdin
    when all has been written, `failed` is told what cannot go on.
    """

    def __init__(
        self,
        interposer: Interposer,
        calls: Calls,
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

    def _note(self, action: Note) -> None:
        self._journal.note(action.kind, action.text, action.fields)
        if action.loud:
            self._output.say(action.text)
