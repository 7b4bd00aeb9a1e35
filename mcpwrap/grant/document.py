"""One TOML document, grant file or profile, read noun by noun into rules."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar, cast

from mcpwrap.grant.block import Blocks
from mcpwrap.grant.grant import EVERY_TOOL, NEVER_PASSED, WINDOW_LIMIT, Block, ToolGrant
from mcpwrap.grant.noun import Table
from mcpwrap.grant.pattern import header_patterns
from mcpwrap.grant.problem import Wrong, did_you_mean
from mcpwrap.grant.render import key_text
from mcpwrap.grant.rules import directory, safe
from mcpwrap.grant.tables import entries, kind_of, strings_at, table_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.grant.grant import ArgRule, InstallWrite, OnDenial, Overlap, ServerNames, UnknownTools
    from mcpwrap.grant.paths import Variables
    from mcpwrap.grant.position import Path
    from mcpwrap.grant.source import Source

PROFILES = ("base", "node", "python", "npx", "uvx", "bun", "deno", "git", "chromium")
"""The shipped profiles. `base` is merged into every grant."""

LONGEST_WINDOW = 7 * 24 * 3_600
"""Seconds of the longest `window_limit`: a task may take days, and who means "for ever" has not thought of it."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIN = re.compile(r"sha256:[0-9a-f]{64}")
_DURATION = re.compile(r"([1-9][0-9]{0,8})([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
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
        self.resources: Block = NO_RULES
        self.prompts: Block = NO_RULES
        self.unknown_tools: UnknownTools = "refuse"
        self.window_limit: float = WINDOW_LIMIT
        self.on_denial: OnDenial = "annotate"
        self.sni: ServerNames = "match"
        self.nested_sandbox = False
        self.install_write: InstallWrite = ""


def read(source: Source, variables: Variables) -> Document:
    """Return what `source` says, as far as it is right."""
    return _Reader(source, variables).document()


class _Reader:
    """Reads one source, once."""

    def __init__(self, source: Source, variables: Variables) -> None:
        self.source = source
        self.variables = variables
        self.blocks = Blocks(source, variables)

    def document(self) -> Document:
        out = Document()
        top = entries(self.source, (), self.source.table, Table.FILE)
        self.policy(out, self.entries(top, Table.POLICY, "policy"))
        self.server(out, self.entries(top, Table.SERVER, "server"))
        out.startup = self.block(top, Table.STARTUP, "startup")
        out.resources = self.block(top, Table.RESOURCES, "resources")
        out.prompts = self.block(top, Table.PROMPTS, "prompts")
        out.tools = self.tools(table_at(self.source, ("tools",), top))
        return out

    def entries(self, values: Mapping[str, object], kind: Table, *path: str) -> dict[str, object]:
        return entries(self.source, path, table_at(self.source, path, values), kind)

    def block(self, values: Mapping[str, object], kind: Table, *path: str) -> Block:
        return self.blocks.block(path, self.entries(values, kind, *path), kind)

    def policy(self, out: Document, values: Mapping[str, object]) -> None:
        roots = [
            self.attempt(lambda root: directory(root, self.variables), text, ("policy", "within", index))
            for index, text in strings_at(self.source, ("policy", "within"), values)
        ]
        out.within = tuple(root for root in roots if root)
        self.blocks.within = out.within or (_NOWHERE,) * len(roots)
        out.overlap = cast("Overlap", values.get("overlap", out.overlap))
        out.on_denial = cast("OnDenial", values.get("on_denial", out.on_denial))
        out.unknown_tools = cast("UnknownTools", values.get("unknown_tools", out.unknown_tools))
        out.sni = cast("ServerNames", values.get("sni", out.sni))
        limit = values.get("window_limit")
        if isinstance(limit, str):
            out.window_limit = self.attempt(_duration, limit, ("policy", "window_limit")) or WINDOW_LIMIT

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
        out.server = self.blocks.block(("server",), values, Table.SERVER)
        out.quiet = self.block(values, Table.QUIET, "server", "quiet")
        out.nested_sandbox = values.get("nested_sandbox") is True
        out.install_write = cast("InstallWrite", values.get("install_write", ""))

    def shipped(self, index: int, name: str) -> bool:
        path: Path = ("server", "profile", index)
        if name not in PROFILES:
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
            path = ("tools", header)
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
            block = self.blocks.block(path, values, Table.TOOL)
            pin = self.pin((*path, "pin"), values.get("pin"), patterns)
            out.append(ToolGrant(header, patterns, inherit, block, self.args(path, values), pin))
        return tuple(out)

    def args(self, path: tuple[str, ...], values: Mapping[str, object]) -> tuple[ArgRule, ...]:
        table = values.get("args")
        if not isinstance(table, dict):
            return ()
        from mcpwrap.grant.conditions import conditions  # here only: few grants have any

        return conditions(self.blocks, (*path, "args"), table)

    def pin(self, path: Path, text: object, patterns: tuple[str, ...]) -> str | None:
        if not isinstance(text, str):
            return None
        if len(patterns) > 1 or any("*" in pattern for pattern in patterns):
            what = "a pin is of one tool, and this header names several"
            self.source.problem(path, what, "give the tool a table of its own", key=True)
        elif not _PIN.fullmatch(text):
            hint = 'as in "sha256:" and 64 digits 0-9 a-f; the message of a refused call has it'
            self.source.problem(path, "this is no digest", hint)
        return text

    def attempt(self, make: Callable[[str], _T], text: str, path: Path, *, key: bool = False) -> _T | None:
        """Return what `make` makes of `text`; note why it will not."""
        try:
            return make(text)
        except ValueError as error:
            self.source.problem(path, str(error), getattr(error, "hint", ""), key=key)
            return None


def _duration(text: str) -> float:
    """Return the seconds of `90s`, `10m` or `2h`. Raises Wrong."""
    match = _DURATION.fullmatch(text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else 0
    if not match:
        raise Wrong(f'"{text}" is no duration', 'as in "90s", "10m" or "2h"')
    if seconds > LONGEST_WINDOW:
        raise Wrong(f'"{text}" is longer than a call can take', f"at most {LONGEST_WINDOW // 3_600}h")
    return float(seconds)


def _never_passed(name: str) -> tuple[str, str]:
    return f'"{name}" is never passed to a server', "start the server by a script that sets it"
