"""The server's network namespace where a grant leads out of it: every address local, and a name service.

What stands there for a host of the outside is made by the broker, when the server connects to it.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from mcpwrap.errors import CannotConfine
from mcpwrap.kernel import network, sockets

BACKLOG: Final = 16

_NAME_SERVICE: Final = b"\x02\x00" + (53).to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8)
"""struct sockaddr_in (little-endian machines) of 127.0.0.1:53."""


class NameService(NamedTuple):
    """The sockets names are asked of: one for datagrams, one that listens."""

    datagrams: int
    listening: int


def furnish() -> NameService:
    """Furnish this network namespace, whose `lo` is up; return the name service's sockets.

    Needs all capabilities in the user namespace that owns it. Raises CannotConfine.
    """
    step = "settings of a new network namespace"
    try:
        network.set_for_brokered_connections()
        step = "a local route in a new network namespace"
        network.make_every_address_local()
        step = "a name server in a new network namespace"
        made = [sockets.make(sockets.AF_INET, kind) for kind in (sockets.DATAGRAM, sockets.STREAM)]
        for fd in made:
            sockets.bind(fd, _NAME_SERVICE)
        sockets.listen(made[1], BACKLOG)
    except OSError as error:
        raise CannotConfine(f"the kernel refuses {step}: {os.strerror(error.errno or 0)}") from error
    return NameService(*made)
