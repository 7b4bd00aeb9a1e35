"""Which files of /proc a server may open: those of its own tree, and a short list of common ones.

The procfs in the server's view is that of its pid namespace, so a number can only name a process
of the tree, or pid 1, which is a part of mcpwrap.
"""

from __future__ import annotations

from mcpwrap.operation import Decision, Need

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

WRITABLE = frozenset({"comm", "coredump_filter", "timerslack_ns"})
"""Entries a process may write of itself. Not `oom_score_adj`: the sandbox set it, so that a tree that eats
the memory dies before anything else does."""

FURNISHED = WRITABLE | {"uid_map", "gid_map", "setgroups"}
"""With a sandbox of its own inside: what furnishes the user namespace it is in."""

_ALLOWED = Decision(True, "proc", routine=True)
REFUSED = Decision(False, "proc")


def decide(path: str, need: Need, own_process: str, writable: frozenset[str] = WRITABLE) -> Decision:
    """Return the decision on the real `path` below /proc; `own_process` is the caller's number there.

    `writable`: entries it may write of itself.
    """
    parts = path.split("/")[2:]
    if not parts:
        return _ALLOWED if need is Need.READ else REFUSED
    if not parts[0].isdigit():
        rest = "/".join(parts)
        listed = rest in READABLE or any((rest + "/").startswith(top) for top in READABLE_BELOW)
        return _ALLOWED if need is Need.READ and listed else REFUSED
    if parts[0] == "1" or not CLOSED.isdisjoint(parts[1:]):
        return REFUSED
    if need is Need.READ:
        return _ALLOWED
    return _ALLOWED if parts[0] == own_process and parts[-1] in writable else REFUSED
