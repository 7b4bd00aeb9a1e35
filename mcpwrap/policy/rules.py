"""One table of a grant with its names resolved to objects: what `Effective` looks things up in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcpwrap.grant.grant import ANY_WRITABLE, Block, ExecRule, PathRule
from mcpwrap.grant.pattern import glob_regex, literal_directory
from mcpwrap.policy.match import below, fold, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.policy.facts import Facts
    from mcpwrap.policy.hosts import HostTable
    from mcpwrap.policy.places import Identity, Places

INSTALLATION = "write-protected:installation"

Globs = tuple[tuple[re.Pattern[str], str], ...]


class Rules:
    """Look-up tables, all by real path; a path in `reads` or `writes` grants itself and what is below.

    `reads` holds `writes` as well. `named_reads`, `named_writes` are the rules that spell out a
    private or write-protected place. `single_writes` are the `writes` that name one file, which its writer
    may replace by way of a temporary name beside it. `deny_roots` and `deny_globs` are folded. `execs` are program
    files; `any_writable` is the id of the rule that gives up the exec gate, or empty. `hosts`: what has to do
    with the network, None if nothing has.
    """

    def __init__(self) -> None:
        self.reads: dict[str, str] = {}
        self.writes: dict[str, str] = {}
        self.read_globs: Globs = ()
        self.write_globs: Globs = ()
        self.single_writes: dict[str, str] = {}
        self.named_reads: dict[str, str] = {}
        self.named_writes: dict[str, str] = {}
        self.deny_roots: dict[str, str] = {}
        self.deny_globs: Globs = ()
        self.deny_identities: dict[Identity, str] = {}
        self.execs: dict[str, str] = {}
        self.exec_globs: Globs = ()
        self.any_writable = ""
        self.hosts: HostTable | None = None

    def denied(self, path: str) -> str | None:
        """Return the id of the `fs_deny` rule that holds for `path`."""
        if not (self.deny_roots or self.deny_globs):
            return None
        folded = fold(path)
        root = nearest(folded, self.deny_roots)
        return self.deny_roots[root] if root is not None else first(self.deny_globs, folded)


def first(globs: Globs, path: str) -> str | None:
    """Return the id of the first glob that matches `path` or a directory above it."""
    for regex, rule in globs:
        if regex.match(path):
            return rule
    return None


def merge(tables: Iterable[Rules]) -> Rules:
    """Return the union; where two say the same of one path, the earlier gives its id."""
    out = Rules()
    tables = tuple(tables)
    hosts = [table.hosts for table in tables if table.hosts is not None]
    if hosts:
        from mcpwrap.policy.hosts import merged  # here only: most grants have nothing to do with the network

        out.hosts = merged(hosts)
    for table in tables:
        for mine, other in (
            (out.reads, table.reads),
            (out.writes, table.writes),
            (out.single_writes, table.single_writes),
            (out.named_reads, table.named_reads),
            (out.named_writes, table.named_writes),
            (out.deny_roots, table.deny_roots),
            (out.execs, table.execs),
        ):
            for path, rule in other.items():
                mine.setdefault(path, rule)
        out.deny_identities |= table.deny_identities
        out.read_globs += table.read_globs
        out.write_globs += table.write_globs
        out.deny_globs += table.deny_globs
        out.exec_globs += table.exec_globs
        out.any_writable = out.any_writable or table.any_writable
    return out


def resolve(
    block: Block, facts: Facts, private: Places, protected: Places
) -> tuple[Rules, tuple[ExecRule, ...]]:
    """Return the tables of `block`, and the `exec` rules whose program is not to be found here."""
    rules = Rules()
    for rule in block.paths:
        if rule.noun == "fs_deny":
            _deny(rules, rule, facts)
        elif rule.path is not None:
            _path(rules, rule, rule.path, facts, private, protected)
        elif rule.glob is not None:
            compiled = ((re.compile(glob_regex(real_glob(rule.glob, facts))), rule.id),)
            rules.read_globs += compiled
            if rule.noun == "fs_write":
                rules.write_globs += compiled
    if block.hosts or block.sockets or block.listens:
        from mcpwrap.policy.hosts import table

        rules.hosts = table(block, facts)
    missing = tuple(rule for rule in block.execs if not _exec(rules, rule, facts))
    return rules, missing


def real_glob(glob: str, facts: Facts) -> str:
    """Return `glob` with its fixed beginning resolved, as the real paths it is compared with are."""
    if not glob.startswith("/"):
        return glob
    base = literal_directory(glob)
    real = facts.real(base)
    # A wildcard in the name of a real directory would be read as one: then the glob stays as written.
    if real == base or any(mark in real for mark in "*?"):
        return glob
    rest = glob[len(base) :] if base != "/" else glob
    return real.rstrip("/") + rest


def _path(
    rules: Rules, rule: PathRule, written: str, facts: Facts, private: Places, protected: Places
) -> None:
    real = facts.real(written)
    writes = rule.noun == "fs_write"
    rules.reads.setdefault(real, rule.id)
    if private.match(written):
        rules.named_reads.setdefault(real, rule.id)
    if not writes:
        return
    rules.writes.setdefault(real, rule.id)
    if facts.kind(real) in ("file", "missing"):
        rules.single_writes.setdefault(real, rule.id)
    inside = protected.match(real)
    if private.match(written) or protected.match(written) or (inside and inside.id == INSTALLATION):
        rules.named_writes.setdefault(real, rule.id)


def _deny(rules: Rules, rule: PathRule, facts: Facts) -> None:
    if rule.path is not None:
        for path in (rule.path, facts.real(rule.path)):
            rules.deny_roots.setdefault(fold(path), rule.id)
        identity = facts.identity(rule.path)
        if identity is not None:
            rules.deny_identities.setdefault(identity, rule.id)
    elif rule.glob is not None:
        sources = dict.fromkeys(glob_regex(fold(glob)) for glob in (rule.glob, real_glob(rule.glob, facts)))
        rules.deny_globs += tuple((re.compile(source), rule.id) for source in sources)


def _exec(rules: Rules, rule: ExecRule, facts: Facts) -> bool:
    """Add an `exec` rule; whether its program is there."""
    if rule.program == ANY_WRITABLE:
        rules.any_writable = rules.any_writable or rule.id
        return True
    if rule.is_glob:
        compiled = ((re.compile(glob_regex(real_glob(rule.program, facts))), rule.id),)
        rules.exec_globs += compiled
        rules.read_globs += compiled
        return True
    found = facts.find(rule.program) if rule.is_bare else rule.program
    if found is None or facts.identity(found) is None:
        return False
    real = facts.real(found)
    rules.execs.setdefault(real, rule.id)
    rules.reads.setdefault(real, rule.id)
    for root in facts.program_roots(real):
        rules.reads.setdefault(facts.real(root), rule.id)
    return True


def names_below(named: dict[str, str], path: str, root: str, *, strictly: bool = False) -> bool:
    """Whether a rule in `named` holds for `path` and names `root` itself or something in it."""
    while named and below(path, root) and not (strictly and path == root):
        if path in named:
            return True
        path = path[: path.rfind("/")] or "/"
        if path == "/":
            break
    return False
