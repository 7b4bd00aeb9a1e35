"""What the name service answers: of `localhost` what every machine does, and that nothing else exists.

A refused look-up is recorded with the name that was asked for, so that it can be granted.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpwrap.broker import dns
from mcpwrap.broker.address import LOOPBACK, LOOPBACK6
from mcpwrap.operation import Need

if TYPE_CHECKING:
    from mcpwrap.broker.verdict import Verdicts
    from mcpwrap.operation import Decision

REMEMBERED_NAMES: Final = 4_096
"""Refused names that are told once while the same windows are open; beyond, each is told again."""

Reply = Callable[[dns.Question, bytes], None]
"""Sends an answer that comes later to who asked."""


class Zone:
    """The answers where nothing leads out of the sandbox; `hostzone.HostZone` has those of what may be reached."""

    def __init__(self, verdicts: Verdicts, answers: Callable[[str], Decision]) -> None:
        """`answers` decides which names exist."""
        self._verdicts = verdicts
        self._answers = answers
        self._told: set[str] = set()
        self._told_of = -1

    def answer(self, data: bytes, reply: Reply) -> bytes:
        """Return the answer to one message; empty if there is none, or none yet: `reply` is given it then."""
        try:
            question = dns.parse(data)
        except dns.Unanswerable as problem:
            return problem.answer
        name = question.name
        if name == "localhost" or name.endswith(".localhost"):
            # Never a question to the outside (RFC 6761).
            host = {dns.A: LOOPBACK, dns.ANY: LOOPBACK, dns.AAAA: LOOPBACK6}.get(question.kind)
            return dns.respond(question, dns.NO_ERROR, *([dns.address(host)] if host else []))
        if name.endswith(".arpa"):
            return self._reverse(question)
        if not name:
            return dns.respond(question, dns.REFUSED)
        return self._named(question, reply)

    def tick(self, now: float) -> None:
        """Let go of what has taken too long."""

    def _reverse(self, question: dns.Question) -> bytes:
        """Answer which name an address has."""
        return dns.respond(question, dns.NO_SUCH_NAME)

    def _named(self, question: dns.Question, _: Reply) -> bytes:
        """Answer for a name of the outside; as `answer` does."""
        return self._refuse(question)

    def _refuse(self, question: dns.Question) -> bytes:
        """Say that there is no such name."""
        self._verdicts.refresh()
        self._tell(question.name, self._answers(question.name))
        return dns.respond(question, dns.NO_SUCH_NAME)

    def _tell(self, name: str, decision: Decision) -> None:
        """Record a refusal, once while the same windows are open."""
        verdicts = self._verdicts
        if verdicts.generation != self._told_of or len(self._told) >= REMEMBERED_NAMES:
            self._told.clear()
            self._told_of = verdicts.generation
        if name not in self._told:
            self._told.add(name)
            verdicts.record("lookup", Need.CONNECT, name, decision, errno=errno.ENOENT)
