"""What a server without a view of its own reads as /etc/resolv.conf: the broker's name service, asked by TCP.

The host's file names servers that cannot be reached, and datagrams there are none. A connection to 127.0.0.1:53
is led to the name service, wherever that listens.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpwrap.broker.resolve import Found
    from mcpwrap.broker.session import Session

PATH = "/etc/resolv.conf"
CONTENT = b"# mcpwrap: names are answered by the sandbox\nnameserver 127.0.0.1\noptions use-vc no-aaaa\n"


def is_meant(session: Session, path: bytes, found: Found | None) -> bool:
    """Whether an open of `path`, which leads to `found`, asks for the resolver's file, and is given ours."""
    if not session.terrain.bare:
        return False
    return os.fsdecode(path) == PATH if found is None else found.path in (PATH, session.facts.real(PATH))


def opened() -> int:
    """Return a new descriptor of the file, open for reading only."""
    memory = os.memfd_create("resolv.conf", os.MFD_CLOEXEC)
    try:
        os.write(memory, CONTENT)
        return os.open(str(memory), os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(memory)
