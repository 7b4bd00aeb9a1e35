"""Which files of /proc a server may open: those of its own tree, and a short list of common ones.

The procfs in a view is that of the server's pid namespace, so a number can only name a process of the
tree, or pid 1, which is a part of mcpwrap. The host's names every process: then each is looked up.
"""

from __future__ import annotations

from typing import Protocol

from mcpwrap.operation import Decision, Need


class Processes(Protocol):
    """`bare`: this is the host's procfs. `in_tree`: whether a number there is a process of the server's tree."""

    @property
    def bare(self) -> bool: ...

    def in_tree(self, number: str) -> bool: ...


READABLE = frozenset(
    {
        *(
            "cgroups",
            "cmdline",
            "cpuinfo",
            "devices",
            "diskstats",
            "filesystems",
            "loadavg",
            "locks",
            "meminfo",
        ),
        *("misc", "partitions", "stat", "swaps", "uptime", "version", "vmstat", "zoneinfo"),
    }
)
"""Machine facts that runtimes read to size their pools; none holds data of a user."""

READABLE_BELOW = ("sys/", "pressure/")
"""Directories of /proc readable as a whole: kernel parameters (mounted read-only) and pressure."""

CLOSED = frozenset({"mem", "root", "cwd", "ns", "map_files", "attr", "clear_refs", "stack"})
"""Entries of a process that lead to memory, to other name spaces or change how it is confined."""

CLOSED_ON_HOST = CLOSED | {"net"}
"""The network the server is in is the host's: whom it talks to is nobody's business."""

WRITABLE = frozenset({"comm", "coredump_filter", "timerslack_ns"})
"""Entries a process may write of itself. Not `oom_score_adj`: the sandbox set it, so that a tree that eats
the memory dies before anything else does."""

FURNISHED = WRITABLE | {"uid_map", "gid_map", "setgroups"}
"""With a sandbox of its own inside: what furnishes the user namespace it is in."""

_ALLOWED = Decision(True, "proc", routine=True)
REFUSED = Decision(False, "proc")


def decide(
    path: str, need: Need, own_process: str, processes: Processes, writable: frozenset[str] = WRITABLE
) -> Decision:
    """Return the decision on the real `path` below /proc; `own_process` is the caller's number there.

    `writable`: entries it may write of itself.
    """
    parts = path.split("/")[2:]
    if not parts:
        # On the host it lists the processes of everybody.
        return _ALLOWED if need is Need.READ and not processes.bare else REFUSED
    if not parts[0].isdigit():
        rest = "/".join(parts)
        listed = rest in READABLE or any((rest + "/").startswith(top) for top in READABLE_BELOW)
        return _ALLOWED if need is Need.READ and listed else REFUSED
    closed = CLOSED_ON_HOST if processes.bare else CLOSED
    if not closed.isdisjoint(parts[1:]) or not processes.in_tree(parts[0]):
        return REFUSED
    if need is Need.READ:
        return _ALLOWED
    return _ALLOWED if parts[0] == own_process and parts[-1] in writable else REFUSED
