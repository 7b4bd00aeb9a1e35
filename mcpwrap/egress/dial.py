"""The way from the host to a peer: look up, have every address judged, connect to one that passed.

The address that was judged is the address that is dialed: the name is never asked for again, so a name that
is bound anew between the two leads nowhere (threat: DNS rebinding). Addresses are tried as RFC 8305 says.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.egress.given import RANK
from mcpwrap.egress.timers import Alarm
from mcpwrap.egress.tunnel import MAX_HEAD, end_of_head, status
from mcpwrap.operation import Decision

if TYPE_CHECKING:
    from mcpwrap.egress.given import Ground, Guard
    from mcpwrap.egress.resolve import Job
    from mcpwrap.egress.timers import Timer
    from mcpwrap.egress.tunnel import Proxy
    from mcpwrap.policy.hosts import Peer

STAGGER: Final = 0.25
"""Seconds until the next address is tried beside the last one (RFC 8305, 5: Connection Attempt Delay)."""
ABREAST: Final = 4
"""Addresses tried at once; the next one begins when one is given up. A name has as many as its owner likes."""
ATTEMPT_SECONDS: Final = 10.0
"""One address is given up after so long: three SYNs of Linux."""
TOTAL_SECONDS: Final = 30.0
"""The whole way, look-up and proxy included."""

_READABLE, _WRITABLE = 1, 4
_LOOPBACK: Final = ("127.0.0.1", "::1")


class Failure(NamedTuple):
    """Why there is no connection. `decision`: a refusal, or the rule `unreachable`; `detail`: in words."""

    decision: Decision
    detail: str
    error: int = errno.ECONNREFUSED


class Reached(NamedTuple):
    """A connected, non-blocking socket; `address` is where it leads, `via` the proxy it goes through."""

    socket: socket.socket
    address: str
    via: str = ""

    def fits(self, peer: Peer, grant: Guard) -> bool:
        """Whether `grant` lets `peer` lead here. An address is its own proof; behind a proxy the proxy judges."""
        return not peer.name or bool(self.via) or grant.dial(peer, self.address).allowed


def unreachable(detail: str, error: int = errno.ECONNREFUSED) -> Failure:
    return Failure(Decision(False, "unreachable"), detail, error)


class Dial:
    """One way. `done` is called once, from the loop, unless it is closed first."""

    def __init__(
        self, ground: Ground, peer: Peer, proxy: Proxy | None, done: Callable[[Reached | Failure], None]
    ) -> None:
        self._ground = ground
        # The grant under which the server connected: that its window closes on the way makes no refusal of it.
        self._effective = ground.effective()
        self._peer = peer
        self._proxy = proxy
        self._done: Callable[[Reached | Failure], None] | None = done
        self._job: Job[list[str]] | None = None
        self._left: list[str] = []
        self._port = peer.port
        self._attempts: dict[int, tuple[socket.socket, str, Timer]] = {}
        self._stagger = Alarm(ground.timers, ground.clock)
        self._tunnel: Reached | None = None
        self._head = b""
        self._failure = unreachable("no address")
        self._limit = ground.timers.at(
            ground.clock() + TOTAL_SECONDS,
            lambda: self._fail(unreachable("it took too long", errno.ETIMEDOUT)),
        )

    def start(self) -> None:
        """Begin; `done` may be called before this returns."""
        peer, proxy = self._peer, self._proxy
        if proxy is not None and proxy.problem:
            self._fail(Failure(Decision(False, "proxy"), proxy.problem, errno.ENETUNREACH))
        elif proxy is not None:
            if peer.address and (refused := self._refused(peer.address)) is not None:
                self._fail(refused)
                return
            self._port = proxy.port
            self._look_up(proxy.host)
        elif peer.address:
            # One host has both loopback addresses, and a server of it may listen on either.
            others = _LOOPBACK if peer.address in _LOOPBACK else ()
            self._judge(list(dict.fromkeys((peer.address, *others))))
        else:
            self._look_up(peer.name)

    def close(self) -> None:
        """Give up; nobody is called."""
        self._done = None
        self._limit.cancel()
        if self._job is not None:
            self._job.cancel()
        self._stagger.cancel()
        for fd in list(self._attempts):
            self._drop(fd).close()
        if self._tunnel is not None:
            self._ground.pumps.drop(self._tunnel.socket.fileno())
            self._tunnel.socket.close()

    def _look_up(self, name: str) -> None:
        def found(addresses: list[str] | OSError) -> None:
            if isinstance(addresses, OSError):
                self._fail(unreachable(f"{name}: {_words(addresses)}", errno.EHOSTUNREACH))
            elif self._proxy is not None:
                # The proxy is where the user's environment says; what lies behind it is the proxy's to guard.
                self._left = in_turns(addresses)
                self._next()
            else:
                self._judge(addresses)

        self._job = self._ground.resolver.resolve(name, found)

    def _judge(self, addresses: list[str]) -> None:
        """Keep the addresses the grant lets be dialed; the first refusal is told if none is left."""
        refusals = [self._refused(address) for address in addresses]
        self._left = in_turns(
            [each for each, refusal in zip(addresses, refusals, strict=True) if refusal is None]
        )
        if not self._left and addresses:
            self._fail(next(each for each in refusals if each is not None))
            return
        self._next()

    def _refused(self, address: str) -> Failure | None:
        peer = self._peer
        if not peer.name and peer.address in _LOOPBACK and address in _LOOPBACK:
            peer = peer._replace(address=address)
        decision = self._effective.dial(peer, address)
        if decision.allowed:
            return None
        return Failure(decision, f"{self._peer.name or 'it'} is {address}")

    def _next(self) -> None:
        """Try the next address; fail if there is none and nothing is under way."""
        self._stagger.cancel()
        while self._left and len(self._attempts) < ABREAST:
            address = self._left.pop(0)
            if self._try(address):
                break
        if self._done is None:
            return
        if self._left and len(self._attempts) < ABREAST:
            self._stagger.set(STAGGER, self._next)
        elif not self._attempts:
            self._fail(self._failure)

    def _try(self, address: str) -> bool:
        """Begin to connect; False if that failed at once."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        made: socket.socket | None = None
        try:
            made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
            # Two arguments for IPv6 as well: no name can come in here, it would be looked up a second time.
            socket.inet_pton(family, address)
            made.connect((address, self._port))
        except BlockingIOError:
            pass
        except OSError as error:
            if made is not None:
                made.close()
            self._failure = self._no_way(address, error)
            return False
        assert made is not None
        fd = made.fileno()
        timer = self._ground.timers.at(
            self._ground.clock() + ATTEMPT_SECONDS, lambda: self._given_up(fd, errno.ETIMEDOUT)
        )
        self._attempts[fd] = made, address, timer
        self._ground.pumps.add(fd, _WRITABLE, lambda _events: self._on_connected(fd), rank=RANK)
        return True

    def _no_way(self, address: str, error: OSError) -> Failure:
        where = self._proxy.name if self._proxy is not None else address
        return unreachable(f"{where}: {_words(error)}", error.errno or errno.ECONNREFUSED)

    def _on_connected(self, fd: int) -> None:
        made, address, _ = self._attempts[fd]
        error = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._given_up(fd, error)
            return
        self._drop(fd)
        reached = Reached(made, address)
        if self._proxy is None:
            self._succeed(reached)
            return
        for other in list(self._attempts):
            self._drop(other).close()
        self._left.clear()
        self._ask(reached._replace(via=self._proxy.name), self._proxy)

    def _given_up(self, fd: int, error: int) -> None:
        address = self._attempts[fd][1]
        self._drop(fd).close()
        self._failure = self._no_way(address, OSError(error, os.strerror(error)))
        self._next()

    def _drop(self, fd: int) -> socket.socket:
        made, _, timer = self._attempts.pop(fd)
        timer.cancel()
        self._ground.pumps.drop(fd)
        return made

    # Through a proxy

    def _ask(self, reached: Reached, proxy: Proxy) -> None:
        self._tunnel = reached
        self._ground.pumps.add(reached.socket.fileno(), _READABLE, self._on_answer, rank=RANK)
        try:
            # A fresh socket's buffer takes these few hundred bytes at once.
            reached.socket.sendall(proxy.request(self._peer.name or self._peer.address, self._peer.port))
        except OSError as error:
            self._fail(self._no_way(reached.address, error))

    def _on_answer(self, _events: int) -> None:
        reached, proxy = self._tunnel, self._proxy
        assert reached is not None and proxy is not None
        try:
            # Looked at before it is taken: what follows the head is the host's already.
            seen = reached.socket.recv(MAX_HEAD, socket.MSG_PEEK)
            if not seen:
                self._fail(unreachable(f"the proxy {proxy.name} closed the connection"))
                return
            whole = self._head + seen
            size = end_of_head(whole)
            self._head += reached.socket.recv(size - len(self._head) if size else len(seen))
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(self._no_way(reached.address, error))
            return
        if size:
            code = status(self._head)
            if 200 <= code < 300:
                self._ground.pumps.drop(reached.socket.fileno())
                self._tunnel = None
                self._succeed(reached)
            else:
                self._fail(unreachable(f"the proxy {proxy.name} refused it (status {code or 'unreadable'})"))
        elif len(self._head) > MAX_HEAD:
            self._fail(unreachable(f"the proxy {proxy.name} does not answer in HTTP"))

    # The end

    def _succeed(self, reached: Reached) -> None:
        done, self._done = self._done, None
        self.close()
        if done is not None:
            done(reached)
        else:
            reached.socket.close()

    def _fail(self, failure: Failure) -> None:
        done, self._done = self._done, None
        self.close()
        if done is not None:
            done(failure)


def in_turns(addresses: list[str]) -> list[str]:
    """Return the addresses, each family in its order and the two in turns, the first one's first (RFC 8305, 4)."""
    first = [each for each in addresses if (":" in each) == (":" in addresses[0])]
    other = [each for each in addresses if each not in first]
    return [each for pair in zip_longest(first, other) for each in pair if each]


def _words(error: OSError) -> str:
    return error.strerror or str(error) or "unknown error"
