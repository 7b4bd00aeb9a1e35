"""A refusal in words: one sentence for the model, one TOML line for the user.

The model is told what was refused and never how to widen its own grant. Names come from outside:
they are stripped of what does not print, cut, and quoted so that none can speak for mcpwrap.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.offer import place_of
from mcpwrap.grant.parse import NO_FILE
from mcpwrap.grant.render import path_text, rules_text
from mcpwrap.operation import ADVICE, Denial, Need
from mcpwrap.policy.active import Bound
from mcpwrap.policy.bind import ABSENT, LEADS_OUTSIDE, NOT_TEXT, OUTSIDE, REASONS
from mcpwrap.policy.match import below

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpwrap.operation import Event
    from mcpwrap.policy.active import Unbound
    from mcpwrap.policy.compile import Policy

MAX_TEXT: Final = 200
"""Characters of one name from outside in a sentence (threat model: a file name is the attacker's text)."""

NOTHING_BOUND: Final = Bound()

_NAME_SERVICE: Final = ":53"

_NOUNS: Final = {Need.READ: "fs_read", Need.WRITE: "fs_write", Need.EXEC: "exec"}
_OFFERED: Final = frozenset(("no-grant", "not-in-view"))
"""Rules that say nobody granted it. All others are somebody's decision, which no paste should undo."""

_NEVER_GRANTED: Final = ("/proc/", "/sys/", "/dev/", "/run/user/")
"""Kernel interfaces and agents' sockets are never put before a server, so no line can grant them."""

MAX_ARGUMENTS: Final = 8
"""Names of a call's arguments that are told."""

_TEMPORARY: Final = re.compile(
    r"(?P<own>.+?)(?:\.(?:\d+|(?=[A-Za-z_-]*\d)[0-9A-Za-z_-]{6,}))?\.(?:tmp|temp)(?:\.[0-9A-Za-z.-]+)?"
)
"""How writers name a new file before they put it in the place of `own`; whoever may write that, may do so."""
_NAMELESS: Final = re.compile(r"tmp[0-9A-Za-z_]{6,}|\.?#.*|\.tmp.*")
"""Temporary names that do not say what they are for."""

_SPOKEN: Final = {"lookup": "look up"}
"""Acts whose names are no verbs."""

_MEANINGS: Final = {
    "no-grant": "no rule grants it",
    "not-in-view": "no rule grants it",
    "writable": "the server could have written that file, and what it writes cannot be executed",
    "loader": "a dynamic loader would execute any file",
    "no-path": "it has no path of its own to decide on",
    "atomic-name": "a temporary name beside a granted file may only replace that file",
    "cache": "the cache is read-only once start-up has ended",
    "no-network": "there is no network in this release",
    "host-socket": "only sockets made inside the sandbox can be connected to",
    "window-limit": "the call ran longer than `window_limit` allows, and its grant was withdrawn",
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


def denial(
    event: Event,
    policy: Policy,
    tools: tuple[str, ...],
    *,
    startup: bool = False,
    bound: Bound = NOTHING_BOUND,
    arguments: Collection[str] = (),
) -> Denial:
    """Return the refused `event` as it is told. `tools`: those of the open windows, none between calls.

    `startup`: it happened while the server started, so the line for the user goes there. `bound`,
    `arguments`: what the arguments of the one open call granted, and their names.
    """
    operation, rule = event.operation, event.decision.rule
    act, name = shown(operation.act), shown(operation.object)
    what = f'{_SPOKEN.get(act, act)} "{name}"'
    if rule in _OFFERED:
        # A private place that is not in the server's view at all is refused as private all the same.
        rule = policy.guarded(operation.object, write=operation.need is Need.WRITE) or rule
    meaning = why = _meaning(rule)
    if rule == "no-network" and name.endswith(_NAME_SERVICE):
        meaning = why = f"a name look-up; {meaning}"
    if rule in _OFFERED:
        outside = next((each for each in bound.unbound if is_about(each, operation.object)), None)
        if outside is not None:
            meaning, why = REASONS[outside.reason], _argument(outside, policy)
        else:
            why = _ungranted(policy, operation.need, tools, bound, arguments) or meaning
    elif rule not in _MEANINGS:
        why = f"{meaning}: {rule}"
    path = operation.object
    if operation.need is Need.WRITE and operation.act != "write":
        path = _lasting(path)
    offer, place = _offer(policy, operation.need, path, rule, tools, startup=startup)
    return Denial(
        act=act,
        object=name,
        rule=rule,
        tools=tools,
        sentence=_sentence(tools, what, rule, meaning),
        offer=offer,
        place=place,
        brief=f"{what} ({why})",
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
    offer, place = _offer(policy, unbound.need, unbound.path, offered, (tool,))
    return Denial(
        act="lookup",
        object=shown(value),
        rule=rule,
        tools=(tool,),
        sentence=_sentence((tool,), f"use {named}", rule, meaning),
        offer=offer,
        place=place,
        brief=_argument(unbound, policy),
    )


def is_told(unbound: Unbound) -> bool:
    """Whether a value that bound nothing is worth a word: an optional argument left out is not."""
    return unbound.reason not in (ABSENT, NOT_TEXT)


def is_about(unbound: Unbound, path: str) -> bool:
    """Whether `path` was refused because that value, which names it or what holds it, granted nothing."""
    return (
        bool(unbound.path)
        and unbound.reason in REASONS
        and (below(path, unbound.path) or _lasting(path) == unbound.path)
    )


def _argument(unbound: Unbound, policy: Policy) -> str:
    """Return what is wrong with the argument, for the user."""
    value = unbound.value or unbound.path
    what = f'argument "{shown(unbound.argument)}"' + (f' = "{shown(value)}"' if value else "")
    if unbound.reason in (OUTSIDE, LEADS_OUTSIDE):
        rules = (rule for tool in policy.grant.tools for rule in tool.block.paths if rule.id == unbound.rule)
        own = any(rule.arg is not None and rule.arg.within != policy.grant.within for rule in rules)
        verb = "lies" if unbound.reason == OUTSIDE else "leads"
        return f"{what} {verb} outside {'what its rule is limited to' if own else 'policy.within'}"
    meaning = REASONS.get(unbound.reason)
    return f"{what}: {meaning or f'{_meaning(unbound.reason)}: {unbound.reason}'}"


def _ungranted(
    policy: Policy, need: Need, tools: tuple[str, ...], bound: Bound, arguments: Collection[str]
) -> str:
    """Return what there is to say of why nothing grants it, for the user; empty if no rule just does."""
    if tools and policy.grant.file != NO_FILE and not any(map(policy.tables_of, tools)):
        return "no header of the grant names this tool"
    absent = list(dict.fromkeys(each.argument for each in bound.unbound if each.reason == ABSENT))
    if need not in (Need.READ, Need.WRITE) or bound.paths or not absent or len(absent) < len(bound.unbound):
        return ""
    named = ", ".join(f'"{shown(name)}"' for name in list(arguments)[:MAX_ARGUMENTS])
    needed = ", ".join(f'"{shown(name)}"' for name in absent[:MAX_ARGUMENTS])
    return f"its rule needs the argument {needed}; this call has: {named or 'none'}"


def _lasting(path: str) -> str:
    """Return what a new file is meant for: the file it will replace, or its directory; or itself."""
    directory, _, name = path.rpartition("/")
    match = _TEMPORARY.fullmatch(name)
    if match is not None and match["own"] != ".":
        return f"{directory}/{match['own']}"
    return directory if _NAMELESS.fullmatch(name) else path


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
) -> tuple[str, str]:
    """Return the TOML that would grant it in the table it belongs to, and where that is in the file already.

    Both are empty where nothing may be offered.
    """
    noun = _NOUNS.get(need)
    if noun is None or not all(map(_writable_name, tools)) or path.startswith(_NEVER_GRANTED):
        return "", ""
    text: str | None = None
    if need is Need.EXEC and rule == "writable":
        text = "any-writable"
    elif rule in _OFFERED and path.startswith("/") and len(path) > 1:
        text = path_text(path, policy.facts.home)
    if text is None or _too_wide(policy, path):
        return "", ""
    table = ("tools", _header(policy, tools)) if tools else ("startup" if startup else "server",)
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
