"""A machine that is a table: paths, links and inodes for compiling policies without a file system."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import Variables
from mcpwrap.operation import Need
from mcpwrap.policy.active import Active, ActiveWindow, Resolved
from mcpwrap.policy.compile import Facts, Policy, compile

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.operation import Decision
    from mcpwrap.policy.active import Kind
    from mcpwrap.policy.effective import Effective

HOME = "/home/ann"
STATE = f"{HOME}/.local/share/mcpwrap/file/x"
CACHE = f"{HOME}/.cache/mcpwrap/file/x"
PROFILES = Path(__file__).parents[3] / "mcpwrap" / "profiles"
READ, WRITE, EXEC = Need.READ, Need.WRITE, Need.EXEC

SYSTEM = ("/usr", "/etc/ssl")
SERVER = f"{HOME}/srv"


class Machine:
    """Files, directories and links by path; the parents of each are there too."""

    def __init__(
        self, files: str = "", links: Mapping[str, str] | None = None, directories: str = ""
    ) -> None:
        self.links = dict(links or {})
        self.kinds: dict[str, Kind] = {"/": "directory"}
        self.inodes: dict[str, tuple[int, int]] = {}
        for path in self.links:
            self._parents(path)
        for path in f"{HOME} {SERVER} {STATE} {CACHE} /usr/bin /tmp {directories}".split():
            self.add(path, "directory")
        base = f"{SERVER}/main.py /usr/bin/python3.11 /usr/bin/git /usr/lib/ld-linux-x86-64.so.2 "
        for path in (base + files).split():
            self.add(path, "file")

    def add(self, path: str, kind: Kind) -> None:
        self._parents(path)
        self.kinds[path] = kind

    def _parents(self, path: str) -> None:
        parent = posixpath.dirname(path)
        while parent not in self.kinds:
            self.kinds[parent] = "directory"
            parent = posixpath.dirname(parent)

    def real(self, path: str) -> str:
        here = ""
        parts = path.split("/")[::-1]
        while parts:
            part = parts.pop()
            if part in ("", "."):
                continue
            if part == "..":
                here = posixpath.dirname(here).rstrip("/")
                continue
            target = self.links.get(f"{here}/{part}")
            if target is None:
                here = f"{here}/{part}"
                continue
            parts += target.split("/")[::-1]
            here = "" if target.startswith("/") else here
        return here or "/"

    def kind(self, path: str) -> Kind:
        return self.kinds.get(self.real(path), "missing")

    def resolve(self, path: str) -> Resolved:
        return Resolved(self.real(path), self.kind(path))

    def identity(self, path: str) -> tuple[int, int] | None:
        real = self.real(path)
        if real not in self.kinds:
            return None
        return self.inodes.setdefault(real, (1, 100 + len(self.inodes)))

    def find(self, name: str) -> str | None:
        path = f"/usr/bin/{name}"
        return path if path in self.kinds or path in self.links else None

    def facts(self, **changes: object) -> Facts:
        values: dict[str, object] = {
            "home": HOME,
            "passwd_home": HOME,
            "cwd": f"{HOME}/work",
            "state": STATE,
            "cache": CACHE,
            "uid": 1500,
            "system": SYSTEM,
            "installation": (SERVER,),
            "programs": ("/usr/bin/python3.11",),
            "loaders": ("/usr/lib/ld-linux-x86-64.so.2",),
            "config": f"{HOME}/.config/mcpwrap",
            "find": self.find,
            "real": self.real,
            "identity": self.identity,
            "kind": self.kind,
            "withheld": (
                f"{HOME}/.local/share/mcpwrap",
                f"{HOME}/.local/state/mcpwrap",
                f"{HOME}/.cache/mcpwrap",
            ),
        }
        return Facts(**(values | changes))  # type: ignore[arg-type]

    def policy(self, grant: str, **facts: object) -> Policy:
        home = str(facts.get("home", HOME))
        variables = Variables(home, home, f"{home}/work", "/tmp", STATE, CACHE, {})
        parsed = parse(grant, "grant.toml", variables, lambda name: (PROFILES / f"{name}.toml").read_text())
        return compile(parsed, self.facts(**facts))

    def call(self, policy: Policy, tool: str = "t", **arguments: object) -> Effective:
        bound = policy.bind(tool, arguments, self.resolve)
        return policy.effective(Active(1, False, (ActiveWindow("w1", tool, bound.paths, bound.hosts),)))

    def decide(self, effective: Effective, need: Need, path: str, *, host: bool = False) -> Decision:
        """Decide as the broker does: on the real path, with what is there."""
        kind = self.kind(path)
        return effective.decide(
            need,
            self.real(path),
            identity=self.identity(path),
            creating=kind == "missing",
            regular=kind in ("file", "missing"),
            host=host,
        )


def idle(policy: Policy, *, startup: bool = False) -> Effective:
    return policy.effective(Active(1, startup))
