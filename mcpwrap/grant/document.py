"""One TOML document, grant file or profile, read noun by noun into rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar, cast

from mcpwrap.grant.grant import EVERY_TOOL, NEVER_PASSED, Block, ExecRule, Overlap, PathRule, ToolGrant
from mcpwrap.grant.noun import Grammar, Table
from mcpwrap.grant.nouns import LATER_PROFILES, nouns_of
from mcpwrap.grant.pattern import header_patterns
from mcpwrap.grant.problem import did_you_mean
from mcpwrap.grant.render import key_text
from mcpwrap.grant.rules import directory, exec_rule, path_rule, safe
from mcpwrap.grant.tables import entries, kind_of, strings_at, table_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.grant.paths import Variables
    from mcpwrap.grant.position import Path
    from mcpwrap.grant.source import Source

MAX_RULES = 1_024
"""Rules of one document. Every grant is compared with every carve-out; the largest drafted grant in
trials had under a hundred."""

PROFILES = ("base", "node", "python", "git")
"""The shipped profiles. `base` is merged into every grant."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_T = TypeVar("_T")

NO_RULES = Block()
_NOWHERE = "/nonexistent"
"""Stands for roots that were refused, so that each `$arg` is not refused for the lack of them as well."""


class Document:
    """What one document says; the defaults are those of an empty one."""

    def __init__(self) -> None:
        self.command: tuple[str, ...] | None = None
        self.profiles: tuple[str, ...] = ()
        self.env: tuple[str, ...] = ()
        self.set: dict[str, str] = {}
        self.server: Block = NO_RULES
        self.quiet: Block = NO_RULES
        self.startup: Block = NO_RULES
        self.within: tuple[str, ...] = ()
        self.overlap: Overlap = "auto"
        self.tools: tuple[ToolGrant, ...] = ()


def read(source: Source, variables: Variables) -> Document:
    """Return what `source` says, as far as it is right."""
    return _Reader(source, variables).document()


