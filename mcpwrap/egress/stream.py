"""One connection of the server to a peer outside: judged, dialed, spliced, parked, ended.

It was let in by the broker when a window that grants the peer was open. From then on it belongs to that peer,
not to that window: while nothing open covers the peer it is *parked*. No byte passes either way; the end of
an idle side does, since programs that keep connections for later must see that they are gone. A server
whose pool were cut after every call would crash (server-postgres did).
"""

from __future__ import annotations

import errno
import os
import select
from collections.abc import Callable
from socket import MSG_PEEK
from typing import TYPE_CHECKING, Final

from mcpwrap.egress.dial import Dial, Reached
from mcpwrap.egress.flow import Flow
from mcpwrap.egress.given import ASTRAY, Ended
from mcpwrap.egress.greeting import Greeting
from mcpwrap.egress.side import ENDING, READABLE, WRITABLE, Side
from mcpwrap.egress.timers import Alarm
from mcpwrap.operation import Decision, Event, Need, Operation
from mcpwrap.policy.hosts import spelled

if TYPE_CHECKING:
    import socket

    from mcpwrap.egress.dial import Failure
    from mcpwrap.egress.given import Ground
    from mcpwrap.egress.tunnel import Proxy
    from mcpwrap.policy.hosts import Peer

PARKED_SECONDS: Final = 600.0
"""A parked connection is ended after so long: pools drop idle ones after 10 s to 10 min of their own accord."""
LAST_BYTES: Final = 4 * 1024 * 1024
"""What may pass at the end of a window: as much as the two sockets' buffers hold."""

_ERROR: Final = select.POLLERR


