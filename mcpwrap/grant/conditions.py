"""The `args` of a tool's table, read into `ArgRule`s; what contradicts itself is noted.

`args.NAME` may be dotted as in `$arg:a.b[]`, in one quoted key or in several. A table in the tables of `args`
is the next step of a name; anything else is one of `CONDITIONS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.grant.consistency import contradictions, together
from mcpwrap.grant.grant import ArgRule
from mcpwrap.grant.problem import Wrong, did_you_mean
from mcpwrap.grant.regular import WAY_OUT, NoRE2, matcher
from mcpwrap.grant.rules import argument_steps, safe
from mcpwrap.grant.tables import kind_of
from mcpwrap.grant.values import OTHERS, TYPES, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.grant.block import Blocks
    from mcpwrap.grant.position import Path

CONDITIONS: Final = ("pattern", "enum", "type", "min", "max", "max_length", "required", "forbid")
_EXAMPLE: Final = 'as in: args.limit = { type = "integer", max = 100 }'


def conditions(blocks: Blocks, path: tuple[str, ...], table: Mapping[str, object]) -> tuple[ArgRule, ...]:
    """Return the rules of the `args` table at `path`, in file order."""
    reader = _Reader(blocks)
    reader.walk(path, (), table)
    if not table:
        blocks.source.problem(path, '"args" names no argument', _EXAMPLE, key=True)
    reader.judge()
    return tuple(rule for rule, _ in reader.rules)


class _Reader:
    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.source = blocks.source
        self.rules: list[tuple[ArgRule, Path]] = []

    def walk(self, path: tuple[str, ...], steps: tuple[str, ...], table: Mapping[str, object]) -> None:
        """Read the table of the argument at `steps`: conditions of its own, and what is in it."""
        own: dict[str, object] = {}
        for key, value in table.items():
            place = (*path, key)
            if isinstance(value, dict):
                more = self.steps(place, key, first=not steps)
                if more and OTHERS in steps:
                    self.source.problem(place, '"*" stands for whole arguments', key=True)
                elif more:
                    self.walk(place, (*steps, *more), value)
            elif not steps:
                what = f'the argument "{key}" wants a table of conditions, not {kind_of(value)}'
                self.source.problem(place, what, _EXAMPLE, key=True)
            elif key not in CONDITIONS:
                hint = did_you_mean(key, CONDITIONS)
                self.source.problem(place, f'"{key}" is no condition of an argument', hint, key=True)
            else:
                own[key] = value
        if steps and not table:
            self.source.problem(path, "a condition that asks for nothing", _EXAMPLE, key=True)
        if own and self.blocks.counted(path):
            try:
                self.rules.append((self.rule(path, steps, own), path))
            except _Noted:
                pass

    def steps(self, place: Path, key: str, *, first: bool) -> tuple[str, ...]:
        try:
            if key == OTHERS:
                if not first:
                    raise Wrong('"*" stands for whole arguments', 'as in: args."*" = { forbid = true }')
                return (OTHERS,)
            return argument_steps(safe(key))
        except ValueError as error:
            self.source.problem(place, str(error), getattr(error, "hint", ""), key=True)
            return ()

    def rule(self, path: tuple[str, ...], steps: tuple[str, ...], own: Mapping[str, object]) -> ArgRule:
        """Return the rule of conditions with their types judged. Raises _Noted."""
        count = len(self.source.problems)
        where = self.source.where(path, key=True)
        rule = ArgRule(
            self.blocks.id_of(*path),
            where,
            steps,
            pattern=self.pattern(path, own),
            enum=self.enum(path, own),
            type=self.type_name(path, own),
            min=self.number(path, own, "min"),
            max=self.number(path, own, "max"),
            max_length=self.length(path, own),
            required=self.flag(path, own, "required"),
            forbid=self.flag(path, own, "forbid"),
        )
        for key, what, hint in contradictions(rule, own) if count == len(self.source.problems) else ():
            self.source.problem((*path, key), what, hint, key=True)
        if count != len(self.source.problems):
            raise _Noted
        return rule

    def pattern(self, path: Path, own: Mapping[str, object]) -> str | None:
        value = self.typed(path, own, "pattern", str, "a string")
        if isinstance(value, str):
            try:
                matcher(value)
            except ValueError as error:
                hint = "a whole-text match in RE2: no look-around, no back-references (https://github.com/google/re2)"
                self.source.problem((*path, "pattern"), f"this is no RE2: {error}", hint)
            except NoRE2:
                what = "a pattern needs the Python module re2, which is not installed"
                self.source.problem((*path, "pattern"), what, WAY_OUT)
            return value
        return None

    def enum(self, path: Path, own: Mapping[str, object]) -> tuple[object, ...] | None:
        value = self.typed(path, own, "enum", list, "an array of values")
        if not isinstance(value, list):
            return None
        place = (*path, "enum")
        if not value:
            self.source.problem(place, "no value is allowed at all", "that is: forbid = true")
        for index, item in enumerate(value):
            if not isinstance(item, str | int | float):
                self.source.problem(
                    (*place, index), f"a value is a string, number or boolean, not {kind_of(item)}"
                )
            elif any(same(item, other) for other in value[:index]):
                self.source.problem((*place, index), "this value is listed twice")
        return tuple(value)

    def type_name(self, path: Path, own: Mapping[str, object]) -> str | None:
        value = self.typed(path, own, "type", str, "the name of a type")
        if isinstance(value, str) and value not in TYPES:
            self.source.problem((*path, "type"), f'there is no type "{value}"', did_you_mean(value, TYPES))
        return value if isinstance(value, str) else None

    def number(self, path: Path, own: Mapping[str, object], key: str) -> float | None:
        value = own.get(key)
        if value is None or (
            isinstance(value, int | float) and not isinstance(value, bool) and value == value
        ):
            return value
        self.source.problem((*path, key), f'"{key}" wants a number, not {kind_of(value)}')
        return None

    def length(self, path: Path, own: Mapping[str, object]) -> int | None:
        value = own.get("max_length")
        if value is None or (type(value) is int and value >= 0):
            return value
        found = "a negative one" if type(value) is int else kind_of(value)
        self.source.problem((*path, "max_length"), f'"max_length" wants a whole number, not {found}')
        return None

    def flag(self, path: Path, own: Mapping[str, object], key: str) -> bool:
        return self.typed(path, own, key, bool, "true or false") is True

    def typed(self, path: Path, own: Mapping[str, object], key: str, wanted: type, named: str) -> object:
        value = own.get(key)
        if value is None or isinstance(value, wanted):
            return value
        self.source.problem((*path, key), f'"{key}" wants {named}, not {kind_of(value)}')
        return None

    def judge(self) -> None:
        """Note rules of the table that cannot be met together."""
        for index, (rule, path) in enumerate(self.rules):
            for other, _ in self.rules[:index]:
                problem = together(rule, other) or together(other, rule)
                if problem:
                    what, hint = problem
                    self.source.problem(
                        path, what, f"{hint}; the other is on line {other.where.line}", key=True
                    )
                    break


class _Noted(Exception):
    """The conditions of one argument make no rule; why has been noted."""
