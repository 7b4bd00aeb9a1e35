"""Where the server's sockets live, and what is different there: a network of its own, or the host's."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.broker.address import LOOPBACK, LOOPBACK6, Internet, internet
from mcpwrap.kernel import sockets

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME_SERVICE = 53

BACKLOG = 8
"""Connections that wait to be accepted: the one that is made, and strangers that are sent away."""


class Place(NamedTuple):
    """The network the server's sockets are in.

    `own`: it is a network namespace in which every address is local, so that what stands for a host can have
    that host's address, and what is inside is the server's own. Otherwise it is the host's, where it cannot.
    `stub`: where the name service listens; it is asked for at 127.0.0.1:53.
    """

    own: bool
    stub: Internet

    def is_stub(self, target: Internet) -> bool:
        """Whether who connects to `target` means the name service."""
        return target in (self.stub, Internet(LOOPBACK, NAME_SERVICE))

    def is_inside(self, target: Internet) -> bool:
        """Whether `target`, if nothing is granted there, is the server's own to connect to."""
        return self.own and target.loopback

    def may_bind(self, target: Internet) -> bool:
        """Whether a socket of the server may take this address: those that every machine has for itself."""
        return self.own and target.loopback

    def candidates(self, target: Internet) -> Iterator[Internet]:
        """Yield the addresses of a listener that stands for `target`, best first."""
        local = LOOPBACK if len(target.host) == 4 else LOOPBACK6
        if self.own:
            yield target
            yield Internet(target.host, 0)  # the server itself holds that port
        else:
            yield Internet(local, 0)

    def listener(self, target: Internet) -> tuple[int, Internet]:
        """Return a listening socket that stands for `target`, and the address to connect to."""
        for candidate in self.candidates(target):
            fd = sockets.make(candidate.family, sockets.STREAM)
            try:
                sockets.set_option(fd, sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
                name(fd, candidate)
                sockets.listen(fd, BACKLOG)
                return fd, candidate if candidate.port else named(fd)
            except OSError as error:
                os.close(fd)
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRNOTAVAIL, "no address for what stands for a host")


OWN = Place(True, Internet(LOOPBACK, NAME_SERVICE))
"""A network namespace, with the name service at its usual address."""


def name(fd: int, address: Internet) -> None:
    """Give a socket of that family an address. Raises OSError EADDRINUSE."""
    if address.family == sockets.AF_INET6:
        # A local route makes an address one of this machine's for IPv4 only.
        sockets.set_option(fd, sockets.IPPROTO_IPV6, sockets.IPV6_FREEBIND, 1)
    sockets.bind(fd, address.packed(address.family))


def named(fd: int) -> Internet:
    """Return the address a socket has."""
    return internet(sockets.own_name(fd))
