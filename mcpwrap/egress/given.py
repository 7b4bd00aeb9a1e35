"""What the rooms around it give to egress: the loop, the decisions, the ways to tell.

Egress is the relay's side of the network. It is beside relay and policy, so it names what it needs of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from mcpwrap.policy.hosts import spelled

if TYPE_CHECKING:
    from mcpwrap.egress.pipes import Pipes
    from mcpwrap.egress.resolve import Resolver
    from mcpwrap.egress.timers import Timers
    from mcpwrap.operation import Decision, Event
    from mcpwrap.policy.hosts import Peer


class Pumps(Protocol):
    """The poll loop: `poll(2)` event bits in, callbacks out; errors and hang-ups are reported unasked."""

    def add(self, fd: int, interest: int, callback: Callable[[int], None], *, rank: int = 0) -> None: ...

    def want(self, fd: int, interest: int) -> None: ...

    def drop(self, fd: int) -> None: ...


class Guard(Protocol):
    """What the grant of this moment says of the network. `windows`: ids of those that are open."""

    windows: tuple[str, ...]

    def connect(self, peer: Peer) -> Decision:
        """May bytes pass between the server and `peer` now."""

    def dial(self, peer: Peer, address: str) -> Decision:
        """May `address`, to which the host resolved the name of `peer`, be dialed for it."""


class Ended(NamedTuple):
    """One connection that is over, for the audit.

    `address`: what was really dialed, empty if nothing was; `via`: the host's proxy, if it went through one.
    `sent`, `received`: bytes from and to the server. `how`: in words, why it ended.
    """

    peer: Peer
    windows: tuple[str, ...]
    rule: str
    address: str
    via: str
    sent: int
    received: int
    seconds: float
    how: str

    @property
    def target(self) -> str:
        return spelled(self.peer)


class Ground(NamedTuple):
    """All that a connection stands on; shared by all of one run.

    `effective()` is the grant of this moment; `event` takes what was refused, or failed, after the broker had
    let the server connect; `ended` takes what is over; `clock` is the monotonic time.
    """

    pumps: Pumps
    timers: Timers
    pipes: Pipes
    resolver: Resolver
    effective: Callable[[], Guard]
    event: Callable[[Event], None]
    ended: Callable[[Ended], None]
    clock: Callable[[], float]


RANK: Final = 5
"""After everything of the protocol: bulk on a socket never makes a call wait longer than one turn's share."""

ASTRAY: Final = "it leads where the grant in force does not let its name lead"
"""How a connection ends that another grant than the one in force has let be made."""
