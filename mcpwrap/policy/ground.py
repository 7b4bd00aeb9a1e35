"""What a path is before any grant is asked: whose ground it lies on, and which tables it meets.

This does not depend on the open windows, so it is found once for each path and kept across them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from mcpwrap.policy.match import fold, upward
from mcpwrap.policy.places import git_step
from mcpwrap.policy.rules import INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.policy.facts import Facts
    from mcpwrap.policy.floor import Floor
    from mcpwrap.policy.places import Match, Places

Owner = Literal["home", "temporary", "state", "cache", "copy", "device", "host", "view", "none"]

DEVICES: Final = frozenset(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty"))

LOADER_NAMES: Final = ("ld-linux", "ld-musl", "ld.so", "ld64.so", "ld-2.")
"""Beginnings of the names of dynamic loaders (glibc per architecture, musl, older glibc)."""

REMEMBERED: Final = 8_192
"""Paths whose ground or decision is kept, about 2 MB; then the memory starts again from nothing."""


class Ground(NamedTuple):
    """`owner`: `host` is ground that mounts show from the host; `home`, `temporary`, `state`, `cache`, `copy`
    are the server's own; `view` a directory that only holds the names of what is granted.

    `system`, `installation`: readable in every phase; what is `private` as well (a `.env`) by start-up alone.
    `writable`: some table may write here.
    """

    well_formed: bool
    owner: Owner
    system: bool
    installation: bool
    writable: bool
    private: Match | None
    protected: Match | None


_NOWHERE = Ground(False, "none", False, False, False, None, None)


class _Place(NamedTuple):
    """What a directory hands down to what is in it; `installed`, `writes`: the nearest such root, or empty."""

    owner: Owner
    system: bool
    installed: str
    writes: str
    folded: str
    git: int
    private: Match | None
    protected: Match | None


class Grounds:
    """Finds the ground of a path; built once per run. `above`: every directory above what a view shows."""

    def __init__(self, floor: Floor, facts: Facts, private: Places, protected: Places) -> None:
        self._private = private
        self._protected = protected
        self._system = _both(facts.system, facts)
        self._installation = _both(facts.installation, facts)
        self._programs = _both(facts.programs, facts)
        self._writes = dict.fromkeys(floor.writes, "")
        # What is missing cannot be mounted: a name for it is the server's own HOME's, if anyone's.
        shown = [path for path in (*floor.reads, *floor.executables) if path not in floor.missing]
        shown += [*floor.parents, *facts.loaders]
        # A rule for something in $STATE or $CACHE makes it nobody else's.
        kept = [each for path in (facts.state, facts.cache) for each in (path, facts.real(path))]
        shown = [path for path in shown if not any(path.startswith(f"{each}/") for each in kept)]
        self._owners: dict[str, Owner] = dict.fromkeys(shown, "host")
        for table in (self._writes, self._system, self._installation, self._programs):
            self._owners |= dict.fromkeys(table, "host")
        owned: tuple[tuple[Owner, Iterable[str]], ...] = (
            ("home", facts.own_homes),
            ("temporary", facts.temporary),
            ("state", (facts.state, facts.real(facts.state))),
            ("cache", (facts.cache, facts.real(facts.cache))),
            ("copy", facts.copied),
            ("host", (*facts.fixed, *(path for path in self._programs if facts.copied))),
        )
        for owner, roots in owned:
            self._owners |= dict.fromkeys((root for root in roots if root), owner)
        self._bare = facts.bare
        # In the host's own file system a directory above what is granted holds more than the names of that.
        above = () if facts.bare else self._owners
        self.above = {above for root in above for above in upward(root) if above != root}
        self._root = _Place(self._owners.get("/", "none"), "/" in self._system, "", "", "", 0, None, None)
        self._directories: dict[str, _Place] = {"": self._root}
        self._known: dict[str, Ground] = {}
        self._loaders = _both(facts.loaders, facts)

    def of(self, path: str) -> Ground:
        """Return the ground of the real `path`."""
        ground = self._known.get(path)
        if ground is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            ground = self._known[path] = self._find(path)
        return ground

    def _find(self, path: str) -> Ground:
        if not path.startswith("/") or "\0" in path or (path.endswith((" (deleted)", "/")) and path != "/"):
            return _NOWHERE
        directory, _, name = path.rpartition("/")
        above = self._directory(directory)
        if above is None:
            return _NOWHERE
        here = self._enter(above, path, name)
        if here is None:
            return _NOWHERE
        owner = here.owner
        if path in DEVICES:
            owner = "device"
        elif owner == "none" and path in self.above:
            owner = "view"
        # $STATE and $CACHE lie in mcpwrap's own directories, which are private but for these two. A copy of the
        # installation is nobody's but the server's.
        kept = owner in ("state", "cache", "copy") or (self._bare and owner in ("home", "temporary"))
        folded = here.folded[len(above.folded) + 1 :]
        private = None if kept else self._private.file(path, folded) or here.private
        protected = None if kept else here.protected or self._protected.file(path, folded)
        installed = here.installed
        installation = path in self._programs or (bool(installed) and _exempt(private, installed))
        return Ground(
            well_formed=True,
            owner=owner,
            system=here.system,
            installation=installation,
            writable=len(here.writes) > len(installed),
            private=private if not installation or (private and private.files_only) else None,
            protected=protected,
        )

    def _directory(self, path: str) -> _Place | None:
        """Return the place of a directory, from that of the nearest known one above; None if it is no path."""
        place = self._directories.get(path)
        if place is not None:
            return place
        end = len(path)
        while place is None:  # the root "" is always known
            end = path.rfind("/", 0, end)
            place = self._directories.get(path[:end])
        while end < len(path):
            start, end = end + 1, path.find("/", end + 1)
            end = len(path) if end < 0 else end
            place = self._enter(place, path[:end], path[start:end])
            if place is None:
                return None
            if len(self._directories) >= REMEMBERED:
                self._directories.clear()
                self._directories[""] = self._root
            self._directories[path[:end]] = place
        return place

    def _enter(self, above: _Place, path: str, name: str) -> _Place | None:
        if path == "/":
            return above
        if name in ("", ".", ".."):
            return None
        name = fold(name)
        folded = f"{above.folded}/{name}"
        git, orders = git_step(above.git, name)
        return _Place(
            self._owners.get(path, above.owner),
            above.system or path in self._system,
            path if path in self._installation else above.installed,
            path if path in self._writes else above.writes,
            folded,
            git,
            self._private.at(path, above.folded, folded, name, git_orders=False) or above.private,
            self._protected.at(path, above.folded, folded, name, git_orders=orders) or above.protected,
        )

    def is_loader(self, path: str) -> bool:
        """Whether `path` is a dynamic loader: run as a program it executes any file it can read."""
        return path in self._loaders or path[path.rfind("/") + 1 :].startswith(LOADER_NAMES)

    def is_command(self, path: str) -> bool:
        """Whether `path` is a program of the command itself."""
        return path in self._programs


def strictly_installed(match: Match) -> bool:
    """Whether naming the protected place itself does not lift it (only naming something in it does)."""
    return match.id == INSTALLATION


def _exempt(private: Match | None, installed: str) -> bool:
    """Whether the installation is no private place: it lies in one, or the name is a `.env`, for start-up."""
    return (
        private is None
        or private.files_only
        or installed == private.root
        or installed.startswith(private.root + "/")
    )


def _both(paths: Iterable[str], facts: Facts) -> dict[str, str]:
    return {each: "" for path in paths for each in (path, facts.real(path))}
