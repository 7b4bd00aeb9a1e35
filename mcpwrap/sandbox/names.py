"""The files programs read to find out where names are looked up: what they say in the server's view."""

from __future__ import annotations

from typing import Final

RESOLVER: Final = "/etc/resolv.conf"
"""The host's would name servers that cannot be reached, and programs would wait for them."""
HOSTS: Final = "/etc/hosts"
SERVICES: Final = "/etc/nsswitch.conf"

_NOBODY: Final = b"# mcpwrap: this server has no name server\n"
_BROKER: Final = b"# mcpwrap: names are answered as the grant says\nnameserver 127.0.0.1\noptions no-aaaa\n"
"""No search list: a name is asked for as it was granted. What stands for a host is an IPv4 address, so the other
half of each look-up would be answered with nothing; glibc knows that option since 2.36, everybody else skips it."""

_SOURCES: Final = (
    b"# mcpwrap: what else this machine asks is out of reach\n"
    b"passwd: files\ngroup: files\nshadow: files\ngshadow: files\nhosts: files dns\nnetworks: files\n"
    b"protocols: files\nservices: files\nethers: files\nrpc: files\n"
)
"""The host's may ask resolved, avahi or sssd, whose sockets are not there: each look-up would first be refused
by them, and Go programs would load the C library for them."""


def files(*, answered: bool, machine: str) -> dict[str, bytes]:
    """Return path → content. `answered`: there is a name service inside; `machine`: the host's own name.

    The host's table of hosts is not passed on then: what it says of a granted name is looked up outside, by
    the relay, which checks the address that comes of it.
    """
    if not answered:
        return {RESOLVER: _NOBODY}
    own = f"127.0.0.1 localhost {machine}\n::1 localhost ip6-localhost ip6-loopback\n"
    return {RESOLVER: _BROKER, HOSTS: own.encode("ascii", "replace"), SERVICES: _SOURCES}
