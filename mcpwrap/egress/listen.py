"""`listen` rules: a port of the host, while the rule is in force, leads to the same port of the server inside.

The relay listens and accepts; the broker connects inside and hands that socket over; then it is a connection
like any other, and parked like any other when nothing covers it.
"""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.egress.dial import Reached
from mcpwrap.egress.given import RANK
from mcpwrap.operation import endpoint
from mcpwrap.policy.hosts import Peer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.egress.channel import Channel
    from mcpwrap.egress.given import Ground
    from mcpwrap.egress.timers import Timer
    from mcpwrap.grant.grant import ListenRule
    from mcpwrap.operation import Decision

BACKLOG: Final = 16
REACH_SECONDS: Final = 5.0
"""The broker gives up after 3 s."""
TURN: Final = 16
"""Connections accepted a turn."""
WAITING: Final = 64
"""Accepted connections whose other end is being made."""

_IN: Final = select.POLLIN


class _Accepted(NamedTuple):
    """`here`: it came to an address of loopback, where only this host can be; `where`: it came from."""

    socket: socket.socket
    port: int
    here: bool
    where: tuple[str, int]
    timer: Timer


class Listeners:
    """The listening sockets of one run. `review` opens and closes them as the grant in force says.

    `splice(inner, reached, peer, covered)` takes a connection that has both its ends.
    """

    def __init__(
        self,
        ground: Ground,
        channel: Channel,
        rules: Iterable[ListenRule],
        in_force: Callable[[ListenRule], Decision],
        splice: Callable[[socket.socket, Reached, Peer, Callable[[], Decision]], None],
        say: Callable[[str], None],
    ) -> None:
        self._ground = ground
        self._channel = channel
        self._rules = tuple({(rule.port, rule.everywhere): rule for rule in rules}.values())
        self._in_force = in_force
        self._splice = splice
        self._say = say
        self._open: dict[ListenRule, list[socket.socket]] = {}
        self._failed: set[ListenRule] = set()
        self._accepted: dict[int, _Accepted] = {}
        self._next = 0

    def review(self) -> None:
        """The grant in force has changed."""
        allowed = [rule for rule in self._rules if self._in_force(rule).allowed]
        every = {rule.port for rule in allowed if rule.everywhere}
        # Who may be reached by everybody is reached from here as well, and a port can be listened at once only.
        wanted = [rule for rule in allowed if rule.everywhere or rule.port not in every]
        for rule in [each for each in self._open if each not in wanted]:
            self._close(rule)
        for rule in wanted:
            if rule not in self._open and rule not in self._failed:
                self._listen(rule)

    def reached(self, number: int, inner: socket.socket) -> None:
        """The broker has connected inside."""
        accepted = self._accepted.pop(number, None)
        if accepted is None:
            inner.close()
            return
        accepted.timer.cancel()
        port, where = accepted.port, accepted.where
        self._splice(
            inner,
            Reached(accepted.socket, endpoint(*where)),
            Peer("", where[0], port, "listen"),
            partial(self._covered, port, here=accepted.here),
        )

    def unreachable(self, number: int) -> None:
        """Nobody listens inside."""
        accepted = self._accepted.pop(number, None)
        if accepted is not None:
            accepted.timer.cancel()
            accepted.socket.close()

    def close(self) -> None:
        for rule in list(self._open):
            self._close(rule)
        for number in list(self._accepted):
            self.unreachable(number)

    def _covered(self, port: int, *, here: bool) -> Decision:
        """Return whether a rule in force, be it another than at first, lets somebody from `here` or afar in."""
        fit = [rule for rule in self._rules if rule.port == port and (rule.everywhere or here)]
        decisions = [self._in_force(rule) for rule in fit]
        return next((each for each in decisions if each.allowed), decisions[0])

    def _listen(self, rule: ListenRule) -> None:
        made: list[socket.socket] = []
        problem, taken = "", []
        for host in ("::", "0.0.0.0") if rule.everywhere else ("127.0.0.1", "::1"):
            try:
                made.append(_listener(host, rule.port))
            except OSError as error:
                # The other family may be absent here; that a port is taken is for the user to know.
                problem = problem or error.strerror or str(error)
                if error.errno == errno.EADDRINUSE:
                    taken.append(host)
            if rule.everywhere and made:
                break  # "::" takes IPv4 as well
        if not made:
            self._failed.add(rule)
            self._say(
                f"cannot listen on port {rule.port} of this host: {problem}; the server goes on without"
            )
            return
        for host in taken:
            self._say(
                f"port {rule.port} of {host} is in use already: the server is not reached there by this rule"
            )
        self._open[rule] = made
        for each in made:
            self._ground.pumps.add(each.fileno(), _IN, partial(self._accept, rule, each), rank=RANK)

    def _accept(self, rule: ListenRule, listener: socket.socket, _events: int) -> None:
        for _ in range(TURN):
            try:
                made, where = listener.accept()
            except OSError:
                return
            self._next += 1
            number = self._next
            if len(self._accepted) >= WAITING or not self._channel.send("reach", id=number, port=rule.port):
                made.close()
                continue
            timer = self._ground.timers.at(
                self._ground.clock() + REACH_SECONDS, partial(self.unreachable, number)
            )
            came_to = _plain(made.getsockname()[0])
            here = came_to == "::1" or came_to.startswith("127.")
            self._accepted[number] = _Accepted(made, rule.port, here, (_plain(where[0]), where[1]), timer)

    def _close(self, rule: ListenRule) -> None:
        for each in self._open.pop(rule):
            self._ground.pumps.drop(each.fileno())
            each.close()


def _plain(address: str) -> str:
    return address.removeprefix("::ffff:")


def _listener(host: str, port: int) -> socket.socket:
    made = socket.socket(
        socket.AF_INET6 if ":" in host else socket.AF_INET,
        socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC,
    )
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if ":" in host:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        made.bind((host, port))
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    return made
