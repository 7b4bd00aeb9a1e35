"""`args`: whether the arguments of one call are what the conditions of its tool ask for.

For harm that no system call shows. What cannot be judged with certainty is refused: servers read the same
arguments with readers of their own, some of which take a name in another case for the name (encoding/json of
Go), or one with a NUL for what is before it (cJSON), and a value of another type for what it looks like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.grant.regular import matcher
from mcpwrap.grant.rules import ITEMS
from mcpwrap.grant.values import OTHERS, fits, same
from mcpwrap.limits import JUDGED_ITEMS, LONG_TEXT_BYTES
from mcpwrap.policy.shown import shown
from mcpwrap.protocol.glance import LongText
from mcpwrap.protocol.jsonrpc import PROTOTYPE, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwrap.grant.grant import ArgRule

MAX_LISTED: Final = 8
"""Allowed values that are told."""

MOST_BYTES: Final = 4
"""Bytes of one character in a text that was not read: UTF-8 has up to 4, an escape 2 (`\\u` is never unread)."""

_TOO_LONG: Final = "is too long to be checked"


class Refusal(NamedTuple):
    """One condition that was not met. `rule` is its id, `argument` the place (`items[2].name`) as it is told.

    `why`: a clause for the model that begins with the argument and holds no TOML.
    """

    rule: str
    argument: str
    why: str


class _Node:
    """What is asked of one value, and of what is in it."""

    def __init__(self) -> None:
        self.rules: list[ArgRule] = []
        self.inside: dict[str, _Node] = {}


def check(rules: Iterable[ArgRule], arguments: object) -> Refusal | None:
    """Return the first condition of `rules` that `arguments` do not meet, None if they meet all.

    `arguments`: as `protocol` read them, an empty mapping if the call has none. They may hold `LongText`,
    which is refused wherever a condition needs its characters.
    """
    top = _Node()
    others: list[ArgRule] = []
    for rule in rules:
        if rule.steps == (OTHERS,):
            others.append(rule)
            continue
        node = top
        for step in rule.steps:
            node = node.inside.setdefault(step, _Node())
        node.rules.append(rule)
    if not top.inside and not others:
        return None
    if type(arguments) is not dict:
        first = next(iter(others), None) or _first(top)
        return Refusal(first.id, "", "the arguments of the call are no object")
    if len(arguments) > JUDGED_ITEMS:
        first = next(iter(others), None) or _first(top)
        return Refusal(first.id, "", f"the arguments of the call are more than {JUDGED_ITEMS}")
    refusal = _inside(top, arguments, "")
    for name, value in arguments.items() if refusal is None else ():
        for rule in others if name not in top.inside else ():
            why = _unmet(rule, value)
            if why:
                return _refusal(rule, name, why)
    return refusal


def _first(node: _Node) -> ArgRule:
    while not node.rules:
        node = next(iter(node.inside.values()))
    return node.rules[0]


def _refusal(rule: ArgRule, place: str, why: str) -> Refusal:
    return Refusal(rule.id, shown(place), f'the argument "{shown(place)}" {why}')


def _judge(node: _Node, value: object, place: str) -> Refusal | None:
    for rule in node.rules:
        why = _unmet(rule, value)
        if why:
            return _refusal(rule, place, why)
    return _inside(node, value, place) if node.inside else None


def _inside(node: _Node, value: object, place: str) -> Refusal | None:
    """Judge what is in a value that some rule wants to look into."""
    items = node.inside.get(ITEMS)
    if isinstance(value, list | dict) and len(value) > JUDGED_ITEMS:
        return _refusal(_first(node), place, f"holds more than {JUDGED_ITEMS} values")
    if items is not None:
        if type(value) is not list:
            return _refusal(_first(items), place, "must be an array")
        if not value:
            return _absent(node, place)
        judged = (_judge(items, item, f"{place}[{index}]") for index, item in enumerate(value))
        return next((each for each in judged if each is not None), None)
    if type(value) is not dict:
        return _refusal(_first(node), place, "must be an object")
    if node.inside and PROTOTYPE in value and PROTOTYPE not in node.inside:
        why = "is not allowed: some servers take what is in such a prototype for arguments"
        return _refusal(_first(node), _joined(place, PROTOTYPE), why)
    twin = _twin(node, value)
    if twin is not None:
        name, ruled = twin
        why = f'differs from "{shown(ruled)}" by case alone, or behind a NUL: some servers take one for the other'
        return _refusal(_first(node.inside[ruled]), _joined(place, name), why)
    for name, child in node.inside.items():
        at = _joined(place, name)
        refusal = _judge(child, value[name], at) if name in value else _missing(child, at)
        if refusal is not None:
            return refusal
    return None


def _twin(node: _Node, value: Mapping[str, object]) -> tuple[str, str] | None:
    """Return a name that some server takes for a ruled one, and the ruled one."""
    ruled = {folded(name): name for name in node.inside}
    for name in value:
        if name not in node.inside and folded(name) in ruled:
            return name, ruled[folded(name)]
    return None


def _missing(node: _Node, place: str) -> Refusal | None:
    """Judge a value that is not there: it must be, and so must what is in it, if a rule says so."""
    needed = next((rule for rule in node.rules if rule.required), None)
    return _refusal(needed, place, "is required") if needed is not None else _absent(node, place)


def _absent(node: _Node, place: str) -> Refusal | None:
    """Judge what is in a value that is not there, or is an array without items."""
    for name, child in node.inside.items():
        if name != ITEMS:
            refusal = _missing(child, _joined(place, name))
        else:  # of no item nothing is required, but that there be one
            needed = next((rule for rule in child.rules if rule.required), None)
            refusal = _refusal(needed, place + ITEMS, "is required") if needed is not None else None
        if refusal is not None:
            return refusal
    return None


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _unmet(rule: ArgRule, value: object) -> str:
    """Return why one value does not meet the conditions of `rule`, empty if it does."""
    if rule.forbid:
        return "is not allowed"
    if rule.required and value is None and rule.type != "null":
        return "is required, and null is no value"
    if isinstance(value, LongText):
        return _unread(rule, value)
    reads = rule.pattern is not None or rule.enum is not None
    if reads and isinstance(value, str) and len(value) > LONG_TEXT_BYTES:
        return _TOO_LONG  # As if it had not been read: that is not to depend on how a line is written.
    if rule.type is not None and not fits(value, rule.type):
        return f"must be of type {rule.type}"
    if rule.enum is not None and not any(same(value, allowed) for allowed in rule.enum):
        listed = ", ".join(_told(allowed) for allowed in rule.enum[:MAX_LISTED])
        return f"must be one of: {listed}" + (", …" if len(rule.enum) > MAX_LISTED else "")
    if rule.pattern is not None:
        if not isinstance(value, str):
            return "must be a string"
        if not matcher(rule.pattern)(value):
            return f'must match, as a whole, the pattern "{shown(rule.pattern)}"'
    if rule.min is not None or rule.max is not None:
        if not fits(value, "number"):
            return "must be a number"
        assert isinstance(value, int | float)
        if rule.min is not None and not value >= rule.min:
            return f"must be at least {rule.min}"
        if rule.max is not None and not value <= rule.max:
            return f"must be at most {rule.max}"
    if rule.max_length is not None:
        if not isinstance(value, str | list | dict):
            return "must be a string, an array or an object"
        if len(value) > rule.max_length:
            return f"must not be longer than {rule.max_length}"
    return ""


def _unread(rule: ArgRule, value: LongText) -> str:
    """Judge a string that was too long to be read: only its type is known, and about how long it is."""
    if rule.type not in (None, "string"):
        return f"must be of type {rule.type}"
    if rule.pattern is not None or rule.enum is not None:
        return _TOO_LONG
    if rule.min is not None or rule.max is not None:
        return "must be a number"
    if rule.max_length is None or value.size <= rule.max_length:
        return ""
    certain = value.size // MOST_BYTES > rule.max_length
    return (
        f"must not be longer than {rule.max_length}" if certain else "is too long to be counted for certain"
    )


def _told(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{shown(value)}"' if isinstance(value, str) else str(value)
