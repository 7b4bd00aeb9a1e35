"""The line that would grant what was refused, for the user: its text, its table, and where that is in the file.

Of hosts and sockets: `netreasons.line`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.offer import place_of
from mcpwrap.grant.render import path_text, rules_text
from mcpwrap.operation import Need
from mcpwrap.policy.shown import shown

if TYPE_CHECKING:
    from mcpwrap.policy.active import Area
    from mcpwrap.policy.compile import Policy

_NOUNS: Final = {Need.READ: "fs_read", Need.WRITE: "fs_write", Need.EXEC: "exec"}
OFFERED: Final = frozenset(("no-grant", "not-in-view"))
"""Rules that say nobody granted it. All others are somebody's decision, which no paste should undo."""

_NEVER_GRANTED: Final = ("/proc/", "/sys/", "/dev/", "/run/user/")
"""Kernel interfaces and agents' sockets are never put before a server, so no line can grant them."""

_TEMPORARY: Final = re.compile(
    r"(?P<own>.+?)(?:\.(?:\d+|(?=[A-Za-z_-]*\d)[0-9A-Za-z_-]{6,}))?\.(?:tmp|temp)(?:\.[0-9A-Za-z.-]+)?"
)
"""How writers name a new file before they put it in the place of `own`; whoever may write that, may do so."""
_NAMELESS: Final = re.compile(r"tmp[0-9A-Za-z_]{6,}|\.?#.*|\.tmp.*")
"""Temporary names that do not say what they are for."""


def path_line(policy: Policy, need: Need, path: str, rule: str) -> tuple[str, str] | None:
    """Return (noun, text) of the line that would grant it, None where nothing may be offered."""
    noun = _NOUNS.get(need)
    if noun is None or rule not in OFFERED or path.startswith(_NEVER_GRANTED):
        return None
    if not path.startswith("/") or len(path) == 1 or _too_wide(policy, path):
        return None
    text = path_text(path, policy.facts.home)
    return (noun, text) if text is not None else None


def offered(
    policy: Policy, line: tuple[str, str] | None, tools: tuple[str, ...], area: Area, *, startup: bool = False
) -> tuple[str, str]:
    """Return the TOML of a line in the table it belongs to, and where that is in the file already, or nothing."""
    if line is None or not all(map(_writable_name, tools)):
        return "", ""
    noun, text = line
    phase = "startup" if startup else "server"
    table = ("tools", _header(policy, tools)) if tools else (phase if area == "tools" else area,)
    return rules_text({table: {noun: [text]}}), place_of(policy.grant.lines, table, noun)


def _header(policy: Policy, tools: tuple[str, ...]) -> str:
    """Return the header for exactly `tools`, as the grant file writes it if it has it."""
    same = (tool.header for tool in policy.grant.tools if set(tool.patterns) == set(tools))
    return next(same, "|".join(tools))


def _writable_name(tool: str) -> bool:
    """Whether the header of a table can name exactly this tool."""
    return bool(tool) and tool == shown(tool).strip() and "|" not in tool and "*" not in tool


def _too_wide(policy: Policy, path: str) -> bool:
    return any(home == path or home.startswith(path + "/") for home in policy.homes)


def lasting(path: str) -> str:
    """Return what a new file is meant for: the file it will replace, or its directory; or itself."""
    directory, _, name = path.rpartition("/")
    match = _TEMPORARY.fullmatch(name)
    if match is not None and match["own"] != ".":
        return f"{directory}/{match['own']}"
    return directory if _NAMELESS.fullmatch(name) else path
