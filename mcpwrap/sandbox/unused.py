"""An id nobody has: what a server is run as where there is no ordinary user to run it as."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Final

from mcpwrap.errors import CannotConfine

RANGES: Final = ((1_879_048_192, 2_147_352_575), (60_706, 61_183))
"""Where ids are taken from: what docs/UIDS-GIDS.md of systemd calls unused, so that no package, container
manager or directory service hands them out; the second for user namespaces that map no more than 65,536."""

TRIES: Final = 64
"""Ids looked at in one range."""

_DELEGATED: Final = ("/etc/subuid", "/etc/subgid")
_MAPS: Final = ("/proc/self/uid_map", "/proc/self/gid_map")


def unused_id(*, stable: bool = False) -> int:
    """Return a number that is no user, no group, delegated to nobody, and the id of no process.

    The first one looked at is at random, so that two runs that start together do not take the same; with
    `stable` it is always the same, so that two runs one after the other do.

    Raises CannotConfine where this user namespace has none.
    """
    running = _ids_of_processes()
    delegated = [span for path in _DELEGATED for span in _spans(path, ":", 1, 2)]
    mapped = [_spans(path, None, 0, 2) for path in _MAPS]
    for first, last in RANGES:
        start = 0 if stable else int.from_bytes(os.urandom(4), "little")
        for step in range(TRIES):
            ident = first + (start + step) % (last - first + 1)
            if (
                all(_covers(spans, ident) for spans in mapped)
                and not _covers(delegated, ident)
                and ident not in running
                and not _has_a_name(ident)
            ):
                return ident
    raise CannotConfine(
        "mcpwrap runs as root, and there is no other user id here that it could take (see /proc/self/uid_map)",
        "start it as an ordinary user; in a container: docker run --user 1000:1000, podman run --userns=keep-id",
    )


def _has_a_name(ident: int) -> bool:
    try:
        pwd.getpwuid(ident)
        return True
    except KeyError:
        pass
    try:
        grp.getgrgid(ident)
        return True
    except KeyError:
        return False


def _ids_of_processes() -> set[int]:
    """Return every user and group id some process has, in any of its sets; proc_pid_status(5)."""
    found: set[int] = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/status", "rb") as file:
                for line in file:
                    if line.startswith((b"Uid:", b"Gid:", b"Groups:")):
                        found.update(map(int, line.split()[1:]))
        except OSError:
            continue  # it has ended
    return found


def _spans(path: str, separator: str | None, first: int, count: int) -> list[tuple[int, int]]:
    """Return (first, count) of each line; those are the fields of these numbers."""
    spans = []
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                fields = line.split(separator)
                try:
                    spans.append((int(fields[first]), int(fields[count])))
                except (IndexError, ValueError):
                    continue  # a comment, or nothing
    except OSError:
        pass  # no such file: nothing is delegated
    return spans


def _covers(spans: list[tuple[int, int]], ident: int) -> bool:
    return any(first <= ident < first + count for first, count in spans)