class _Reader:
    """Reads one source, once. Rule ids carry the profile's name: each line of each file has its own."""

    def __init__(self, source: Source, variables: Variables) -> None:
        self.source = source
        self.variables = variables
        self.within: tuple[str, ...] = ()
        self.rules = 0
        self.prefix = f"profile {source.profile}: " if source.profile else ""

    def document(self) -> Document:
        out = Document()
        top = entries(self.source, (), self.source.table, Table.FILE)
        self.policy(out, self.entries(top, Table.POLICY, "policy"))
        self.server(out, self.entries(top, Table.SERVER, "server"))
        out.startup = self.block(("startup",), self.entries(top, Table.STARTUP, "startup"), Table.STARTUP)
        out.tools = self.tools(table_at(self.source, ("tools",), top))
        return out

    def entries(self, values: Mapping[str, object], kind: Table, *path: str) -> dict[str, object]:
        return entries(self.source, path, table_at(self.source, path, values), kind)

    def policy(self, out: Document, values: Mapping[str, object]) -> None:
        roots = [
            self.attempt(lambda root: directory(root, self.variables), text, ("policy", "within", index))
            for index, text in strings_at(self.source, ("policy", "within"), values)
        ]
        out.within = tuple(root for root in roots if root)
        self.within = out.within or (_NOWHERE,) * len(roots)
        if "overlap" in values:
            out.overlap = cast("Overlap", values["overlap"])

    def server(self, out: Document, values: Mapping[str, object]) -> None:
        if "command" in values:
            out.command = tuple(text for _, text in strings_at(self.source, ("server", "command"), values))
            if not out.command:
                self.source.problem(
                    ("server", "command"), "the command is empty", "remove the line to allow any"
                )
        wanted = strings_at(self.source, ("server", "profile"), values)
        out.profiles = tuple(name for index, name in wanted if self.shipped(index, name))
        out.env = self.env(values)
        out.set = self.set(values, out.env)
        out.server = self.block(("server",), values, Table.SERVER)
        quiet = self.entries(values, Table.QUIET, "server", "quiet")
        out.quiet = self.block(("server", "quiet"), quiet, Table.QUIET)

    def shipped(self, index: int, name: str) -> bool:
        path: Path = ("server", "profile", index)
        if name in LATER_PROFILES:
            self.source.problem(path, f'profile "{name}" is not in this release', LATER_PROFILES[name])
        elif name not in PROFILES:
            self.source.problem(path, f'there is no profile "{name}"', did_you_mean(name, PROFILES))
        return name in PROFILES

    def env(self, values: Mapping[str, object]) -> tuple[str, ...]:
        names: list[str] = []
        for index, name in strings_at(self.source, ("server", "env"), values):
            if name.startswith(NEVER_PASSED):
                self.source.problem(("server", "env", index), *_never_passed(name))
            elif _NAME.fullmatch(name):
                names.append(name)
            else:
                hint = 'a name has no "$", "*" or value; values are given in [server.set]'
                self.source.problem(("server", "env", index), f'"{name}" is no name of a variable', hint)
        return tuple(names)

    def set(self, values: Mapping[str, object], env: tuple[str, ...]) -> dict[str, str]:
        out: dict[str, str] = {}
        for name, text in table_at(self.source, ("server", "set"), values).items():
            path: Path = ("server", "set", name)
            if not _NAME.fullmatch(name):
                self.source.problem(path, f'"{name}" is no name of a variable', key=True)
            elif name.startswith(NEVER_PASSED):
                self.source.problem(path, *_never_passed(name), key=True)
            elif not isinstance(text, str):
                self.source.problem(
                    path, f"a string is wanted here, not {kind_of(text)}", "put the value in quotes"
                )
            elif "\0" in text:
                self.source.problem(path, "a NUL character is not allowed")
            elif name in env:
                self.source.problem(
                    path, f'"{name}" is passed on by env and given a value here', "keep one", key=True
                )
            else:
                out[name] = self.attempt(self.variables.expand, text, path) or ""
        return out

    def tools(self, tables: Mapping[str, object]) -> tuple[ToolGrant, ...]:
        out: list[ToolGrant] = []
        for header in tables:
            path: Path = ("tools", header)
            patterns = self.attempt(lambda text: header_patterns(safe(text)), header, path, key=True) or ()
            same = next((other for other in out if set(other.patterns) == set(patterns)), None)
            if same is not None and patterns:
                what = f"this header names the same tools as [tools.{key_text(same.header)}]"
                self.source.problem(path, what, "put all of it in one table", key=True)
            values = entries(self.source, path, table_at(self.source, path, tables), Table.TOOL)
            inherit = values.get("inherit", True) is True
            if not inherit and patterns == (EVERY_TOOL,):
                what = '[tools."*"] is what the others inherit: it has nothing to inherit itself'
                self.source.problem((*path, "inherit"), what, "remove the line", key=True)
            out.append(ToolGrant(header, patterns, inherit, self.block(path, values, Table.TOOL)))
        return tuple(out)

    def block(self, path: Path, values: Mapping[str, object], kind: Table) -> Block:
        name = ".".join(key_text(str(step)) for step in path)
        grammars = {noun.name: noun.grammar for noun in nouns_of(kind).values()}
        paths: list[PathRule] = []
        execs: list[ExecRule] = []
        for noun in values:
            if grammars[noun] not in (Grammar.PATHS, Grammar.EXECS):
                continue
            for index, text in strings_at(self.source, (*path, noun), values):
                place = (*path, noun, index)
                self.rules += 1
                if self.rules > MAX_RULES:
                    if self.rules == MAX_RULES + 1:
                        self.source.problem(place, f"a grant of more than {MAX_RULES} rules is not taken")
                    continue
                rule_id = f"{self.prefix}{name}.{noun}[{index}]"
                where = self.source.where(place)
                try:
                    if grammars[noun] is Grammar.EXECS:
                        optional = bool(self.source.profile)
                        execs.append(exec_rule(rule_id, text, where, self.variables, optional=optional))
                    else:
                        within = self.within if kind is Table.TOOL else None
                        paths.append(path_rule(noun, rule_id, text, where, self.variables, within, kind))
                except ValueError as error:
                    self.source.problem(place, str(error))
        return Block(tuple(paths), tuple(execs))

    def attempt(self, make: Callable[[str], _T], text: str, path: Path, *, key: bool = False) -> _T | None:
        """Return what `make` makes of `text`; note why it will not."""
        try:
            return make(text)
        except ValueError as error:
            self.source.problem(path, str(error), key=key)
            return None


def _never_passed(name: str) -> tuple[str, str]:
    return f'"{name}" is never passed to a server', "start the server by a script that sets it"
