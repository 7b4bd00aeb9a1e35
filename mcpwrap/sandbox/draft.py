"""A plan in the making: places on the view, in any order; `steps` puts them into the one that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.entries import Entry
from mcpwrap.sandbox.steps import Bind, Cover, Directory, Link, Pin, Proc, Step, Tmpfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mcpwrap.policy.floor import Floor

MAX_LINKS = 40
"""Symlinks followed in one path, as the kernel's MAXSYMLINKS."""


class Draft:
    """Collects steps by path; real paths only, symlinks on the way are recreated as the host has them."""

    def __init__(self, look: Callable[[str], Entry], unmountable: tuple[str, ...]) -> None:
        self.look = look
        self.left_out: dict[str, str] = {}
        self._unmountable = unmountable
        self._wanted: dict[str, Step] = {}
        self._firm: set[str] = set()
        self._links: dict[str, str] = {}
        self._seen: dict[str, tuple[str, Entry]] = {}

    def add(self, step: Step) -> None:
        """Set what stands at `step.path`; a mere directory never takes the place of something else."""
        if not (isinstance(step, Directory) and step.path in self._wanted):
            self._wanted[step.path] = step

    def place(self, path: str) -> str:
        """Return the real path of `path`, which need not exist, and note the symlinks on the way.

        Raises CannotConfine for a loop of links.
        """
        return self._walk(path)[0]

    def bind(
        self, path: str, *, writable: bool = False, firm: bool = False, executable: bool = False
    ) -> str | None:
        """Make `path` of the host visible at its real path; return that, or None if it is left out.

        With `firm` it is read-only whoever else asks for it, and inside a writable tree.
        """
        real, entry = self._walk(path)
        why = {"missing": "does not exist", "other": "is a socket, device or pipe"}.get(entry.kind)
        if real == "/" or any(inside(real, root) for root in self._unmountable):
            why = "is never bound"
        if why:
            self.left_out[path] = why
            return None
        there = self._wanted.get(real)
        if isinstance(there, Tmpfs):
            return real  # a grant of /tmp is one of the private /tmp
        if isinstance(there, Bind):
            if not _shows_host(there):
                return real
            writable |= there.writable
            executable |= there.executable
        if firm:
            self._firm.add(real)
        self._wanted[real] = Bind(
            real,
            real,
            writable=writable and real not in self._firm,
            directory=entry.kind == "directory",
            executable=executable,
        )
        return real

    def socket(self, path: str) -> None:
        """Let a socket of the host be seen at its real path, if it is there now: programs look before they connect.

        To be connected to it need not be in the view.
        """
        real, entry = self._walk(path)
        if entry.kind == "other" and not any(inside(real, root) for root in self._unmountable):
            self._wanted.setdefault(real, Bind(real, real, directory=False))

    def cover(self, path: str) -> None:
        """Hide `path` where it lies inside something visible; elsewhere it is hidden already."""
        real, entry = self._walk(path)
        if entry.kind != "missing":
            self._wanted.setdefault(real, Cover(real, entry.kind == "directory"))

    def steps(self) -> tuple[Step, ...]:
        """Return what is needed, parents before children.

        Left away is what its surroundings show anyway. Added are pins between private ground and a
        mount inside it: who may rename a directory would carry the mount to a place with other rules.
        """
        wanted: dict[str, Step] = {path: Link(path, target) for path, target in self._links.items()}
        wanted |= self._wanted
        kept: dict[str, Step] = {}
        for path in sorted(wanted, key=_parts):
            step, over = wanted[path], _around(kept, path)
            if self._shown(step, over):
                continue
            if not isinstance(step, Directory | Link) and _private(over):
                for each in _above(path):
                    if each in kept and not isinstance(kept[each], Directory):
                        break
                    kept[each] = Pin(each)
            kept[path] = step
        return tuple(kept[path] for path in sorted(kept, key=_parts))

    def _shown(self, step: Step, over: Step | None) -> bool:
        if not (isinstance(over, Bind) and _shows_host(over)):
            return isinstance(step, Cover)
        if isinstance(step, Bind) and _shows_host(step):
            return step.writable == over.writable or (over.writable and step.path not in self._firm)
        return isinstance(step, Directory | Link)

    def _walk(self, path: str) -> tuple[str, Entry]:
        if path in self._seen:
            return self._seen[path]
        todo = _parts(path)[::-1]
        here, entry, links = "", Entry("directory"), 0
        while todo:
            name = todo.pop()
            if name == "..":
                here = here.rpartition("/")[0]
                continue
            there = f"{here}/{name}"
            entry = self.look(there) if entry.kind != "missing" else entry
            if entry.kind != "link":
                here = there
                continue
            links += 1
            if links > MAX_LINKS:
                raise CannotConfine(f"too many symlinks in {path}", "name the path they lead to")
            self._links[there] = entry.target
            todo += _parts(entry.target)[::-1]
            if entry.target.startswith("/"):
                here = ""
            entry = Entry("directory")
        self._seen[path] = (here or "/", entry)
        return self._seen[path]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _above(path: str) -> list[str]:
    """Return the directories `path` lies in, the nearest first, without /."""
    parts = _parts(path)
    return ["/" + "/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def _around(kept: dict[str, Step], path: str) -> Step | None:
    """Return the mount `path` lies in; None for the bare root."""
    for each in _above(path):
        step = kept.get(each)
        if isinstance(step, Bind | Tmpfs | Cover | Pin | Proc):
            return step
    return None


def _shows_host(step: Bind) -> bool:
    return step.source == step.path and not step.device


def _private(step: Step | None) -> bool:
    """Whether the server may do as it likes there: memory, or the private home."""
    return isinstance(step, Tmpfs | Pin) or (isinstance(step, Bind) and not _shows_host(step))


def inside(path: str, root: str) -> bool:
    """Whether `path` is `root` or below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def writable(floor: Floor) -> Iterator[str]:
    """Yield what the floor lets be written, as far as it is there or made nowhere else."""
    yield from floor.parents
    for path in floor.writes:
        # What is to be made is made in its directory, and that is there.
        if path not in floor.missing or not any(inside(path, parent) for parent in floor.parents):
            yield path
