"""The broker's side of the way out: names, what stands for hosts inside, and the relay, which has the network."""

from __future__ import annotations

import errno
import os
import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.broker.address import LOOPBACK, LOOPBACK6, Internet
from mcpwrap.broker.channel import Channel, ChannelFull
from mcpwrap.broker.hostzone import HostZone
from mcpwrap.broker.names import Names, free_range
from mcpwrap.broker.place import name
from mcpwrap.broker.resolve import failure
from mcpwrap.broker.watches import READABLE, WRITABLE
from mcpwrap.kernel import sockets
from mcpwrap.policy.hosts import Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.broker.verdict import Verdicts
    from mcpwrap.broker.watches import Watches
    from mcpwrap.policy.compile import Policy

DATAGRAM_SOCKETS: Final = 256
"""UDP addresses handed to the relay and kept in mind."""

REACHES: Final = 64
"""Connections to servers inside that are being made."""
REACH_SECONDS: Final = 3.0
"""Inside a connection is made at once, unless the queue of who listens is full."""


class _Reach(NamedTuple):
    """A connection to the server's own listener, asked for by the relay; `others` are to be tried next."""

    fd: int
    ident: object
    port: int
    others: tuple[bytes, ...]
    until: float


class _NamedHost(NamedTuple):
    """A host (with `suffix`: what ends in `host`) that a rule names; `port` is that of datagrams, if it is one."""

    suffix: bool
    host: str
    port: int

    def holds(self, known: str) -> bool:
        return known.endswith(self.host) if self.suffix else known == self.host


class Network:
    """What is given is `channel`, a descriptor; everything else comes by way of the watches."""

    def __init__(self, channel: int, watches: Watches, policy: Policy, verdicts: Verdicts) -> None:
        self.channel = Channel(channel)
        self.names = Names(free_range(policy.granted_networks))
        self._watches = watches
        self._rules = tuple(_named_hosts(policy))
        self._datagrams: OrderedDict[Internet, None] = OrderedDict()
        self._reaches: dict[int, _Reach] = {}
        self.zone = HostZone(
            verdicts, policy.answers, self.channel, self.names, self._forwards, self._on_address
        )
        watches.add(channel, READABLE, lambda _: self._hear())
        watches.add_tick(self._tick)

    def _tick(self, now: float) -> None:
        """Let go of what has taken too long."""
        for reach in list(self._reaches.values()):
            if now >= reach.until:
                self._give_up(reach, errno.ETIMEDOUT)

    def peer(self, target: Internet, protocol: str) -> Peer | None:
        """Return who is meant by `target` inside; None if it stands for nobody (any more)."""
        if not self.names.stands_for(target.host):
            return Peer("", target.text, target.port, protocol)
        known = self.names.name(target.host)
        return Peer(known, "", target.port, protocol) if known is not None else None

    def open_datagrams(self, target: Internet, peer: Peer) -> None:
        """See to it that datagrams sent to `target` inside come to the relay, which sends them to `peer`.

        Raises ChannelFull; OSError ECONNREFUSED if the server itself has taken that address.
        """
        self.channel.require_room()
        fd = sockets.make(target.family, sockets.DATAGRAM)
        try:
            try:
                name(fd, target)
            except OSError as error:
                if error.errno == errno.EADDRINUSE and target in self._datagrams:
                    return  # handed over before, and not yet given up
                raise failure(errno.ECONNREFUSED) from None
            self.channel.send(fd, kind="datagram", name=peer.name, address=peer.address, port=peer.port)
        finally:
            os.close(fd)
        self._datagrams[target] = None
        self._datagrams.move_to_end(target)
        if len(self._datagrams) > DATAGRAM_SOCKETS:
            self._datagrams.popitem(last=False)

    def _forwards(self, known: str) -> bool:
        """Whether a rule of the grant file names `known`, or a domain it is of."""
        return any(rule.holds(known) for rule in self._rules)

    def _on_address(self, known: str, host: bytes) -> None:
        """Be ready for datagrams to `known`: a send that names its receiver (sendmsg) is not trapped."""
        for rule in self._rules:
            if rule.port and rule.holds(known):
                try:
                    self.open_datagrams(Internet(host, rule.port), Peer(known, "", rule.port, "udp"))
                except OSError:
                    pass  # it is tried again, and then recorded, when the server connects or sends

    # What the relay says

    def _hear(self) -> None:
        for message in self.channel.receive():
            if message is None:
                self._watches.drop(self.channel.fd)
                return
            if message.get("kind") == "answer":
                self.zone.answered(message.get("id"), message.get("data"))
            elif message.get("kind") == "reach":
                port = message.get("port")
                if isinstance(port, int) and 0 < port < 65536:
                    self._reach(
                        message.get("id"), port, (LOOPBACK, LOOPBACK6), time.monotonic() + REACH_SECONDS
                    )

    def _reach(self, ident: object, port: int, hosts: tuple[bytes, ...], until: float) -> None:
        """Connect to who listens on `port` inside, and hand the connection to the relay when it is made."""
        error = errno.EAGAIN
        while hosts and len(self._reaches) < REACHES:
            target, hosts = Internet(hosts[0], port), hosts[1:]
            try:
                fd = sockets.make(target.family, sockets.STREAM)
            except OSError as refused:  # no IPv6 here, or no descriptor left
                error = refused.errno or errno.EIO
                continue
            reach = self._reaches[fd] = _Reach(fd, ident, port, hosts, until)
            self._watches.add(fd, WRITABLE, partial(self._reached, reach))
            try:
                sockets.connect(fd, target.packed(target.family))
            except BlockingIOError:
                return
            except OSError as refused:
                error = refused.errno or errno.EIO
                self._forget(reach)
                continue
            return
        self._say(kind="unreachable", id=ident, errno=error)

    def _reached(self, reach: _Reach, _: int) -> None:
        error = sockets.error(reach.fd)
        if error:
            self._give_up(reach, error)
        else:
            self._say(reach.fd, kind="reached", id=reach.ident)
            self._forget(reach)

    def _give_up(self, reach: _Reach, error: int) -> None:
        self._forget(reach)
        if reach.others and error == errno.ECONNREFUSED:
            self._reach(reach.ident, reach.port, reach.others, reach.until)
        else:
            self._say(kind="unreachable", id=reach.ident, errno=error)

    def _forget(self, reach: _Reach) -> None:
        self._watches.drop(reach.fd)
        del self._reaches[reach.fd]
        os.close(reach.fd)

    def _say(self, passed: int | None = None, **message: object) -> None:
        try:
            self.channel.send(passed, **message)
        except ChannelFull:
            pass  # the connection is closed with our descriptor; the relay gives up waiting by itself


def _named_hosts(policy: Policy) -> Iterator[_NamedHost]:
    """Yield what the grant's rules name."""
    for block in policy.grant.blocks:
        for rule in block.hosts:
            if rule.kind in ("name", "suffix"):
                single = rule.protocol == "udp" and rule.ports[0] == rule.ports[1]
                yield _NamedHost(rule.kind == "suffix", rule.host, rule.ports[0] if single else 0)
