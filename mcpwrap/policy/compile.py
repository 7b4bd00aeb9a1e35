"""From a parsed grant and the facts of a machine to the one compiled policy.

The same object answers enforcement, `why` and `show`; the broker inherits it by fork.
"""

from __future__ import annotations

import importlib
import re
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.grant.grant import EVERY_TOOL, Block, ExecRule, Grant, Overlap, joined
from mcpwrap.grant.pattern import header_regex
from mcpwrap.operation import Decision
from mcpwrap.policy.bind import bind
from mcpwrap.policy.decide import NO_NETWORK
from mcpwrap.policy.effective import Effective
from mcpwrap.policy.facts import Facts
from mcpwrap.policy.floor import Floor, floor
from mcpwrap.policy.ground import Grounds
from mcpwrap.policy.loaded import Loaded
from mcpwrap.policy.match import upward
from mcpwrap.policy.places import Identity, Places, private_places, protected_places
from mcpwrap.policy.rules import Rules, merge, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.grant.grant import ArgRule, ListenRule, UnixRule
    from mcpwrap.policy.active import Active, Area, Bound, Resolved

__all__ = ["Facts", "Floor", "Policy", "compile"]

REMEMBERED_TOOLS = 256
"""Tool names and tool sets whose tables are kept; the client chooses names, so the memory must end."""


class ToolTable(NamedTuple):
    """One `[tools.…]` table, resolved."""

    header: str
    patterns: tuple[str, ...]
    matches: re.Pattern[str]
    every: bool
    inherit: bool
    block: Block
    rules: Rules
    args: tuple[ArgRule, ...] = ()
    pin: str | None = None

    def exactness(self, tool: str) -> tuple[int, int]:
        """Return how exactly the header names `tool`, which it does: by its name, by the beginning, or not at all."""
        if tool in self.patterns:
            return 2, 0
        heads = (pattern.partition("*")[0] for pattern in self.patterns if "*" in pattern)
        return int(not self.every), max((len(head) for head in heads if tool.startswith(head)), default=0)


