"""A machine made of a table of names, for plans that are made without looking at the real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcpwrap.policy.compile import Facts, Floor
from mcpwrap.sandbox.entries import Entry
from mcpwrap.sandbox.plan import Plan, Wanted, plan
from mcpwrap.sandbox.replica import Replica

HOME, STATE, CACHE = "/home/u", "/home/u/.local/share/mcpwrap/s", "/home/u/.cache/mcpwrap/s"


@dataclass
class Machine:
    """`names`: path → "d", "f", "s" (socket) or "-> target"; every directory above them exists."""

    names: Mapping[str, str] = field(default_factory=dict)

    def look(self, path: str) -> Entry:
        """As `entries.look`."""
        what = self.names.get(path)
        if what is None:
            below = any(name.startswith(path.rstrip("/") + "/") for name in (*self.names, HOME + "/"))
            return Entry("directory" if below else "missing")
        if what.startswith("-> "):
            return Entry("link", what[3:])
        return Entry({"d": "directory", "f": "file"}.get(what, "other"))  # type: ignore[arg-type]

    def plan(
        self,
        *,
        reads: tuple[str, ...] = (),
        writes: tuple[str, ...] = (),
        executables: tuple[str, ...] = (),
        files: tuple[str, ...] = (),
        parents: tuple[str, ...] = (),
        missing: tuple[str, ...] = (),
        covers: tuple[str, ...] = (),
        links: tuple[str, ...] = (),
        any_writable: bool = False,
        system: tuple[str, ...] = ("/usr", "/bin"),
        installation: tuple[str, ...] = (),
        cwd: str = HOME,
        apart: tuple[str, ...] = (),
        replicas: tuple[Replica, ...] = (),
        sockets: tuple[str, ...] = (),
    ) -> Plan:
        """Return the plan for this floor on this machine."""
        facts = Facts(
            home=HOME,
            passwd_home=HOME,
            cwd=cwd,
            state=STATE,
            cache=CACHE,
            uid=1000,
            system=system,
            installation=installation,
            programs=("/usr/bin/node",),
            loaders=("/usr/lib/ld.so",),
            config=HOME + "/.config/mcpwrap",
            find=lambda name: f"/usr/bin/{name}",
            real=lambda path: path,
            identity=lambda _: None,
        )
        floor = Floor(reads, writes, executables, files, parents, covers, links, missing, any_writable)
        options = Wanted("/usr/bin/node", look=self.look, apart=apart, replicas=replicas, sockets=sockets)
        return plan(floor, facts, options)


USUAL = {
    "/usr/bin/node": "f",
    "/usr/lib/ld.so": "f",
    "/bin": "-> usr/bin",
    **{f"/dev/{name}": "s" for name in ("null", "zero", "full", "random", "urandom")},
}
