"""The rule arrays of one table, read into a `Block`; problems are noted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.grant.grant import Block
from mcpwrap.grant.noun import Grammar, Table
from mcpwrap.grant.nouns import nouns_of
from mcpwrap.grant.render import key_text
from mcpwrap.grant.rules import exec_rule, path_rule
from mcpwrap.grant.tables import strings_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.grant.grant import ExecRule, HostRule, ListenRule, PathRule, UnixRule, Where
    from mcpwrap.grant.paths import Variables
    from mcpwrap.grant.position import Path
    from mcpwrap.grant.source import Source

MAX_RULES = 1_024
"""Rules of one document. Every grant is compared with every carve-out; the largest drafted grant in
trials had under a hundred."""

_ARRAYS = (Grammar.PATHS, Grammar.EXECS, Grammar.HOSTS, Grammar.SOCKETS, Grammar.PORTS)


class Blocks:
    """Reads the tables of one source and counts their rules.

    Rule ids carry the profile's name: each line of each file has its own. `within`: the roots of `[policy]`.
    """

    def __init__(self, source: Source, variables: Variables) -> None:
        self.source = source
        self.variables = variables
        self.within: tuple[str, ...] = ()
        self._rules = 0
        self._prefix = f"profile {source.profile}: " if source.profile else ""

    def id_of(self, *path: str | int) -> str:
        """Return the id of the rule at `path`, such as `tools.fetch.net[0]`."""
        steps = [f"[{step}]" if isinstance(step, int) else "." + key_text(step) for step in path]
        return self._prefix + "".join(steps).removeprefix(".")

    def counted(self, place: Path) -> bool:
        """Whether one rule more may be taken; the first that may not is noted."""
        self._rules += 1
        if self._rules == MAX_RULES + 1:
            self.source.problem(place, f"a grant of more than {MAX_RULES} rules is not taken")
        return self._rules <= MAX_RULES

    def block(self, path: tuple[str, ...], values: Mapping[str, object], kind: Table) -> Block:
        """Return the rules of the table of `kind` at `path`, whose keys have been judged."""
        grammars = {noun.name: noun.grammar for noun in nouns_of(kind).values()}
        rules: dict[Grammar, list[object]] = {grammar: [] for grammar in _ARRAYS}
        for noun in values:
            grammar = grammars[noun]
            if grammar not in rules:
                continue
            for index, text in strings_at(self.source, (*path, noun), values):
                place: Path = (*path, noun, index)
                if not self.counted(place):
                    continue
                rule_id, where = self.id_of(*place), self.source.where(place)
                try:
                    rules[grammar].append(self._rule(grammar, noun, rule_id, text, where, kind))
                except ValueError as error:
                    self.source.problem(place, str(error), getattr(error, "hint", ""))
        return Block(*(tuple(rules[grammar]) for grammar in _ARRAYS))  # type: ignore[arg-type]

    def _rule(
        self, grammar: Grammar, noun: str, rule_id: str, text: str, where: Where, kind: Table
    ) -> PathRule | ExecRule | HostRule | UnixRule | ListenRule:
        tool = kind is Table.TOOL
        if grammar is Grammar.PATHS:
            within = self.within if tool else None
            return path_rule(noun, rule_id, text, where, self.variables, within, kind)
        if grammar is Grammar.EXECS:
            optional = bool(self.source.profile)
            return exec_rule(rule_id, text, where, self.variables, optional=optional)
        # Here only: most grants have nothing to do with the network, and start-up is counted.
        if grammar is Grammar.HOSTS:
            from mcpwrap.grant.hosts import host_rule

            return host_rule(rule_id, text, where, arguments=tool)
        from mcpwrap.grant.sockets import listen_rule, unix_rule

        if grammar is Grammar.SOCKETS:
            return unix_rule(rule_id, text, where, self.variables)
        return listen_rule(rule_id, text, where)
