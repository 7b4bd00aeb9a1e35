"""Rules that can never apply: carve-outs over a whole grant, quiet refusals of what is granted, repeats."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpwrap.grant.grant import EVERY_TOOL, Block, HostRule, ListenRule, PathRule, UnixRule, Where
from mcpwrap.grant.paths import below
from mcpwrap.grant.pattern import glob_regex, literal_directory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mcpwrap.grant.document import Document

Contradiction = tuple[Where, str, str]
"""Where the rule that never applies stands, why, and a hint."""

Outward = HostRule | UnixRule | ListenRule
"""A rule of what leads out of the sandbox, or into it."""

_ANY = "/" + "\ufdd0" * 32
"""A component no pattern of a grant spells: noncharacters of Unicode, for "whatever the call says"."""


def contradictions(document: Document) -> Iterator[Contradiction]:
    """Yield the rules of one document that another rule of it makes void."""
    every = [tool.block for tool in document.tools if tool.patterns == (EVERY_TOOL,)]
    yield from _carved_out(document.server, [document.server])
    yield from _carved_out(document.startup, [document.server, document.startup])
    for tool in document.tools:
        inherited = every if tool.inherit and tool.patterns != (EVERY_TOOL,) else []
        yield from _carved_out(tool.block, [document.server, *inherited, tool.block])
    for block in (document.resources, document.prompts):
        yield from _carved_out(block, [document.server, block])
    yield from _never_quiet(document)
    yield from _granted_already(document, every)


def _carved_out(block: Block, in_force: Iterable[Block]) -> Iterator[Contradiction]:
    denies = [rule for other in in_force for rule in other.paths if rule.noun == "fs_deny"]
    for rule in block.paths:
        if rule.noun == "fs_deny":
            continue
        deny = next((deny for deny in denies if covers(deny, rule)), None)
        if deny is not None:
            what = f'"{rule.text}" can never apply: fs_deny "{deny.text}" covers all of it'
            yield rule.where, what, f"the carve-out is on line {deny.where.line}"


def _never_quiet(document: Document) -> Iterator[Contradiction]:
    granted = {(rule.noun, rule.path or rule.glob) for rule in document.server.paths if rule.arg is None}
    for rule in document.quiet.paths:
        if (rule.noun, rule.path or rule.glob) in granted:
            yield rule.where, f'"{rule.text}" is granted by [server], so it is never refused', "keep one"
    programs = {rule.program for rule in document.server.execs}
    for program in document.quiet.execs:
        if program.program in programs:
            what = f'"{program.text}" is granted by [server], so it is never refused'
            yield program.where, what, "keep one"


def _granted_already(document: Document, every: list[Block]) -> Iterator[Contradiction]:
    """Yield rules of the network that another in force with them makes void, and quiet ones that are granted."""
    server = document.server
    tables: list[tuple[Block, list[tuple[str, Block]]]] = [(server, [])]
    tables += [
        (block, [("[server]", server)]) for block in (document.startup, document.resources, document.prompts)
    ]
    for tool in document.tools:
        inherits = tool.inherit and tool.patterns != (EVERY_TOOL,)
        others = [("[server]", server), *((f'[tools."{EVERY_TOOL}"]', block) for block in every if inherits)]
        tables.append((tool.block, others))
    for block, others in tables:
        for index, rule in enumerate(_outward(block)):
            same = next((other for other in _outward(block)[:index] if _grants(other, rule)), None)
            later = next((other for other in _outward(block)[index + 1 :] if _grants(other, rule)), None)
            above = next((name for name, table in others if _granted_by(table, rule)), None)
            if above:
                yield rule.where, f'"{rule.text}" is granted by {above} already: it adds nothing', "keep one"
            elif same is not None or (later is not None and not _grants(rule, later)):
                by = same or later
                assert by is not None
                what = f'"{rule.text}" is granted by "{by.text}" of the same table: it adds nothing'
                yield rule.where, what, f"the other is on line {by.where.line}"
    for rule in _outward(document.quiet):
        if _granted_by(server, rule):
            yield rule.where, f'"{rule.text}" is granted by [server], so it is never refused', "keep one"


def _outward(block: Block) -> tuple[Outward, ...]:
    return (*block.hosts, *block.sockets, *block.listens)


def _granted_by(block: Block, rule: Outward) -> bool:
    return any(_grants(other, rule) for other in _outward(block))


def _grants(wide: Outward, narrow: Outward) -> bool:
    """Whether `narrow` certainly adds nothing to `wide`."""
    if isinstance(wide, HostRule) and isinstance(narrow, HostRule):
        from mcpwrap.grant.hosts import covers as covers_host  # here only: there are rules of hosts

        return covers_host(wide, narrow)
    if isinstance(wide, ListenRule) and isinstance(narrow, ListenRule):
        return wide.port == narrow.port and (wide.everywhere or not narrow.everywhere)
    return isinstance(wide, UnixRule) and isinstance(narrow, UnixRule) and wide.path == narrow.path


def covers(deny: PathRule, rule: PathRule) -> bool:
    """Whether every path `rule` could grant is certainly carved out by `deny`."""
    if rule.arg is not None:
        probes = [root + _ANY * depth + rule.arg.tail for root in rule.arg.within for depth in range(3)]
    elif rule.glob is not None:
        probes = [literal_directory(rule.glob)]
    else:
        probes = [rule.path or "/"]
    if deny.path is not None:
        return all(below(probe, deny.path) for probe in probes)
    pattern = re.compile(glob_regex(deny.glob or ""))
    return all(pattern.match(probe) for probe in probes)