class Policy:
    """One run's policy. Immutable but for its memories (`born`, caches), which decide nothing new.

    `floor`: what mounts and Landlock must hold. `overlap`: how calls overlap. `server`, `startup`,
    `quiet`: resolved tables; `areas`: those of `[resources]` and `[prompts]`. `listens`, `sockets`: rules of
    all tables; `turned`: those of `sockets` that are not followed where they lead; `socket_places`: their paths,
    and the directories above; `loaded`: what of the private HOME is
    run by itself; `egress`: whether any has one of hosts or ports. `unresolved`: `exec` rules whose
    program is not on this machine. `homes`: the home directories, as written and as resolved. `inodes`: what is
    private or write-protected by (st_dev, st_ino). `within`: rule id → real roots of its `$arg`. `born`:
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
        # What is not on this machine need not be refused in a quiet way.
        self.quiet = resolve(grant.quiet, facts, self.private, self.protected)[0]
        self.areas: dict[Area, Rules] = {
            "resources": self._resolve(grant.resources),
            "prompts": self._resolve(grant.prompts),
        }
        self.tools = tuple(
            ToolTable(
                tool.header,
                tool.patterns,
                re.compile(header_regex(tool.patterns)),
                tool.patterns == (EVERY_TOOL,),
                tool.inherit,
                tool.block,
                self._resolve(tool.block),
                tool.args,
                tool.pin,
            )
            for tool in grant.tools
        )
        blocks = grant.blocks
        tables = (self.server, self.startup, *self.areas.values(), *(tool.rules for tool in self.tools))
        self.listens: tuple[ListenRule, ...] = tuple(rule for block in blocks for rule in block.listens)
        self.sockets: tuple[UnixRule, ...] = tuple(rule for block in blocks for rule in block.sockets)
        named = (path for rule in self.sockets for path in (rule.path, facts.real(rule.path)))
        self.socket_places: frozenset[str] = frozenset(above for path in named for above in upward(path))
        self.egress: bool = bool(self.listens) or any(block.hosts for block in blocks)
        self._all_tables = tables
        self._union: Rules | None = None
        self.floor: Floor = floor(blocks, tables, facts, self.private)
        self.grounds = Grounds(self.floor, facts, self.private, self.protected)
        self.loaded = Loaded(facts, self.grounds.above)
        self.turned: tuple[UnixRule, ...] = tuple(filter(self._is_turned, self.sockets))
        turned = {rule.id for rule in self.turned}
        for hosts in filter(None, (table.hosts for table in tables)):
            hosts.sockets = {path: rule for path, rule in hosts.sockets.items() if rule not in turned}
        self.within: dict[str, tuple[str, ...]] = {
            rule.id: tuple(map(facts.real, rule.arg.within))
            for block in blocks
            for rule in block.paths
            if rule.arg is not None
        }
        self.born: dict[str, frozenset[str]] = {}
        self.vacated: set[str] = set()
        self._tables_of: dict[str, tuple[ToolTable, ...]] = {}
        self._merged: dict[tuple[bool, tuple[tuple[Area, str], ...]], Rules] = {}

    def _resolve(self, block: Block) -> Rules:
        rules, missing = resolve(block, self.facts, self.private, self.protected)
        self.unresolved += tuple(rule for rule in missing if not rule.optional)
        return rules

    def _is_turned(self, rule: UnixRule) -> bool:
        """Whether the rule leads by a link that some tool may have made, in this run or another one."""
        real = self.facts.real
        for each in upward(rule.path):
            directory, _, name = each.rpartition("/")
            is_link = bool(name) and real(each) != f"{real(directory or '/').rstrip('/')}/{name}"
            if is_link and self.grounds.of(each).writable:
                return True
        return False

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
        return joined(table.block for table in self.tables_of(tool))

    def args_of(self, tool: str) -> tuple[ArgRule, ...]:
        """Return the conditions on the arguments of `tool`: of the headers that have any, the most exact alone.

        Headers that name it equally exactly add up.
        """
        tables = [table for table in self.tables_of(tool) if table.args]
        best = max((table.exactness(tool) for table in tables), default=None)
        return tuple(rule for table in tables if table.exactness(tool) == best for rule in table.args)

    def pin_of(self, tool: str) -> str | None:
        """Return the digest the description of `tool` must have, None if it may change."""
        pinned = [table for table in self.tables_of(tool) if table.pin is not None]
        return max(pinned, key=lambda table: table.exactness(tool)).pin if pinned else None

    def names_tool(self, tool: str) -> bool:
        """Whether a header other than `"*"` names `tool`."""
        return any(not table.every for table in self.tables_of(tool))

    def answers(self, name: str) -> Decision:
        """Return whether the name may be looked up: whether any table could ever grant a port of it.

        By all tables and not those in force, for what a look-up was answered is remembered beyond the call.
        """
        if not self._knows_hosts:
            return NO_NETWORK
        from mcpwrap.policy.guard import lookup

        if self._union is None:
            self._union = merge(self._all_tables)
        return lookup(self._union.hosts, self.quiet.hosts, name)

    @property
    def _knows_hosts(self) -> bool:
        """Whether a rule grants a host or a port, or silences refusals of one."""
        return self.egress or self.quiet.hosts is not None

    def load(self) -> None:
        """Import now what else is imported when it is first asked: a broker's view holds no mcpwrap."""
        if self._knows_hosts:
            importlib.import_module("mcpwrap.policy.guard")

    @property
    def granted_networks(self) -> tuple[str, ...]:
        """The networks that rules name, as CIDR text: a made-up address must not lie in one."""
        rules = (rule for block in self.grant.blocks for rule in block.hosts)
        return tuple(dict.fromkeys(rule.host for rule in rules if rule.kind == "network"))

    def rules_of(self, scopes: tuple[tuple[Area, str], ...], *, startup: bool) -> Rules:
        """Return `[server]`, `[startup]` if asked for, and the tables of `scopes`, (area, tool), as one."""
        key = (startup, scopes)
        merged = self._merged.get(key)
        if merged is None:
            if len(self._merged) >= REMEMBERED_TOOLS:
                self._merged.clear()
            tables = [self.server, *([self.startup] if startup else [])]
            for area, tool in scopes:
                own = [self.areas[area]] if area in self.areas else []
                tables += own or [table.rules for table in self.tables_of(tool)]
            merged = self._merged[key] = merge(tables)
        return merged

    def bind(
        self,
        tool: str,
        arguments: Mapping[str, object],
        resolve: Callable[[str], Resolved],
        area: Area = "tools",
    ) -> Bound:
        """Return what the arguments of one call of `tool` grant; see `policy.bind`. Other areas bind nothing."""
        return bind(self, self.tool_block(tool) if area == "tools" else Block(), arguments, resolve)

    def effective(self, active: Active) -> Effective:
        """Return the decisions in force while `active` is; at most one of them is in use at a time."""
        return Effective(self, active)


def compile(grant: Grant, facts: Facts) -> Policy:
    """Resolve the names of `grant` against `facts`."""
    return Policy(grant, facts)
