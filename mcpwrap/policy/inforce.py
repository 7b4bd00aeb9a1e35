"""Everything in force at one moment as look-up tables: the rules of phase and tools, and what calls bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Decision, Need
from mcpwrap.policy import names
from mcpwrap.policy.ground import strictly_installed
from mcpwrap.policy.match import below, fold, nearest, upward
from mcpwrap.policy.parents import Parents
from mcpwrap.policy.rules import first, names_below

if TYPE_CHECKING:
    from mcpwrap.policy.active import Active, BoundPath
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.ground import Ground
    from mcpwrap.policy.places import Identity, Match

SEPARATORS: Final = tuple(".~-_#")
"""What follows the bound file's name in the names of atomic writers' and editors' temporary files."""

BORN_LIMIT: Final = 16_384
"""Directories remembered as made by open calls; beyond, what is protected stays so in newer ones too."""


class InForce:
    """The tables of one `Active`. `rules` are those of the grant file, merged; the rest is bound.

    `files` and `file_writes` hold for one path each, `reads` and `writes` for what is below as well.
    """

    def __init__(self, policy: Policy, active: Active) -> None:
        scopes = tuple(dict.fromkeys((window.area, window.tool) for window in active.windows))
        self.policy = policy
        self.startup = active.startup
        self.rules = rules = policy.rules_of(scopes, startup=active.startup)
        self.reads, self.writes, self._named_writes = rules.reads, rules.writes, rules.named_writes
        self.files: dict[str, str] = {}
        self.file_writes: dict[str, str] = {}
        self.parents = Parents()
        self.made_parents = Parents()
        self._installed: dict[str, str] = {}
        self._siblings: dict[str, list[tuple[str, str]]] = {}
        for single, rule in rules.single_writes.items():
            self._add_sibling(single, rule)
        bound = [path for window in active.windows for path in window.bound]
        if bound:
            self.reads, self.writes = dict(self.reads), dict(self.writes)
            self._named_writes = dict(self._named_writes)
        for path in bound:
            self._add(path)
        ids = [window.id for window in active.windows] + (["startup"] if active.startup else [])
        self._scope = frozenset(ids or [f"generation {active.generation}"])
        self.born = policy.born
        self.vacated = policy.vacated
        for past in [past for past, scope in self.born.items() if not scope & self._scope]:
            del self.born[past]

    def _add(self, bound: BoundPath) -> None:
        path, rule, writes = bound.path, bound.rule, bound.need is Need.WRITE
        if bound.root:
            self.parents.add(path, bound.root, rule)
            if writes:
                self.made_parents.add(path, bound.root, rule)
        reads, changes = (self.files, self.file_writes) if bound.kind == "file" else (self.reads, self.writes)
        reads.setdefault(path, rule)
        if not writes:
            return
        changes.setdefault(path, rule)
        for root in self.policy.within.get(rule, ()):
            self._installed.setdefault(root, rule)
        if bound.kind == "exact":
            self._named_writes.setdefault(path, rule)
        if bound.siblings:
            self._add_sibling(path, rule)

    def _add_sibling(self, path: str, rule: str) -> None:
        directory, _, name = path.rpartition("/")
        self._siblings.setdefault(directory, []).append((name, rule))

    def read_rule(self, path: str) -> str | None:
        """Return the rule that grants reading `path`, by its name."""
        return granted(path, self.reads, self.files) or first(self.rules.read_globs, path)

    def write_rule(self, path: str, *, regular: bool) -> str | None:
        """Return the rule that grants writing `path`, by its name; a bound file stays a regular file."""
        files = self.file_writes if regular else {}
        return granted(path, self.writes, files) or first(self.rules.write_globs, path)

    def beside(self, path: str) -> dict[str, str]:
        """Return the single files, with their rules, of which `path` is an atomic writer's temporary name."""
        if not self._siblings:
            return {}
        directory, _, name = path.rpartition("/")
        found = {}
        for bound, rule in self._siblings.get(directory, ()):
            for candidate in (name, name[1:] if name.startswith(".") else ""):
                if candidate.startswith(bound) and candidate[len(bound) : len(bound) + 1] in SEPARATORS:
                    found[f"{directory}/{bound}"] = rule
        return found

    def withheld(self, private: Match, path: str, need: Need, *, regular: bool) -> bool:
        """Whether a private place is not lifted by a rule of the file that names it; `$arg` never lifts one."""
        if private.files_only and not regular:
            return False
        named = self.rules.named_writes if need is Need.WRITE else self.rules.named_reads
        return not names_below(named, path, private.root)

    def guarded(self, protected: Match, path: str, *, regular: bool) -> bool:
        """Whether a write-protected place is neither named by a rule nor born with its directory."""
        if protected.files_only and not regular:
            return False
        strictly = strictly_installed(protected)
        if names_below(self._named_writes, path, protected.root, strictly=strictly):
            return False
        if strictly:
            return not names_below(self._installed, path, protected.root, strictly=True)
        if not (protected.anywhere and self.born):
            return True
        return (protected.root[: protected.root.rfind("/")] or "/") not in self.born

    def bear(self, path: str, *, directory: bool) -> bool:
        """Remember that an open call made `path`, if that matters; whether it does."""
        if len(self.born) >= BORN_LIMIT or self.policy.grounds.of(path).owner != "host":
            return False
        if not (self._is_new_directory(path) if directory else self.beside(path)):
            return False
        self.born[path] = self._scope
        return True

    def _is_new_directory(self, path: str) -> bool:
        """Whether nothing the user has may come to lie in a directory that was made just now."""
        if len(self.vacated) >= BORN_LIMIT or any(above in self.vacated for above in upward(path)):
            return False  # a directory that was moved away may come back
        above, _, name = path.rpartition("/")
        # A repository is made in a new directory, or in the one a rule or an argument names.
        return fold(name) != names.GIT or above in self.born or above in self.writes

    def vacate(self, path: str, *, moved: bool) -> bool:
        """Remember that an open call took `path` away; whether something born goes with it.

        `moved`: it is a directory that exists elsewhere now, and may come back with all that is in it.
        """
        if moved and self.policy.grounds.of(path).owner == "host" and len(self.vacated) < BORN_LIMIT:
            self.vacated.add(path)
        gone = [made for made in self.born if below(made, path)]
        for made in gone:
            del self.born[made]
        return bool(gone)

    def forbidden_inode(self, identity: Identity | None, ground: Ground, *, write: bool) -> str | None:
        """Return the rule that forbids the object itself, under whatever name it was reached.

        Reached under its own name, the decision by path has weighed the rule already.
        """
        if identity is None:
            return None
        denied = self.rules.deny_identities.get(identity)
        if denied is not None:
            return denied
        private = self.policy.private.identities.get(identity)
        if private is not None and not ground.installation and not _weighed(ground.private, private):
            return private
        protected = self.policy.protected.identities.get(identity) if write else None
        return protected if protected is not None and not _weighed(ground.protected, protected) else None

    def refused(self, need: Need, path: str, rule: str = "no-grant") -> Decision:
        """Refuse by `rule`; a line of `[server.quiet]` that names the object keeps it from the model."""
        quiet = self.policy.quiet
        if need is Need.CONNECT:
            silenced = quiet.hosts.sockets.get(path) if quiet.hosts is not None else None
        elif need is Need.EXEC:
            silenced = quiet.execs.get(path) or first(quiet.exec_globs, path)
        elif need is Need.READ:
            silenced = granted(path, quiet.reads, {}) or first(quiet.read_globs, path)
        else:
            silenced = granted(path, quiet.writes, {}) or first(quiet.write_globs, path)
        if silenced is None:
            return Decision(False, rule)
        return Decision(False, silenced if rule == "no-grant" else rule, quiet=True)


def granted(path: str, trees: dict[str, str], files: dict[str, str]) -> str | None:
    """Return the rule in `files` for exactly `path`, else the one of the nearest tree that holds it."""
    rule = files.get(path)
    if rule is None and trees:
        root = nearest(path, trees)
        rule = trees[root] if root is not None else None
    return rule


def _weighed(match: Match | None, rule: str) -> bool:
    return match is not None and match.id == rule
