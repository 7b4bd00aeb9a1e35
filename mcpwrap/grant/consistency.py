"""Conditions of `args` that can never be met, alone or together, or that add nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.grant.rules import ITEMS
from mcpwrap.grant.values import NUMBERS, OTHERS, fits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.grant.grant import ArgRule

_WITH_LENGTH: Final = ("string", "array", "object")


def contradictions(rule: ArgRule, own: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Return (key, why it can never be met or adds nothing, hint) of one rule's conditions."""
    out: list[tuple[str, str, str]] = []
    others = [key for key in own if key != "forbid"]
    if rule.forbid and others:
        out.append((others[0], f'the argument is forbidden, so "{others[0]}" can never apply', "keep one"))
        return out
    if not rule.forbid and not rule.required and not set(own) - {"forbid", "required"}:
        return [(next(iter(own)), "a condition that asks for nothing", "remove the line")]
    if rule.required and rule.steps == (OTHERS,):
        out.append(("required", '"*" stands for names that are not known, and none of them is required', ""))
    for key in ("pattern", "min", "max", "max_length"):
        if rule.enum is not None and key in own:
            out.append((key, f'the values are listed, so "{key}" adds nothing', "keep one"))
    kinds = {"pattern": ("string",), "min": NUMBERS, "max": NUMBERS, "max_length": _WITH_LENGTH}
    for key, types in kinds.items():
        if key not in own:
            continue
        if rule.type is not None and rule.type not in types:
            out.append((key, f'no {rule.type} can meet "{key}"', f'"{key}" is for: {", ".join(types)}'))
        clash = next((name for name in kinds if name in own and not set(kinds[name]) & set(types)), None)
        if clash is not None and list(kinds).index(clash) < list(kinds).index(key):
            out.append((key, f'no value can meet "{clash}" and "{key}"', "keep one"))
    if rule.min is not None and rule.max is not None and rule.min > rule.max:
        out.append(("min", "no number is both: min is greater than max", "exchange them"))
    if rule.enum is not None and rule.type is not None:
        wrong = next((value for value in rule.enum if not fits(value, rule.type)), None)
        if wrong is not None:
            out.append(("enum", f"a listed value can never be given: it is no {rule.type}", "keep one"))
    return out


def together(rule: ArgRule, other: ArgRule) -> tuple[str, str] | None:
    """Return what is wrong with `rule` beside `other`, and a hint."""
    name = ".".join(rule.steps).replace("." + ITEMS, ITEMS)
    if rule.steps == other.steps:
        return f'"{name}" is listed twice', "put all of it in one table"
    if OTHERS in (rule.steps[0], other.steps[0]):
        return None
    depth = next(
        (i for i, (mine, theirs) in enumerate(zip(rule.steps, other.steps, strict=False)) if mine != theirs),
        None,
    )
    if depth is None:
        if len(rule.steps) < len(other.steps):
            return None
        above, wanted = other, "array" if rule.steps[len(other.steps)] == ITEMS else "object"
        if above.forbid:
            return f'"{name}" is in an argument that is forbidden', "keep one"
        if (
            above.pattern is not None
            or above.enum is not None
            or above.min is not None
            or above.max is not None
        ):
            return f'"{name}" is in an argument that can be no {wanted}', "keep one"
        if above.type not in (None, wanted):
            return f'"{name}" is in an argument that must be of type {above.type}', f"it needs an {wanted}"
        return None
    mine, theirs = rule.steps[depth], other.steps[depth]
    if ITEMS in (mine, theirs):
        return f'"{name}" and another rule want one argument to be an array and an object', "keep one"
    if mine.casefold() == theirs.casefold():
        return (
            f'"{name}" differs from another rule by case alone, and a call may have one of them only',
            "keep one",
        )
    return None
