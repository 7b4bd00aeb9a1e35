"""The tiers: how strongly a machine can hold a server, and what is weaker where it is not the best.

The best one that is to be had is taken, and said if it is not B. Which that is follows from what the machine
refuses, so no two of the weaker ones ever compete: C is where there are no namespaces, B- where a broker is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from mcpwrap.errors import CannotConfine

ORDER = ("B", "C", "B-")
"""The strongest first. C comes before B-: it keeps the promise that a call is held to its own grant."""

PER_CALL = "per-call"
"""What `--allow-degraded` may give up."""


class Tier(NamedTuple):
    """`holds` says in a clause by what, `weaker` what is weaker than at tier B, one clause each."""

    name: str
    holds: str
    weaker: tuple[str, ...]


TIERS = {
    "B": Tier("B", "per-call grants enforced by namespaces, Landlock and a system call broker", ()),
    "C": Tier(
        "C",
        "per-call grants enforced by Landlock and a system call broker, without namespaces",
        (
            "names, sizes and attributes of all your files are seen",
            "HOME and TMPDIR are other directories than their usual ones, and there is no private /tmp or /dev/shm",
            "temporary files are on disk, and nothing bounds how many",
            "processes of the machine are seen to exist",
            "no network of its own: no loopback, no listening, no datagrams, no abstract sockets inside",
            "what the server wrote can be loaded into a process as a library, though not executed",
            "limits of the user (processes, inotify instances) are shared with all other programs",
        ),
    ),
    "B-": Tier(
        "B-",
        "the union of all grants enforced by namespaces and Landlock, without a broker",
        (
            "every call may do what any tool may",
            "private and write-protected names inside granted directories (.env, .git/hooks) are not held",
            "no socket files and no network at all",
            "what is refused is not recorded and not explained",
        ),
    ),
}


def require(tier: str, required: str | None, why: str, way_out: str) -> None:
    """Raise CannotConfine if `tier`, the best to be had for the reason `why`, is weaker than `required`."""
    if required is not None and ORDER.index(tier) > ORDER.index(required):
        raise CannotConfine(
            f"only tier {tier} is to be had here, and --require {required} was given: {why}", way_out
        )


def said(tier: str) -> str:
    """Return the clause that says how a server is held, and what is weaker."""
    found = TIERS[tier]
    return f"held at tier {tier}: {found.holds}; weaker than B: {'; '.join(found.weaker)}"
