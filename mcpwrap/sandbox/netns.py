"""The server's network namespace: a name service, and where a grant leads out of it every address local.

What stands there for a host of the outside is made by the broker, when the server connects to it.
"""

from __future__ import annotations

import os
from typing import Final

from mcpwrap.errors import CannotConfine
from mcpwrap.kernel import network, sockets

BACKLOG: Final = 16

_NAME_SERVICE: Final = b"\x02\x00" + (53).to_bytes(2, "big") + bytes((127, 0, 0, 1)) + bytes(8)
"""struct sockaddr_in (little-endian machines) of 127.0.0.1:53."""


def name_service() -> tuple[int, int]:
    """Return the sockets names are asked of in this network namespace: one for datagrams, one that listens.

    Needs all capabilities in the user namespace that owns it, and `lo` up. Raises CannotConfine.
    """
    try:
        datagrams, listening = (
            sockets.make(sockets.AF_INET, kind) for kind in (sockets.DATAGRAM, sockets.STREAM)
        )
        for fd in (datagrams, listening):
            sockets.bind(fd, _NAME_SERVICE)
        sockets.listen(listening, BACKLOG)
    except OSError as error:
        raise _refused("a name server in a new network namespace", error) from error
    return datagrams, listening


def open_for_brokered_connections() -> None:
    """Let hosts of the outside be stood for in this network namespace. Needs and raises as `name_service`."""
    step = "settings of a new network namespace"
    try:
        network.set_for_brokered_connections()
        step = "a local route in a new network namespace"
        network.make_every_address_local()
    except OSError as error:
        raise _refused(step, error) from error


def _refused(step: str, error: OSError) -> CannotConfine:
    return CannotConfine(f"the kernel refuses {step}: {os.strerror(error.errno or 0)}")
