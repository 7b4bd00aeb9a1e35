"""What the name service answers where a grant has hosts: an address that stands for each, and no look-up.

It answers the union of all grants, since a refusal may be remembered longer than a window lasts; what a
window allows is decided when the address is connected to.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.broker import dns
from mcpwrap.broker.channel import ChannelFull
from mcpwrap.broker.zone import Reply, Zone
from mcpwrap.operation import Need

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.channel import Channel
    from mcpwrap.broker.names import Names
    from mcpwrap.broker.verdict import Verdicts
    from mcpwrap.operation import Decision

QUESTIONS_AWAY: Final = 64
"""Questions the relay has been asked and has not answered."""
AWAY_SECONDS: Final = 10.0
"""Programs give up on a question after 5 to 10 seconds."""


class _Away(NamedTuple):
    question: dns.Question
    reply: Reply
    until: float


class HostZone(Zone):
    """The answers of a grant with hosts."""

    def __init__(
        self,
        verdicts: Verdicts,
        answers: Callable[[str], Decision],
        channel: Channel,
        names: Names,
        forwards: Callable[[str], bool],
        on_address: Callable[[str, bytes], None],
    ) -> None:
        """`answers` decides which names have an address, `forwards` which other questions about them are
        asked outside; `on_address` is called when a name is told to have an address.
        """
        super().__init__(verdicts, answers)
        self._channel = channel
        self._names = names
        self._forwards = forwards
        self._on_address = on_address
        self._away: dict[int, _Away] = {}
        self._asked = 0

    def tick(self, now: float) -> None:
        """Say of what has been asked outside for too long that nobody answers."""
        for ident, away in list(self._away.items()):
            if now >= away.until:
                del self._away[ident]
                away.reply(away.question, dns.respond(away.question, dns.SERVER_FAILURE))

    def answered(self, ident: object, data: object) -> None:
        """Pass on what the relay was told for question `ident`: a DNS message in hexadecimal digits."""
        away = self._away.pop(ident, None) if isinstance(ident, int) else None
        if away is None or not isinstance(data, str):
            return
        try:
            answer = dns.returned(away.question, bytes.fromhex(data))
        except ValueError:
            answer = None
        away.reply(away.question, answer or dns.respond(away.question, dns.SERVER_FAILURE))

    def _reverse(self, question: dns.Question) -> bytes:
        host = dns.reverse_address(question.name) if question.kind == dns.PTR else None
        known = self._names.name(host) if host is not None else None
        if known is None:
            return super()._reverse(question)
        return dns.respond(question, dns.NO_ERROR, dns.pointer(known))

    def _named(self, question: dns.Question, reply: Reply) -> bytes:
        if question.kind in (dns.SRV, dns.TXT):
            return self._forward(question, reply)
        name = question.name
        if not self._answers(name).allowed:
            return self._refuse(question)
        if question.kind not in (dns.A, dns.ANY):
            return dns.respond(question, dns.NO_ERROR)
        address = self._names.address(name)
        if address is None:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._on_address(name, address)
        return dns.respond(question, dns.NO_ERROR, dns.address(address))

    def _forward(self, question: dns.Question, reply: Reply) -> bytes:
        """Have the relay ask the host's resolver, for names that the grant itself names.

        `_service._tcp.host` is of `host`. A name that only an argument named is not asked for, nor one that no
        open window grants: the question itself would tell somebody something.
        """
        labels = question.name.split(".")
        while labels and labels[0].startswith("_"):
            del labels[0]
        names = (".".join(labels), question.name)
        if not any(self._answers(name).allowed for name in names):
            return self._refuse(question)
        if not any(map(self._forwards, names)):
            return dns.respond(question, dns.NO_ERROR)
        self._verdicts.refresh()
        asked = [self._verdicts.effective.asks(name) for name in names]
        decision = next((each for each in asked if each.allowed), asked[0])
        if not decision.allowed:
            self._tell(question.name, decision)
            # "No such name" would be remembered beyond the call.
            return dns.respond(question, dns.SERVER_FAILURE)
        if len(self._away) >= QUESTIONS_AWAY:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._asked += 1
        try:
            self._channel.send(kind="query", id=self._asked, data=dns.forwarded(question).hex())
        except ChannelFull:
            return dns.respond(question, dns.SERVER_FAILURE)
        self._away[self._asked] = _Away(question, reply, time.monotonic() + AWAY_SECONDS)
        self._verdicts.record("lookup", Need.CONNECT, question.name, decision)
        return b""
