"""A refusal in words: one sentence for the model, one TOML line for the user.

The model is told what was refused and never how to widen its own grant. Names come from outside:
they are stripped of what does not print, cut, and quoted so that none can speak for mcpwrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.grant.render import path_text, rules_text
from mcpwrap.operation import Denial, Need
from mcpwrap.policy.bind import ABSENT, NOT_TEXT, REASONS

if TYPE_CHECKING:
    from mcpwrap.operation import Event
    from mcpwrap.policy.active import Unbound
    from mcpwrap.policy.compile import Policy

MAX_TEXT: Final = 200
"""Characters of one name from outside in a sentence (threat model: a file name is the attacker's text)."""

ADVICE: Final = "refused by mcpwrap, not an outage; do not retry; ask the user"

_NOUNS: Final = {Need.READ: "fs_read", Need.WRITE: "fs_write", Need.EXEC: "exec"}
_OFFERED: Final = frozenset(("no-grant", "not-in-view"))
"""Rules that say nobody granted it. All others are somebody's decision, which no paste should undo."""

_NEVER_GRANTED: Final = ("/proc/", "/sys/", "/dev/", "/run/user/")
"""Kernel interfaces and agents' sockets are never put before a server, so no line can grant them."""

_MEANINGS: Final = {
    "no-grant": "no rule grants it",
    "not-in-view": "no rule grants it",
    "writable": "the server could have written that file, and what it writes cannot be executed",
    "loader": "a dynamic loader would execute any file",
    "no-path": "it has no path of its own to decide on",
    "atomic-name": "a temporary name beside a granted file may only replace that file",
    "cache": "the cache is read-only once start-up has ended",
    "directory-too-large": "the directory holds too much to be looked through before it moves",
}


def shown(text: str) -> str:
    """Return `text` fit for a sentence: printable, at most `MAX_TEXT` characters, `"` and `\\` escaped.

    Bytes that are no UTF-8 show as `\\xNN`; control, format (bidi) and unassigned characters vanish.
    """
    out: list[str] = []
    length = 0
    for char in text:
        if "\udc80" <= char <= "\udcff":
            piece = f"\\x{ord(char) - 0xDC00:02x}"
        elif char in '"\\':
            piece = "\\" + char
        else:
            piece = char if char.isprintable() else ""
        length += len(piece)
        if length > MAX_TEXT:
            while out and length - len(piece) > MAX_TEXT - 1:
                length -= len(out.pop())
            return "".join(out) + "…"
        out.append(piece)
    return "".join(out)


def denial(event: Event, policy: Policy, tools: tuple[str, ...], *, startup: bool = False) -> Denial:
    """Return the refused `event` as it is told. `tools`: those of the open windows, none between calls.

    `startup`: it happened while the server started, so the line for the user goes there.
    """
    operation, rule = event.operation, event.decision.rule
    act, name = shown(operation.act), shown(operation.object)
    if rule in _OFFERED:
        # A private place that is not in the server's view at all is refused as private all the same.
        rule = policy.guarded(operation.object, write=operation.need is Need.WRITE) or rule
    return Denial(
        act=act,
        object=name,
        rule=rule,
        tools=tools,
        sentence=_sentence(tools, f'{act} "{name}"', rule, _meaning(rule)),
        offer=_offer(policy, operation.need, operation.object, rule, tools, startup=startup),
    )


def unbound_denial(unbound: Unbound, policy: Policy, tool: str) -> Denial:
    """Return a `$arg` value that granted nothing as a denial `lookup`."""
    rule = unbound.reason if unbound.reason not in REASONS else unbound.rule
    value = unbound.path or unbound.value
    meaning = REASONS.get(unbound.reason) or _meaning(rule)
    named = f'argument "{shown(unbound.argument)}"' + (f' = "{shown(value)}"' if value else "")
    offered = "no-grant" if unbound.path and unbound.reason in REASONS else ""
    if offered and policy.guarded(unbound.path, write=unbound.need is Need.WRITE):
        offered = ""
    return Denial(
        act="lookup",
        object=shown(value),
        rule=rule,
        tools=(tool,),
        sentence=_sentence((tool,), f"use {named}", rule, meaning),
        offer=_offer(policy, unbound.need, unbound.path, offered, (tool,)),
    )


def is_told(unbound: Unbound) -> bool:
    """Whether a value that bound nothing is worth a word: an optional argument left out is not."""
    return unbound.reason not in (ABSENT, NOT_TEXT)


def _sentence(tools: tuple[str, ...], what: str, rule: str, meaning: str) -> str:
    names = ", ".join(f'"{shown(tool)}"' for tool in tools)
    who = {0: "The server, outside of any call,", 1: f"Tool {names}"}.get(
        len(tools), f"One of the tools {names}"
    )
    return f"{who} was not allowed to {what}: {meaning} (rule {rule}). This was {ADVICE}."


def _meaning(rule: str) -> str:
    kind, colon, _ = rule.partition(":")
    if colon and kind == "private":
        return "the path is private"
    if colon and kind == "write-protected":
        return "the path is write-protected"
    return _MEANINGS.get(rule, "a rule of the grant forbids it")


def _offer(
    policy: Policy, need: Need, path: str, rule: str, tools: tuple[str, ...], *, startup: bool = False
) -> str:
    """Return the TOML that would grant it in the table it belongs to, or empty where none may be offered."""
    noun = _NOUNS.get(need)
    if noun is None or not all(map(_writable_name, tools)) or path.startswith(_NEVER_GRANTED):
        return ""
    text: str | None = None
    if need is Need.EXEC and rule == "writable":
        text = "any-writable"
    elif rule in _OFFERED and path.startswith("/") and len(path) > 1:
        text = path_text(path, policy.facts.home)
    if text is None or _too_wide(policy, path):
        return ""
    table = ("tools", "|".join(tools)) if tools else ("startup" if startup else "server",)
    return rules_text({table: {noun: [text]}})


def _writable_name(tool: str) -> bool:
    """Whether the header of a table can name exactly this tool."""
    return bool(tool) and tool == shown(tool).strip() and "|" not in tool and "*" not in tool


def _too_wide(policy: Policy, path: str) -> bool:
    return any(home == path or home.startswith(path + "/") for home in policy.homes)
