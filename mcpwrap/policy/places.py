"""Matching the tables of `names` (and a grant's own carve-outs) against real paths and inodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.policy import names
from mcpwrap.policy.match import fold, upward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.policy.facts import Facts

Identity = tuple[int, int]


class Match(NamedTuple):
    """`root` is the part of the path that is the protected place; `id` its rule id.

    `anywhere`: the name is protected wherever it stands, so a new directory may be born with it.
    `files_only`: holds for regular files only (`.env`, `.git`).
    """

    id: str
    root: str
    anywhere: bool = False
    files_only: bool = False


class Places:
    """One table, built once per run. `dotenv`, `git`: whether it has those two names, which are no mere names."""

    def __init__(self, kind: str, *, dotenv: bool = False, git: bool = False) -> None:
        self._kind = kind
        self._dotenv = dotenv
        self._git = git
        self._fixed: dict[str, str] = {}
        self._patterns: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        self._names: dict[str, str] = {}
        self._name_patterns: list[tuple[tuple[str, ...], str]] = []
        self._name_heads: tuple[str, ...] = ()
        self.identities: dict[Identity, str] = {}
        self.existing: list[str] = []

    def add_fixed(self, path: str, label: str, facts: Facts, *, linked: bool = False) -> None:
        """Protect `path` as written, as it resolves, and by inode; a last component may hold `*`.

        With `linked` also by the inodes of files below it that have a second name elsewhere.
        """
        rule = self.add_written(path, label)
        if "*" in path.rpartition("/")[2]:
            return
        identity = facts.identity(path)
        if identity is not None:
            real = facts.real(path)
            self._fixed.setdefault(fold(real), rule)
            for each in (identity, *(facts.linked(real) if linked else ())):
                self.identities.setdefault(each, rule)
            self.existing.append(real)

    def add_written(self, path: str, label: str) -> str:
        """Protect `path` as written alone, and return its rule id; a last component may hold `*`."""
        rule = f"{self._kind}:{label}"
        directory, _, last = path.rpartition("/")
        if "*" in last:
            self._patterns.setdefault(fold(directory), []).append((tuple(fold(last).split("*")), rule))
        else:
            self._fixed.setdefault(fold(path), rule)
        return rule

    def add_name(self, name: str) -> None:
        """Protect a name wherever it stands."""
        rule = f"{self._kind}:{name}"
        if "*" in name:
            pieces = tuple(fold(name).split("*"))
            self._name_patterns.append((pieces, rule))
            self._name_heads += (pieces[0],)
        else:
            self._names[fold(name)] = rule

    def match(self, path: str) -> Match | None:
        """Return the deepest protected place that is `path` or holds it."""
        found: Match | None = None
        folded, git, end = "", 0, 0
        while end < len(path):
            start, end = end + 1, path.find("/", end + 1)
            end = len(path) if end < 0 else end
            name, parent, here = fold(path[start:end]), folded, path[:end]
            folded = f"{parent}/{name}"
            git, orders = git_step(git, name)
            found = self.at(here, parent, folded, name, git_orders=orders) or found
        return self.file(path, name) or found if path else None

    def at(self, path: str, parent: str, folded: str, name: str, *, git_orders: bool) -> Match | None:
        """Return the match of the last component alone; `parent`, `folded` and `name` are folded.

        `git_orders`: what `git_step` said of the component.
        """
        rule = self._fixed.get(folded)
        if rule is None and parent in self._patterns:
            rule = _first(self._patterns[parent], name)
        if rule is not None:
            return Match(rule, path)
        rule = self._names.get(name)
        if rule is None and self._name_heads and name.startswith(self._name_heads):
            rule = _first(self._name_patterns, name)
        if rule is None and git_orders and self._git:
            rule = f"{self._kind}:{names.GIT}/{name}"
        return Match(rule, path, True) if rule is not None else None

    def file(self, path: str, name: str) -> Match | None:
        """Return the match of a name that matters as a file's; `name` is the folded last component."""
        if self._dotenv and name.startswith(".env") and _is_dotenv(name):
            return Match(f"{self._kind}:{names.DOTENV}", path, True, True)
        if self._git and name == names.GIT:
            # As a file it names the directory whose config and hooks git uses.
            return Match(f"{self._kind}:{names.GIT}", path, True, True)
        if self._git and name == names.BARE and names.GIT not in fold(path).split("/"):
            return Match(f"{self._kind}:{names.BARE}", path, True, True)
        return None


def git_step(state: int, name: str) -> tuple[int, bool]:
    """Follow a path into a repository: (state after this component, whether it makes git run programs).

    States: 0 outside, 1 in `.git`, 2 in its `modules` or `worktrees`, 3 in one of those.
    """
    if name == names.GIT:
        return 1, False
    if state == 1:
        return (2 if name in names.GIT_NESTED else 0), name in names.GIT_ORDERS
    return (3 if state else 0), state == 3 and name in names.GIT_ORDERS


def _first(patterns: Iterable[tuple[tuple[str, ...], str]], name: str) -> str | None:
    return next((rule for pieces, rule in patterns if _wild(pieces, name)), None)


def _wild(pieces: tuple[str, ...], name: str) -> bool:
    """Whether `name` is the pieces with anything between them; compiling that many regexes takes 5 ms."""
    head, *middle, tail = pieces
    if not (name.startswith(head) and name.endswith(tail) and len(name) >= len(head) + len(tail)):
        return False
    at, end = len(head), len(name) - len(tail)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def _is_dotenv(name: str) -> bool:
    if name in (".env", ".envrc"):
        return True
    return name.startswith(".env.") and not name.endswith(names.DOTENV_SAMPLES)


def private_places(facts: Facts) -> Places:
    """Return the table of what is private."""
    places = Places("private", dotenv=True)
    for home in facts.homes:
        for name in names.PRIVATE_IN_HOME:
            places.add_fixed(f"{home}/{name}", name, facts, linked=True)
    for path in names.PRIVATE_PLACES:
        places.add_fixed(path, path, facts)
        if path.startswith("/run/"):
            places.add_fixed(f"/var{path}", path, facts)
    for path in (facts.config, *facts.withheld):
        places.add_fixed(path, "mcpwrap", facts)
    return places


def protected_places(facts: Facts) -> Places:
    """Return the table of what is write-protected."""
    places = Places("write-protected", git=True)
    for name in names.PROTECTED_ANYWHERE:
        places.add_name(name)
    for home in facts.homes:
        for name in names.PROTECTED_IN_HOME:
            places.add_fixed(f"{home}/{name}", name, facts)
        for name in names.PROTECTED_ANYWHERE:
            if "*" not in name:
                # Once more as fixed places: by inode, and as a dotfile manager's links resolve.
                places.add_fixed(f"{home}/{name}", name, facts)
    for path in names.PROTECTED_PLACES:
        places.add_fixed(path, path, facts)
    for path in facts.path:
        # A PATH that names the home directory would protect everything the user ever grants.
        if not any(path in upward(home) for home in facts.homes):
            places.add_fixed(path, "PATH", facts)
    for path in facts.own:
        places.add_fixed(path, "mcpwrap", facts)
    for path in (*facts.installation, *facts.programs):
        places.add_fixed(path, "installation", facts)
    return places