class Stream:
    """Call `begin` once, `review` whenever the grant in force has changed.

    `covered` decides whether bytes may pass now. `share()` is how many bytes one turn may move in a direction.
    `gone(stream)` is called when it is over, whoever ended it. `moved`: when bytes last passed.
    """

    def __init__(
        self,
        ground: Ground,
        peer: Peer,
        windows: tuple[str, ...],
        server: socket.socket,
        *,
        covered: Callable[[], Decision],
        share: Callable[[], int],
        gone: Callable[[Stream], None],
        proxy: Proxy | None = None,
        greets: bool = False,
        reached: Reached | None = None,
    ) -> None:
        """`greets`: a TLS ClientHello that names the peer must come first. `reached`: need not be dialed."""
        self.peer = peer
        self.moved = ground.clock()
        self.parked = True
        self.rule = ""
        self._ground = ground
        self._windows = windows
        self._covered = covered
        self._share = share
        self._gone = gone
        self._proxy = proxy
        self._server = Side(server, ground.pumps, self._on_server)
        self._remote: Side | None = None
        self._reached = reached
        self._dial: Dial | None = None
        self._greeting = Greeting(peer.name, server) if greets else None
        self._first = b""
        self._up: Flow | None = None
        self._down: Flow | None = None
        self._alarm = Alarm(ground.timers, ground.clock)
        self._opened = ground.clock()
        self._over = False

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes from the server and to it."""
        return (self._up.count if self._up else 0, self._down.count if self._down else 0)

    def begin(self) -> None:
        """Look at the grant for the first time; dial if it allows that."""
        self.review()
        if self.parked and not self._over:
            self._park()

    def review(self) -> None:
        """Look at the grant in force: park or go on."""
        if self._over:
            return
        decision = self._covered()
        reached = self._reached
        if decision.allowed and reached is not None and not reached.fits(self.peer, self._ground.effective()):
            # Another tool's rule let this address be dialed. Whose turn it is now dials anew, and is told there.
            self.reset(ASTRAY)
        elif decision.allowed:
            self.rule = decision.rule
            if self.parked:
                self.parked = False
                self._resume()
        elif not self.parked:
            # What the server wrote before it answered was written in its window, and still passes.
            if self._greeting is None:
                self._pass(self._up, share=LAST_BYTES)
            self.parked = True
            if not self._over:
                self._park()

    def reset(self, how: str) -> None:
        """End both sides at once, each seeing that it was no orderly end."""
        self.end(how, reset=True)

    def end(self, how: str, *, reset: bool = False) -> None:
        """End both sides, in order unless `reset`."""
        if self._over:
            return
        self._over = True
        self._alarm.cancel()
        if self._dial is not None:
            self._dial.close()
        for flow in (self._up, self._down):
            if flow is not None:
                flow.close()
        for side in (self._server, self._remote):
            if side is not None:
                side.close(reset=reset)
        reached = self._reached
        self._ground.ended(
            Ended(
                self.peer,
                self._windows,
                self.rule,
                reached.address if reached is not None else "",
                reached.via if reached is not None else "",
                *self.bytes,
                self._ground.clock() - self._opened,
                how,
            )
        )
        self._gone(self)

    # Parked or not

    def _park(self) -> None:
        self._alarm.set(PARKED_SECONDS, lambda: self.end("parked for too long"))
        self._look()

    def _resume(self) -> None:
        self._alarm.cancel()
        self._server.late = False
        if self._greeting is not None:
            self._await_greeting(self._greeting)
        if self._over:
            return
        if self._remote is not None:
            self._remote.late = False
            self._moved_on()
            return
        self._look()
        if self._reached is not None:
            self._on_reached(self._reached)
        elif self._dial is None:
            self._dial = Dial(self._ground, self.peer, self._proxy, self._on_reached)
            self._dial.start()

    # On the way

    def _on_reached(self, reached: Reached | Failure) -> None:
        self._dial = None
        if not isinstance(reached, Reached):
            self._refuse(reached.decision, reached.detail, reached.error)
            self.reset(reached.detail)
            return
        self._reached = reached
        remote = reached.socket
        self._remote = Side(remote, self._ground.pumps, self._on_remote)
        self._remote.keep_alive()
        self.review()  # another grant may be in force than the one that let it be dialed
        if not self._over:
            self._moved_on()

    def _await_greeting(self, greeting: Greeting) -> None:
        self._alarm.set(greeting.seconds, lambda: self._unfit(greeting.silence()))
        self._read_greeting(greeting)

    def _read_greeting(self, greeting: Greeting) -> None:
        try:
            fit = greeting.look()
        except OSError as error:
            self.reset(error.strerror or "broken")
            return
        if greeting.problem:
            self._unfit(greeting.problem)
        elif fit:
            self._first = greeting.taken
            self._greeting = None
            self._alarm.cancel()
            self._moved_on()

    def _unfit(self, problem: str) -> None:
        self._refuse(Decision(False, "sni"), problem, errno.ECONNRESET)
        self.reset(problem)

    def _moved_on(self) -> None:
        """One more of three conditions is met: the greeting, the way, the grant. If all are, bytes may pass."""
        if self._greeting is None and self._remote is not None:
            if self._up is None:
                server, remote, pipes = self._server.socket, self._remote.socket, self._ground.pipes
                self._up, self._down = Flow(server, remote, pipes, self._first), Flow(remote, server, pipes)
                self._first = b""
            if not self.parked:
                self._pass(self._up, self._down)
                return
        self._look()

    def _refuse(self, decision: Decision, written: str, error: int) -> None:
        operation = Operation("connect", Need.CONNECT, spelled(self.peer), written)
        self._ground.event(Event(operation, decision, self._windows, error))

    # Bytes

    def _pass(self, *flows: Flow | None, share: int = 0) -> None:
        """Move what each flow can move this turn, or `share`."""
        share = share or self._share()
        try:
            for flow in flows:
                if flow is not None and not flow.passed and flow.move(share):
                    self.moved = self._ground.clock()
        except OSError as error:
            self.reset(error.strerror or "broken")
            return
        if self._up is not None and self._up.passed and self._down is not None and self._down.passed:
            self.end("closed")
        else:
            self._look()

    def _on_server(self, events: int) -> None:
        self._on(self._server, events, self._up, self._down)

    def _on_remote(self, events: int) -> None:
        assert self._remote is not None
        self._on(self._remote, events, self._down, self._up)

    def _on(self, side: Side, events: int, outward: Flow | None, inward: Flow | None) -> None:
        """`outward` takes its bytes from `side`, `inward` brings bytes to it."""
        if events & _ERROR and (error := side.error()):
            self.reset(os.strerror(error))
        elif not events & side.wanted:
            side.hang()
        elif self.parked:
            self._on_end_while_parked(side, outward)
        elif self._greeting is not None:
            self._read_greeting(self._greeting)
        else:
            self._pass(outward if events & ~WRITABLE else None, inward if events & WRITABLE else None)

    def _on_end_while_parked(self, side: Side, outward: Flow | None) -> None:
        try:
            waiting = outward is None or outward.held or side.socket.recv(1, MSG_PEEK)
        except BlockingIOError:
            return
        except OSError as error:
            self.reset(error.strerror or "broken")
            return
        if waiting:
            side.late = True
            self._look()
        else:
            self._pass(outward)

    def _look(self) -> None:
        """Watch each side for what can be done with it now."""
        if self._over:
            return
        self._server.watch(self._interest(self._server, self._up, self._down))
        if self._remote is not None:
            self._remote.watch(self._interest(self._remote, self._down, self._up))

    def _interest(self, side: Side, outward: Flow | None, inward: Flow | None) -> int:
        if self.parked:
            # The end of what never began is found when it begins.
            return ENDING if outward is not None and not outward.ended and not side.late else 0
        if self._greeting is not None:
            return READABLE if side is self._server else 0
        if outward is None or inward is None:
            return 0
        return (0 if outward.ended or outward.held else READABLE) | (WRITABLE if inward.held else 0)
