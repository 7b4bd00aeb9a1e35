"""connect, bind, sendto: decided on a copy of the address, done by the broker with that copy.

The server's memory may change while it waits, so the kernel is never left to read an address there once
it matters whose it is.
"""

from __future__ import annotations

import errno
import os
import struct
from typing import TYPE_CHECKING

from mcpwrap.broker import internet, unix
from mcpwrap.broker.address import family_of
from mcpwrap.broker.address import internet as parse
from mcpwrap.broker.resolve import failure
from mcpwrap.kernel import sockets
from mcpwrap.operation import Decision, Need, endpoint

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session

MAX_ADDRESS = 128
"""sizeof(struct sockaddr_storage)."""

_NOT_OWN = Decision(False, "not-own-address")
_NO_LISTENING = Decision(False, "no-listen")


def connect(session: Session, notification: int, caller: Caller, fd: int, address: int, size: int) -> None:
    """Answer one connect: inside the sandbox it is made, anything else is as the open windows say."""
    raw = _address(caller, address, size)
    own = session.copy(caller, fd)
    try:
        if not session.listener.alive(notification):
            return
        domain = sockets.option(own, sockets.SOL_SOCKET, sockets.SO_DOMAIN)
        if domain == sockets.AF_UNIX:
            done = unix.connect(session, notification, caller, own, raw)
        elif domain == sockets.AF_NETLINK:
            sockets.connect(own, raw)  # to the kernel, whose routing of this network may be read
            done = True
        else:
            done = internet.connect(session, notification, caller, own, raw)
        session.held.let_go(own)
        if done:
            session.listener.answer(notification, 0)
    finally:
        os.close(own)


def send(
    session: Session,
    notification: int,
    caller: Caller,
    fd: int,
    data: tuple[int, int],
    flags: int,
    address: tuple[int, int],
) -> None:
    """Answer one sendto with an address. `data` and `address`: where in the caller's memory, how long.

    Datagrams are sent by the broker. Other sockets do not look at the address (the filter and the network's
    settings leave no MSG_FASTOPEN), or have only the kernel to send to.
    """
    raw = _address(caller, *address)
    own = session.copy(caller, fd)
    try:
        domain = sockets.option(own, sockets.SOL_SOCKET, sockets.SO_DOMAIN)
        kind = sockets.option(own, sockets.SOL_SOCKET, sockets.SO_TYPE)
        if domain in (sockets.AF_INET, sockets.AF_INET6) and kind == sockets.DATAGRAM:
            sent = internet.send(session, notification, caller, own, raw, data, flags)
            if sent is not None:
                session.listener.answer(notification, sent)
            return
        path = unix.path_of(raw)
        if path is not None:
            os.close(unix.find(session, caller, path, "send").fd)
    finally:
        os.close(own)
    session.listener.proceed(notification)


def bind(session: Session, caller: Caller, fd: int, address: int, size: int) -> int:
    """Answer one bind: a path socket makes a file, and an address must be the server's own."""
    raw = _address(caller, address, size)
    path = unix.path_of(raw)
    if path is not None:
        raw = unix.bind(session, caller, path)
    elif session.terrain.bare and family_of(raw) == sockets.AF_UNIX:
        raise unix.abstract(session, caller, raw, "bind")
    elif session.terrain.bare or family_of(raw) in (sockets.AF_INET, sockets.AF_INET6):
        # On the host any other family is one the kernel might take for these (inet_bind: AF_UNSPEC).
        target = parse(raw)
        if not session.place.may_bind(target):
            where = endpoint(target.text, target.port)
            # Port 0 is asked for to see whether there is IPv6 (urllib3 does), or before a connect.
            rule = _NO_LISTENING._replace(quiet=not target.port) if session.terrain.bare else _NOT_OWN
            raise session.refuse(caller, "bind", Need.CONNECT, where, rule, error=errno.EADDRNOTAVAIL)
    own = session.copy(caller, fd)
    try:
        if not session.listener.alive(session.current):
            raise failure(errno.ESRCH)
        os.umask(caller.umask())
        sockets.bind(own, raw)
    finally:
        os.umask(0)
        os.close(own)
    return 0


def _address(caller: Caller, address: int, size: int) -> bytes:
    if not struct.calcsize("=H") <= size <= MAX_ADDRESS:
        raise failure(errno.EINVAL)
    return caller.memory(address, size)
