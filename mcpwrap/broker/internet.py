"""Connections and datagrams to internet addresses: to the sandbox itself, or by way of the relay.

The server's own socket is connected, inside, to a listener that exists for this one connection; what was
accepted is handed to the relay, which knows from the decision for which host. Whoever else came by is
sent away: only what was decided reaches the relay.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.broker.address import Internet, family_of, internet
from mcpwrap.broker.bridge import VOID, Socket, bridge, connect_at_once, connect_without_waiting
from mcpwrap.broker.channel import ChannelFull
from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import sockets
from mcpwrap.operation import Decision, Need, endpoint
from mcpwrap.policy.decide import NO_NETWORK

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session
    from mcpwrap.policy.hosts import Peer

DATAGRAM_BYTES: Final = 65_535
"""A larger one is none (EMSGSIZE)."""

_STALE: Final = Decision(False, "stale-address")
_BUSY: Final = Decision(False, "relay-busy")


def connect(session: Session, notification: int, caller: Caller, own: int, raw: bytes) -> bool:
    """Connect the server's internet socket `own`; whether its call is still to be answered, with 0.

    Raises OSError with the errno it is to be refused with.
    """
    socket = Socket(own)
    family = family_of(raw)
    if family == sockets.AF_UNSPEC:
        sockets.connect(own, raw)  # to nobody: a connection is given up
        return True
    if socket.protocol == "tcp" and sockets.tcp_state(own) != sockets.TCP_CLOSE:
        # Connecting, connected or listening: the kernel says which, and makes no new connection of it.
        connect_without_waiting(socket, VOID)
        return True
    target = internet(raw, family)
    place = session.place
    if place.is_stub(target):
        try:
            return _inside(session, notification, socket, place.stub)
        finally:
            session.stub.expect(own)
    asked = _ask(session, target, socket.protocol)
    network, peer = session.network, asked.peer
    if network is None or peer is None or not asked.decision.allowed:
        if not place.is_inside(target):
            raise _refused(session, caller, "connect", asked)
        try:
            return _inside(session, notification, socket, target)
        except ConnectionRefusedError:
            # The loopback of the sandbox is not the host's: what was meant may well run there.
            raise _refused(session, caller, "connect", asked) from None
    _record(session, caller, "connect", asked)
    try:
        if socket.protocol == "udp":
            network.open_datagrams(target, peer)
            connect_without_waiting(socket, target)
        else:
            bridge(session, network, socket, target, peer)
    except ChannelFull:
        raise _refused(session, caller, "connect", asked._replace(decision=_BUSY)) from None
    return True


def send(
    session: Session,
    notification: int,
    caller: Caller,
    own: int,
    raw: bytes,
    data: tuple[int, int],
    flags: int,
) -> int | None:
    """Send one datagram (`data`: where in the caller's memory, how long) to the copied address `raw`.

    Returns the number of bytes; None if the call will be answered by somebody else. Raises OSError.
    """
    socket = Socket(own)
    family = family_of(raw)
    # To sendto on an IPv4 socket a family that is not given is IPv4 (udp_sendmsg of net/ipv4/udp.c).
    if family == sockets.AF_UNSPEC and socket.family == sockets.AF_INET:
        family = sockets.AF_INET
    target = internet(raw, family)
    place = session.place
    if place.is_stub(target):
        target = place.stub
    else:
        asked = _ask(session, target, "udp")
        network, peer = session.network, asked.peer
        if network is not None and peer is not None and asked.decision.allowed:
            _record(session, caller, "send", asked)
            try:
                network.open_datagrams(target, peer)
            except ChannelFull:
                raise _refused(session, caller, "send", asked._replace(decision=_BUSY)) from None
        elif not place.is_inside(target):
            raise _refused(session, caller, "send", asked)
    if data[1] > DATAGRAM_BYTES:
        raise failure(errno.EMSGSIZE)
    payload = caller.memory(*data)
    packed = target.packed(socket.family)
    if not session.listener.alive(notification):
        raise failure(errno.ESRCH)
    try:
        return sockets.send_to(own, payload, flags | sockets.MSG_DONTWAIT | sockets.MSG_NOSIGNAL, packed)
    except BlockingIOError:
        if not socket.blocking or flags & sockets.MSG_DONTWAIT:
            raise
    session.park(
        lambda: session.listener.answer(
            notification, sockets.send_to(own, payload, flags | sockets.MSG_NOSIGNAL, packed)
        )
    )
    return None


class _Asked(NamedTuple):
    """What the open windows say of a connection: to `where`, as it is told, which is `peer`."""

    where: str
    peer: Peer | None
    decision: Decision


def _ask(session: Session, target: Internet, protocol: str) -> _Asked:
    network = session.network
    if network is None:
        return _Asked(endpoint(target.text, target.port, protocol), None, NO_NETWORK)
    peer = network.peer(target, protocol)
    if peer is None:
        return _Asked(endpoint(target.text, target.port, protocol), None, _STALE)
    effective = session.verdicts.effective
    decision = effective.connect(peer)
    if protocol == "udp" and peer.name and not decision.allowed:
        # Attempts at QUIC, and getaddrinfo, which connects such a socket to every address to sort them.
        as_stream = peer.port == 0 or effective.connect(peer._replace(protocol="tcp")).allowed
        decision = decision._replace(quiet=decision.quiet or as_stream)
    return _Asked(endpoint(peer.name or peer.address, peer.port, protocol), peer, decision)


def _record(session: Session, caller: Caller, act: str, asked: _Asked) -> None:
    session.verdicts.record(act, Need.CONNECT, asked.where, asked.decision, pid=caller.pid)


def _refused(session: Session, caller: Caller, act: str, asked: _Asked) -> OSError:
    return session.refuse(caller, act, Need.CONNECT, asked.where, asked.decision, error=errno.ECONNREFUSED)


def _inside(session: Session, notification: int, socket: Socket, target: Internet) -> bool:
    """Connect to what listens inside; whether the call is still to be answered, with 0."""
    try:
        connect_at_once(socket, target)
    except BlockingIOError:
        if not socket.blocking:
            raise
    else:
        return True
    packed = target.packed(socket.family)

    def wait() -> None:
        sockets.connect(socket.fd, packed)
        session.listener.answer(notification, 0)

    session.park(wait)
    return False
