"""A refusal in words: one sentence for the model, one TOML line for the user. Of the network: `netreasons`.

The model is told what was refused and never how to widen its own grant. Names come from outside:
they are stripped of what does not print, cut, and quoted so that none can speak for mcpwrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.grant.parse import NO_FILE
from mcpwrap.operation import ADVICE, Denial, Need, Operation
from mcpwrap.policy.active import Bound
from mcpwrap.policy.bind import ABSENT, LEADS_OUTSIDE, NOT_TEXT, OUTSIDE, REASONS
from mcpwrap.policy.match import below
from mcpwrap.policy.offering import OFFERED, lasting, offered, path_line
from mcpwrap.policy.shown import shown

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpwrap.operation import Event
    from mcpwrap.policy.active import Area, Unbound
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.effective import Effective

NOTHING_BOUND: Final = Bound()

MAX_ARGUMENTS: Final = 8
"""Names of a call's arguments that are told."""

_SPOKEN: Final = {"lookup": "look up"}
"""Acts whose names are no verbs."""

_MEANINGS: Final = {
    "no-grant": "no rule grants it",
    "not-in-view": "no rule grants it",
    "writable": "the server could have written that file, and what it writes cannot be executed",
    "loader": "a dynamic loader would execute any file",
    "own-filter": "a process with a system call filter of its own executes nothing: the filter could hide what",
    "own-root": "a process may take only an empty directory for its root, and then executes nothing",
    "no-path": "it has no path of its own to decide on",
    "atomic-name": "a temporary name beside a granted file may only replace that file",
    "cache": "the cache is read-only once start-up has ended",
    "loaded": "programs run what lies there of themselves: it is read-only once start-up has ended",
    "kept-home": "it is the private HOME by the name it is kept under: it is written by its own name",
    "socket-place": "a rule names a socket there, and what is moved there would be taken for it",
    "window-limit": "the call ran longer than `window_limit` allows, and its grant was withdrawn",
    "moved": "what was there moved while it was decided on",
    "proc": "in /proc a server sees its own processes, and of them no memory",
    "script-depth": "scripts interpret one another too deeply",
    "link-through-a-name": "a link may have `..` at its beginning only",
    "directory-too-large": "the directory holds too much to be looked through before it moves",
}


def denial(
    event: Event,
    policy: Policy,
    tools: tuple[str, ...],
    *,
    startup: bool = False,
    bound: Bound = NOTHING_BOUND,
    arguments: Collection[str] = (),
    area: Area = "tools",
) -> Denial:
    """Return the refused `event` as it is told. `tools`: those of the open windows, none between calls.

    `startup`: it happened while the server started, so the line for the user goes there. `bound`,
    `arguments`: what the arguments of the one open call granted, and their names. `area`: of the one open
    window, if that is no tool's.
    """
    operation, rule = event.operation, event.decision.rule
    act, name = shown(operation.act), shown(operation.object)
    if rule in OFFERED and operation.object.startswith("/"):
        # A private place that is not in the server's view at all is refused as private all the same.
        rule = policy.guarded(operation.object, write=operation.need is Need.WRITE) or rule
    told = None
    if operation.need is Need.CONNECT:
        from mcpwrap.policy import netreasons  # here only: most servers never connect to anything

        told = netreasons.meaning(operation, rule)
        what = f'{netreasons.SPOKEN.get(act, _SPOKEN.get(act, act))} "{name}"'
        line = netreasons.line(policy, operation, rule)
        if rule in netreasons.FAILURES:
            sentence, brief = netreasons.failure(operation, rule, _who(tools, area), what)
            return Denial(act, name, rule, tools, sentence, brief=brief)
    else:
        what = f'{_SPOKEN.get(act, act)} "{name}"'
        path = operation.object
        if operation.need is Need.WRITE and operation.act != "write":
            path = lasting(path)
        line = path_line(policy, operation.need, path, rule)
    meaning = why = told or _meaning(rule)
    if rule in OFFERED:
        outside = next((each for each in bound.unbound if is_about(each, operation.object)), None)
        if outside is not None:
            meaning, why = REASONS[outside.reason], _argument(outside, policy)
        else:
            why = _ungranted(policy, operation.need, tools, bound, arguments) or meaning
    elif told is not None:
        why = f"{meaning}: {shown(operation.written)}" if operation.written else meaning
    elif rule not in _MEANINGS:
        why = f"{meaning}: {rule}"
    offer, place = offered(policy, line, tools, area, startup=startup)
    return Denial(
        act=act,
        object=name,
        rule=rule,
        tools=tools,
        sentence=_sentence(_who(tools, area), what, rule, meaning),
        offer=offer,
        place=place,
        brief=f"{what} ({why})",
    )


