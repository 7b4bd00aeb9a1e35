"""The plan of a sandbox without a view of its own (tier C): nothing is built, Landlock holds the host's paths.

HOME and the place for temporary files are directories of $STATE. What private and write-protected names
lie inside granted trees, Landlock cannot take out again: the broker holds them, which every open passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.draft import Draft, inside, writable
from mcpwrap.sandbox.homelinks import links
from mcpwrap.sandbox.plan import DEVICES, UNMOUNTABLE, Access, Plan, Rights, Wanted

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Floor
    from mcpwrap.policy.facts import Facts


def host_plan(floor: Floor, facts: Facts, options: Wanted) -> Plan:
    """Return the plan for this floor on this machine. Reads the host's names, changes nothing.

    Raises CannotConfine where the server's own places are not directories, and for loops of symlinks.
    """
    draft = Draft(options.look, UNMOUNTABLE)
    access: dict[Access, None] = {}

    def reach(path: str, rights: Rights) -> None:
        real = draft.bind(path)
        if real is not None:
            access[Access(real, rights)] = None

    state, cache = draft.place(facts.state), draft.place(facts.cache)
    home, temporary = f"{state}/home", f"{state}/tmp"
    for path in (home, temporary):
        # A link here would make of somebody else's directory the server's own.
        if options.look(path).kind not in ("directory", "missing"):
            raise CannotConfine(f"{path} is no directory: it is the server's private place", "move it aside")
    access |= {Access(path, "write"): None for path in (state, cache)}
    access[Access(temporary, "private")] = None
    for path in facts.system:
        reach(path, "read")
    for path in writable(floor):
        reach(path, "write")
    for path in (*floor.reads, *facts.installation, *facts.programs):
        reach(path, "read")
    for path in (*facts.programs, *floor.executables, *facts.loaders):
        if inside(path, cache) or inside(cache, path):
            access[Access(cache, "execute")] = None  # it may not be there yet
        else:
            reach(path, "execute")
    access |= {Access(f"/dev/{name}", "device"): None for name in DEVICES}
    # A process may write a few things of its own there, such as its name: the broker says which.
    access[Access("/proc", "device")] = None
    if floor.any_writable:
        access |= {
            Access(each.path, "execute"): None for each in list(access) if each.rights in ("write", "private")
        }
    return Plan(
        program=options.program,
        cwd=draft.place(facts.cwd),
        create=tuple(dict.fromkeys((state, home, temporary, cache))),
        steps=(),
        sealed=(),
        access=tuple(access),
        left_out=tuple(draft.left_out.items()),
        limits=options.limits,
        tier="C",
        temporary=temporary,
        home=home,
        homes=facts.homes,
        links=links(
            (path for path in (*floor.reads, *floor.writes) if options.look(path).kind != "missing"),
            facts.homes,
        ),
    )
