"""The server's two Landlock domains: the floor of all grants, and one nested in it.

The stem enters the floor, and so do all it starts. The server alone enters the nested one: what is
in an outer domain (the broker) may look into processes of an inner one, and never the other way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcpwrap.kernel import landlock as kernel

if TYPE_CHECKING:
    from mcpwrap.sandbox.plan import Plan, Rights

READ = kernel.FS_READ_FILE | kernel.FS_READ_DIR
EXECUTE = READ | kernel.FS_EXECUTE
WRITE = (
    READ
    | kernel.FS_WRITE_FILE
    | kernel.FS_TRUNCATE
    | kernel.FS_REMOVE_DIR
    | kernel.FS_REMOVE_FILE
    | kernel.FS_MAKE_DIR
    | kernel.FS_MAKE_REG
    | kernel.FS_MAKE_FIFO
    | kernel.FS_MAKE_SYM
    | kernel.FS_REFER
)
PRIVATE = WRITE | kernel.FS_MAKE_SOCK
"""In what only this server sees (its /tmp): a socket made elsewhere could be one that others trust."""
DEVICE = READ | kernel.FS_WRITE_FILE | kernel.FS_TRUNCATE | kernel.FS_IOCTL_DEV

HANDLED = kernel.ABI[kernel.NEWEST_TESTED_ABI].fs
"""Every right is handled, so what no rule allows is denied: MAKE_CHAR and MAKE_BLOCK everywhere."""

SCOPES_ABI = 6
"""From this version on signals and abstract sockets are held too (Linux 6.12)."""

NEEDED_ABI = 2
"""Below, no file can be renamed into another directory; Linux 5.19, the oldest supported, has 2."""

_LACKING = (
    (3, "truncate() of a readable file is not covered by Landlock (needs Linux 6.2)"),
    (5, "ioctl() on devices is not covered by Landlock (needs Linux 6.10)"),
    (6, "signals and abstract sockets are not covered by Landlock (needs Linux 6.12)"),
)

Place = int | str
"""A path, or a descriptor (O_PATH will do) of a place that has none here, such as the host's procfs."""


def lacking(abi: int) -> tuple[str, ...]:
    """Return what version `abi` leaves to the other layers, a sentence each."""
    return tuple(text for needed, text in _LACKING if abi < needed)


def floor(
    *,
    reads: Iterable[Place] = (),
    writes: Iterable[Place] = (),
    executables: Iterable[Place] = (),
    private: Iterable[Place] = (),
    devices: Iterable[Place] = (),
    abi: int,
) -> None:
    """Enter a domain in which only these places and what is below them can be used, for good.

    `writes` and `executables` can be read too; `private` is as `writes`, and sockets can be made
    there. Files, directories and devices may be given. TCP is not handled: it would cut the
    sandbox's own loopback, and its network is empty. Needs no_new_privs.

    Raises OSError with the place that could not be opened; nothing has been restricted then.
    """
    wanted = ((reads, READ), (writes, WRITE), (executables, EXECUTE), (private, PRIVATE), (devices, DEVICE))
    with kernel.Ruleset(HANDLED, abi=abi) as ruleset:
        for places, rights in wanted:
            for place in places:
                ruleset.allow(place, rights)
        ruleset.restrict_self()


def floor_of(plan: Plan, proc: int, abi: int) -> None:
    """Enter the floor of `plan`; `proc` is a descriptor of the host's procfs."""

    def places(*rights: Rights) -> list[Place]:
        return [each.path for each in plan.access if each.rights in rights]

    floor(
        reads=[*places("read"), proc],
        writes=places("write"),
        private=places("private"),
        executables=places("execute"),
        devices=places("device"),
        abi=abi,
    )


def nested(*, abi: int, network: bool = True) -> None:
    """Enter a further domain: no signals and no abstract sockets to the outside (ABI 6), for good.

    Without `network` also no TCP (ABI 4): no port is bound and nothing connected to, except by the broker,
    which is in the outer domain. It takes no right on files away. Below ABI 6 it may serve only to be an
    inner domain. Needs no_new_privs.
    """
    tcp = 0 if network else kernel.NET_BIND_TCP | kernel.NET_CONNECT_TCP
    scopes = kernel.SCOPE_ABSTRACT_UNIX_SOCKET | kernel.SCOPE_SIGNAL
    # A domain that does not allow REFER denies it, handled or not.
    with kernel.Ruleset(kernel.FS_REFER, scopes, net=tcp, abi=abi) as ruleset:
        ruleset.allow("/", kernel.FS_REFER)
        ruleset.restrict_self()