def unbound_denial(unbound: Unbound, policy: Policy, tool: str) -> Denial:
    """Return a `$arg` value that granted nothing as a denial `lookup`."""
    rule = unbound.reason if unbound.reason not in REASONS else unbound.rule
    value = _value(unbound)
    meaning = REASONS.get(unbound.reason) or _meaning(rule)
    named = f'argument "{shown(unbound.argument)}"' + (f' = "{shown(value)}"' if value else "")
    line = None
    if unbound.path and unbound.reason in REASONS:
        if unbound.need is Need.CONNECT:
            from mcpwrap.policy import netreasons

            line = netreasons.line(policy, Operation("connect", Need.CONNECT, unbound.path), "no-grant")
        elif not policy.guarded(unbound.path, write=unbound.need is Need.WRITE):
            line = path_line(policy, unbound.need, unbound.path, "no-grant")
    offer, place = offered(policy, line, (tool,), "tools")
    return Denial(
        act="lookup",
        object=shown(value),
        rule=rule,
        tools=(tool,),
        sentence=_sentence(_who((tool,), "tools"), f"use {named}", rule, meaning),
        offer=offer,
        place=place,
        brief=_argument(unbound, policy),
    )


def is_told(unbound: Unbound) -> bool:
    """Whether a value that bound nothing is worth a word: an optional argument left out is not."""
    return unbound.reason not in (ABSENT, NOT_TEXT)


def is_granted(unbound: Unbound, effective: Effective) -> bool:
    """Whether another rule in force grants the path that the argument names, though it bound nothing itself."""
    if unbound.need is Need.CONNECT or not unbound.path:
        return False
    return effective.decide(unbound.need, unbound.path, host=True).allowed


def is_about(unbound: Unbound, path: str) -> bool:
    """Whether `path`, or a host, was refused because that value, which names it or what holds it, granted nothing."""
    if unbound.need is Need.CONNECT:
        from mcpwrap.policy import netreasons

        return bool(unbound.path) and netreasons.is_about(unbound, path)
    return (
        bool(unbound.path)
        and unbound.reason in REASONS
        and (below(path, unbound.path) or lasting(path) == unbound.path)
    )


def _argument(unbound: Unbound, policy: Policy) -> str:
    """Return what is wrong with the argument, for the user."""
    value = _value(unbound) if unbound.need is Need.CONNECT else unbound.value or unbound.path
    what = f'argument "{shown(unbound.argument)}"' + (f' = "{shown(value)}"' if value else "")
    if unbound.reason in (OUTSIDE, LEADS_OUTSIDE):
        rules = (rule for tool in policy.grant.tools for rule in tool.block.paths if rule.id == unbound.rule)
        own = any(rule.arg is not None and rule.arg.within != policy.grant.within for rule in rules)
        verb = "lies" if unbound.reason == OUTSIDE else "leads"
        return f"{what} {verb} outside {'what its rule is limited to' if own else 'policy.within'}"
    meaning = REASONS.get(unbound.reason)
    return f"{what}: {meaning or f'{_meaning(unbound.reason)}: {unbound.reason}'}"


def _value(unbound: Unbound) -> str:
    """Return the value that is told. Of a URL the host alone: what stands around it may be a secret."""
    return unbound.path if unbound.need is Need.CONNECT else unbound.path or unbound.value


def _ungranted(
    policy: Policy, need: Need, tools: tuple[str, ...], bound: Bound, arguments: Collection[str]
) -> str:
    """Return what there is to say of why nothing grants it, for the user; empty if no rule just does."""
    if tools and policy.grant.file != NO_FILE and not any(map(policy.tables_of, tools)):
        return "no header of the grant names this tool"
    network = need is Need.CONNECT
    unbound = [each for each in bound.unbound if (each.need is Need.CONNECT) == network]
    absent = list(dict.fromkeys(each.argument for each in unbound if each.reason == ABSENT))
    if (
        need is Need.EXEC
        or (bound.hosts if network else bound.paths)
        or not absent
        or len(absent) < len(unbound)
    ):
        return ""
    named = ", ".join(f'"{shown(name)}"' for name in list(arguments)[:MAX_ARGUMENTS])
    needed = ", ".join(f'"{shown(name)}"' for name in absent[:MAX_ARGUMENTS])
    return f"its rule needs the argument {needed}; this call has: {named or 'none'}"


def _who(tools: tuple[str, ...], area: Area) -> str:
    names = ", ".join(f'"{shown(tool)}"' for tool in tools)
    if not tools:
        outside = {"resources": "for a resource", "prompts": "for a prompt"}.get(area, "outside of any call")
        return f"The server, {outside},"
    return f"Tool {names}" if len(tools) == 1 else f"One of the tools {names}"


def _sentence(who: str, what: str, rule: str, meaning: str) -> str:
    return f"{who} was not allowed to {what}: {meaning} (rule {rule}). This was {ADVICE}."


def _meaning(rule: str) -> str:
    kind, colon, _ = rule.partition(":")
    if colon and kind == "private":
        return "the path is private"
    if colon and kind == "write-protected":
        return "the path is write-protected"
    return _MEANINGS.get(rule, "a rule of the grant forbids it")
