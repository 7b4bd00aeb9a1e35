"""From a parsed grant and the facts of a machine to the one compiled policy.

The same object answers enforcement, `why` and `show`; the broker inherits it by fork.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.grant.grant import EVERY_TOOL, Block, ExecRule, Grant, Overlap
from mcpwrap.grant.pattern import header_regex
from mcpwrap.policy.bind import bind
from mcpwrap.policy.effective import Effective
from mcpwrap.policy.facts import Facts
from mcpwrap.policy.floor import Floor, floor
from mcpwrap.policy.ground import Grounds
from mcpwrap.policy.places import Identity, Places, private_places, protected_places
from mcpwrap.policy.rules import Rules, merge, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.policy.active import Active, Bound, Resolved

__all__ = ["Facts", "Floor", "Policy", "compile"]

REMEMBERED_TOOLS = 256
"""Tool names and tool sets whose tables are kept; the client chooses names, so the memory must end."""


class ToolTable(NamedTuple):
    """One `[tools.…]` table, resolved."""

    header: str
    matches: re.Pattern[str]
    every: bool
    inherit: bool
    block: Block
    rules: Rules


class Policy:
    """One run's policy. Immutable but for its memories (`born`, caches), which decide nothing new.

    `floor`: what mounts and Landlock must hold. `overlap`: how calls overlap. `server`, `startup`,
    `quiet`: resolved tables. `unresolved`: `exec` rules whose program is not on this machine.
    `homes`: the home directories, as written and as resolved. `inodes`: what is private or
    write-protected by (st_dev, st_ino). `within`: rule id → real roots of its `$arg`. `born`:
    what was made since its windows opened, see `Effective.created`.
    """

    def __init__(self, grant: Grant, facts: Facts) -> None:
        self.grant = grant
        self.facts = facts
        self.overlap: Overlap = grant.overlap
        self.private: Places = private_places(facts)
        self.protected: Places = protected_places(facts)
        self.homes = facts.homes
        self.inodes: dict[Identity, str] = self.protected.identities | self.private.identities
        self.unresolved: tuple[ExecRule, ...] = ()
        self.server = self._resolve(grant.server)
        self.startup = self._resolve(grant.startup)
        self.quiet = self._resolve(grant.quiet)
        self.tools = tuple(
            ToolTable(
                tool.header,
                re.compile(header_regex(tool.patterns)),
                tool.patterns == (EVERY_TOOL,),
                tool.inherit,
                tool.block,
                self._resolve(tool.block),
            )
            for tool in grant.tools
        )
        blocks = (grant.server, grant.startup, *(tool.block for tool in grant.tools))
        tables = (self.server, self.startup, *(tool.rules for tool in self.tools))
        self.floor: Floor = floor(blocks, tables, facts, self.private)
        self.grounds = Grounds(self.floor, facts, self.private, self.protected)
        self.within: dict[str, tuple[str, ...]] = {
            rule.id: tuple(map(facts.real, rule.arg.within))
            for block in blocks
            for rule in block.paths
            if rule.arg is not None
        }
        self.born: dict[str, frozenset[str]] = {}
        self.vacated: set[str] = set()
        self._tables_of: dict[str, tuple[ToolTable, ...]] = {}
        self._merged: dict[tuple[bool, tuple[str, ...]], Rules] = {}

    def _resolve(self, block: Block) -> Rules:
        rules, missing = resolve(block, self.facts, self.private, self.protected)
        self.unresolved += tuple(rule for rule in missing if not rule.optional)
        return rules

    def guarded(self, path: str, *, write: bool = False) -> str:
        """Return the id of the private (for `write` also write-protected) rule over `path`, or empty.

        No rule of a grant is asked: for what is named in passing, and for what may be offered to the user.
        """
        found = self.private.match(path) or (self.protected.match(path) if write else None)
        return found.id if found else ""

    def tables_of(self, tool: str) -> tuple[ToolTable, ...]:
        """Return the tables in force during a call of `tool`, `[tools."*"]` last.

        None are for "", which stands for every other method: each of those has the grant of `[server]` only.
        """
        if not tool:
            return ()
        tables = self._tables_of.get(tool)
        if tables is None:
            if len(self._tables_of) >= REMEMBERED_TOOLS:
                self._tables_of.clear()
            own = tuple(table for table in self.tools if not table.every and table.matches.fullmatch(tool))
            inherits = all(table.inherit for table in own)
            every = tuple(table for table in self.tools if table.every and inherits)
            tables = self._tables_of[tool] = own + every
        return tables

    def tool_block(self, tool: str) -> Block:
        """Return the rules in force during a call of `tool`, besides those of `[server]`."""
        blocks = [table.block for table in self.tables_of(tool)]
        return Block(
            tuple(rule for block in blocks for rule in block.paths),
            tuple(rule for block in blocks for rule in block.execs),
        )

    def rules_of(self, tools: tuple[str, ...], *, startup: bool) -> Rules:
        """Return `[server]`, `[startup]` if asked for, and the tables of `tools`, as one."""
        key = (startup, tools)
        merged = self._merged.get(key)
        if merged is None:
            if len(self._merged) >= REMEMBERED_TOOLS:
                self._merged.clear()
            tables = [self.server, *([self.startup] if startup else [])]
            tables += [table.rules for tool in tools for table in self.tables_of(tool)]
            merged = self._merged[key] = merge(tables)
        return merged

    def bind(self, tool: str, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]) -> Bound:
        """Return what the arguments of one call of `tool` grant; see `policy.bind`."""
        return bind(self, self.tool_block(tool), arguments, resolve)

    def effective(self, active: Active) -> Effective:
        """Return the decisions in force while `active` is; at most one of them is in use at a time."""
        return Effective(self, active)


def compile(grant: Grant, facts: Facts) -> Policy:
    """Resolve the names of `grant` against `facts`."""
    return Policy(grant, facts)
