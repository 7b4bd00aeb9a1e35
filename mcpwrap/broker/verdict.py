"""The grant in force, asked and recorded: the broker's only door to the policy and to the relay."""

from __future__ import annotations

import json
import os
from errno import ENOENT, EROFS
from typing import TYPE_CHECKING

from mcpwrap.operation import Decision, Event, Need, Operation

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.effective import Effective
    from mcpwrap.policy.page import PageReader

REMEMBERED_EVENTS = 4_096
"""Distinct allowed events of one generation that are told once; beyond, each is told again."""


READ_ONLY = {"cache": EROFS, "loaded": EROFS, "kept-home": EROFS}
"""Rules whose refusal is the one a read-only file system would give: what it is by then."""


class RelayGone(Exception):
    """Nobody takes records any more. No OSError, of which a socket of the server's can be the cause as well."""


def refused_with(decision: Decision, need: Need, otherwise: int) -> int:
    """Return the errno of a refusal.

    A program that is refused quietly is absent: servers that look for one of several, such as a helper that
    need not be installed, go on without it, and few expect that it is there and forbidden.
    """
    if need is Need.EXEC and decision.quiet:
        return ENOENT
    return READ_ONLY.get(decision.rule, otherwise)


class Verdicts:
    """Decides operations by the windows open now and writes every event that is not routine.

    An event is written to the relay before the notification is answered: whoever reads the
    server's answer finds the events that led to it already in the pipe.
    """

    def __init__(self, policy: Policy, page: PageReader, records: int) -> None:
        self._policy = policy
        self._page = page
        self._records = records
        self._generation = -1
        self._told: set[tuple[str, str, str]] = set()
        self.effective: Effective
        self.refresh()

    def refresh(self) -> None:
        """Take up the grant the relay published last."""
        generation = self._page.generation()
        if generation != self._generation:
            active = self._page.active()
            self._generation = active.generation
            self.effective = self._policy.effective(active)
            self._told.clear()

    @property
    def generation(self) -> int:
        """Number of the publication that is decided by."""
        return self._generation

    def unchanged(self) -> bool:
        """Whether the grant is still the one that was decided by."""
        return self._page.generation() == self._generation

    def decide(
        self,
        act: str,
        need: Need,
        path: str,
        *,
        written: str = "",
        identity: tuple[int, int] | None = None,
        creating: bool = False,
        regular: bool = True,
        host: bool = False,
        errno: int = 13,
        pid: int = 0,
        dotfile: bool = False,
    ) -> Decision:
        """Return the decision on one need on the real `path`, recorded; `errno` is told if refused.

        Of a refused `dotfile` the model is not told, unless it is private.
        """
        decision = self.effective.decide(
            need, path, identity=identity, creating=creating, regular=regular, host=host
        )
        if dotfile and not decision.allowed and not decision.rule.startswith("private"):
            decision = decision._replace(quiet=True)
        if not (decision.allowed and decision.routine):
            errno = refused_with(decision, need, errno)
            self.record(act, need, path, decision, written=written, errno=errno, pid=pid)
        return decision

    def created(self, path: str, *, directory: bool) -> None:
        """Tell the policy what was made under the grant in force: a new `.git` may be filled."""
        self.effective.created(path, directory=directory)

    def removed(self, path: str, *, moved: bool = False) -> None:
        """Tell the policy that `path` is gone from its place; `moved`: a directory that is elsewhere now."""
        self.effective.removed(path, moved=moved)

    def record(
        self,
        act: str,
        need: Need,
        path: str,
        decision: Decision,
        *,
        written: str = "",
        errno: int = 0,
        pid: int = 0,
    ) -> None:
        """Write one event; an allowed one only once while the same windows are open."""
        if decision.allowed:
            key = (act, path, decision.rule)
            if key in self._told:
                return
            if len(self._told) < REMEMBERED_EVENTS:
                self._told.add(key)
            errno = 0
        operation = Operation(act, need, path, written if written != path else "")
        self.write(Event(operation, decision, self.effective.windows, errno, pid))

    def write(self, event: Event) -> None:
        """Write `event` as one line. Raises RelayGone: the pipe is the relay's, a closed one ends the tree."""
        line = encode(event)
        try:
            while line:
                line = line[os.write(self._records, line) :]
        except BrokenPipeError as gone:
            raise RelayGone from gone


def encode(event: Event) -> bytes:
    """Return the event as one JSON line; `decode` is its inverse."""
    operation, decision = event.operation, event.decision
    fields = {
        "act": operation.act,
        "need": operation.need,
        "object": operation.object,
        "written": operation.written,
        "allowed": decision.allowed,
        "rule": decision.rule,
        "quiet": decision.quiet,
        "windows": event.windows,
        "errno": event.errno,
        "pid": event.pid,
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Event:
    """Return the event of one line written by `encode`; `ValueError` or `KeyError` if it is none."""
    fields = json.loads(line)
    return Event(
        Operation(fields["act"], Need(fields["need"]), fields["object"], fields["written"]),
        Decision(fields["allowed"], fields["rule"], quiet=fields["quiet"]),
        tuple(fields["windows"]),
        fields["errno"],
        fields["pid"],
    )
