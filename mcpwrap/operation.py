"""The vocabulary all rooms share: operations of the server, decisions on them, denials.

Paths are `str` by `os.fsdecode` (surrogateescape), so that every byte string a kernel can name
has exactly one spelling here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

ADVICE: Final = "refused by mcpwrap, not an outage; do not retry; ask the user"
"""How every refusal that the model reads ends."""


class Need(StrEnum):
    """What an operation needs to be granted."""

    READ = "read"
    WRITE = "write"
    EXEC = "exec"
    CONNECT = "connect"


class Operation(NamedTuple):
    """One act of the server's process tree, as the kernel saw it.

    `act` is the plain verb ("read", "write", "create", "rename", "link", "unlink", "mkdir",
    "chmod", "exec", "connect", "send", "bind", "listen", "lookup", ...); `object` the real path (or
    socket name) it was aimed at; `written` the path as the server spelled it, if that differs. Of the
    network, with need CONNECT, `object` is "host:port", "[v6]:port" or "udp://host:port", and of a lookup the name.
    """

    act: str
    need: Need
    object: str
    written: str = ""


class Decision(NamedTuple):
    """What the compiled policy says of one need on one object.

    `rule` is the stable id of the rule that decided: a grant line such as
    `tools."read_*".fs_read[0]`, a built-in such as `system`, `installation`, `private:.ssh`,
    `write-protected:.git/hooks`, or `no-grant`.
    `routine` marks what every server does (libraries, its own package): allowed and not recorded.
    `quiet` marks a refusal that is audited and never told to the model.
    """

    allowed: bool
    rule: str
    routine: bool = False
    quiet: bool = False


def endpoint(host: str, port: int, protocol: str = "tcp") -> str:
    """Return what a port of `host` (a name or an address) is called in grants, records and denials."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return where if protocol == "tcp" else f"{protocol}://{where}"


class Event(NamedTuple):
    """An operation with its decision and the call windows it is attributed to.

    `windows` are the ids of all windows open at that moment: one is a certain attribution,
    several are candidates, none means outside any call. `errno` is what a refused server got.
    """

    operation: Operation
    decision: Decision
    windows: tuple[str, ...] = ()
    errno: int = 0
    pid: int = 0


class Denial(NamedTuple):
    """A refused event as it is told: to the model (`sentence`), to the user (`offer`).

    `sentence` never holds TOML; `offer` is the TOML that would grant it, table and line, and empty for
    private and write-protected paths; `place` says where in the grant file its table or array is
    already (see `grant.offer`), empty if it is new there. `brief`: what and why, for the user's line.
    All are escaped, free of control and bidi characters.
    """

    act: str
    object: str
    rule: str
    tools: tuple[str, ...]
    sentence: str
    offer: str = ""
    times: int = 1
    place: str = ""
    brief: str = ""
