"""The compiled policy as rows: what holds in each phase and for each tool, and by which rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mcpwrap.grant.grant import ANY_WRITABLE
from mcpwrap.grant.render import key_text
from mcpwrap.grant.words import condition_words, host_words, listen_words, wider
from mcpwrap.policy.names import DOTENV

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.grant.grant import ArgRule, Block, PathRule
    from mcpwrap.policy.compile import Policy

_VERBS = {"fs_read": "read", "fs_write": "write", "fs_deny": "never"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line: `verb`, `what`, the rule `id`, and a `note` or none.

    `verb`: read, write, run, reach (a host or socket), serve (a port), check (an argument), pin, never, quiet, wider.
    """

    verb: str
    what: str
    rule: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One phase or tool. `kind`: server, startup, tool, resources, prompts, quiet, wider, always or private."""

    kind: str
    title: str
    rows: tuple[Row, ...]


def describe(policy: Policy, tools: tuple[str, ...] = ()) -> tuple[Section, ...]:
    """Return the sections of `policy`; with `tools`, the effective grant of exactly those tools."""
    grant = policy.grant
    sections = [Section("always", "always there, in every phase", _always(policy))]
    sections.append(Section("server", "start-up, calls, and between calls", _rows(policy, grant.server)))
    if not tools:
        sections.append(Section("startup", "until start-up has ended, besides", _rows(policy, grant.startup)))
        sections += [
            Section(
                "tool",
                f"while {tool.header} is called, besides",
                _rows(policy, tool.block)
                + _checks(tool.args, tool.pin, f"tools.{key_text(tool.header)}.pin"),
            )
            for tool in grant.tools
        ]
        sections.append(
            Section(
                "resources", "while resources are listed or read, besides", _rows(policy, grant.resources)
            )
        )
        sections.append(
            Section("prompts", "while prompts are listed or fetched, besides", _rows(policy, grant.prompts))
        )
    for tool in tools:
        checks = _checks(policy.args_of(tool), policy.pin_of(tool), f"tools.{key_text(tool)}.pin")
        rows = _rows(policy, policy.tool_block(tool)) + checks
        sections.append(Section("tool", f"while {tool} is called, besides", rows))
    quiet = tuple(Row("quiet", row.what, row.rule, row.note) for row in _rows(policy, grant.quiet))
    sections.append(Section("quiet", "refused, and never told to the model", quiet))
    twice = tuple(Row("wider", what, rule, why) for what, rule, why in wider(grant))
    sections.append(Section("wider", "look twice: what is held by default, and given up here", twice))
    sections.append(Section("private", "private: reached by no rule that does not name it", _private(policy)))
    return tuple(section for section in sections if section.rows)


def _rows(policy: Policy, block: Block) -> tuple[Row, ...]:
    rows = [Row(_VERBS[rule.noun], _what(rule), rule.id, _note(policy, rule)) for rule in block.paths]
    for program in block.execs:
        found = policy.facts.find(program.program) if program.is_bare else program.program
        note = ""
        if program.program == ANY_WRITABLE:
            note = "no exec gate: what the server writes can be executed"
        elif not program.is_glob and (found is None or policy.facts.identity(found) is None):
            if program.optional:
                continue
            note = "there is no such program: the line grants nothing"
        elif found != program.program and found is not None:
            note = f"is {policy.facts.real(found)}"
        rows.append(Row("run", program.program, program.id, note))
    for host in block.hosts:
        what, note = host_words(host)
        rows.append(Row("reach", what, host.id, note))
    rows += [
        Row("reach", socket.path, socket.id, _socket_note(policy, socket.path)) for socket in block.sockets
    ]
    for listen in block.listens:
        what, note = listen_words(listen)
        rows.append(Row("serve", what, listen.id, note))
    return tuple(rows)


def _socket_note(policy: Policy, path: str) -> str:
    real = policy.facts.real(path)
    notes = ["a socket of this machine"]
    if real != path:
        notes.append(f"leads to {real}")
    if policy.facts.kind(real) == "missing":
        notes.append("does not exist")
    guarded = policy.guarded(path) or policy.guarded(real)
    if guarded:
        notes.append(f"named exactly, so granted in spite of {guarded}")
    return "; ".join(notes)


def _checks(rules: Iterable[ArgRule], pin: str | None, pin_id: str) -> tuple[Row, ...]:
    rows = []
    for rule in rules:
        what, note = condition_words(rule)
        rows.append(Row("check", what, rule.id, note))
    if pin is not None:
        rows.append(Row("pin", pin, pin_id, "another description is refused"))
    return tuple(rows)


def _what(rule: PathRule) -> str:
    if rule.arg is not None:
        return f"{rule.text.partition(' in ')[0]} within {' or '.join(rule.arg.within)}"
    return rule.path or rule.glob or ""


def _note(policy: Policy, rule: PathRule) -> str:
    if rule.path is None or rule.noun == "fs_deny":
        return ""
    notes = []
    real = policy.facts.real(rule.path)
    if real != rule.path:
        notes.append(f"leads to {real}")
    if rule.path in policy.floor.missing:
        notes.append("does not exist")
    guarded = policy.guarded(rule.path, write=rule.noun == "fs_write")
    if guarded:
        notes.append(f"named exactly, so granted in spite of {guarded}")
    elif policy.guarded(real):
        notes.append(f"not granted: it leads to what is private ({policy.guarded(real)}); name that")
    return "; ".join(notes)


def _always(policy: Policy) -> tuple[Row, ...]:
    facts = policy.facts
    rows = [Row("read", path, "system") for path in facts.system]
    rows += [
        Row(
            "write", path, "copy", "a copy, kept between runs: what one call writes there, later ones may run"
        )
        if path in facts.copied
        else Row("read", path, "installation", "never written")
        for path in facts.installation
    ]
    rows += [Row("run", path, "command") for path in facts.programs]
    private = "a private one, not yours: dotfiles only"
    rows += [Row("write", home, "home", private) for home in dict.fromkeys(facts.own_homes)]
    rows += [
        Row("write", path, "temporary", "private" if facts.bare else "private memory")
        for path in facts.temporary
    ]
    rows.append(Row("write", facts.state, "state", "kept between runs"))
    rows.append(Row("write", facts.cache, "cache", "read-only once start-up has ended"))
    return tuple(rows)


def _private(policy: Policy) -> tuple[Row, ...]:
    rows = [Row("never", place, policy.guarded(place)) for place in sorted(set(policy.private.existing))]
    rows.append(Row("never", DOTENV, f"private:{DOTENV}", "regular files .env, .env.* and .envrc, anywhere"))
    return tuple(rows)
