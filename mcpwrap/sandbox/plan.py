"""The sandbox as data: what stands where in the server's file system, and in which order it is built.

A `Plan` is made from the policy's floor and what is found on the machine, before anything is changed;
`sandbox.mounts` is its only interpreter. So a plan can be printed, compared and tested without a kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from mcpwrap import limits as bounds
from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.draft import Draft, inside, writable
from mcpwrap.sandbox.entries import Entry, look
from mcpwrap.sandbox.homelinks import links
from mcpwrap.sandbox.names import files
from mcpwrap.sandbox.steps import Bind, Cover, Directory, File, Link, Pin, Proc, Step, Tmpfs

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Floor
    from mcpwrap.policy.facts import Facts
    from mcpwrap.sandbox.replica import Replica

DEVICES = ("null", "zero", "full", "random", "urandom")
"""No terminal: the server has no controlling one, and pseudo terminals are a surface no server of the survey needs."""

DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}

PROC_READ_ONLY = ("sys", "sysrq-trigger", "irq", "bus")
"""Parts of /proc that act on the whole machine; read-only whatever their owner and mode."""

USERS = "/etc/passwd"

UNMOUNTABLE = ("/proc", "/sys", "/dev", "/run/user")
"""Never bound, whoever names them: kernel interfaces and agents' sockets."""

Tier = Literal["B", "B-", "C"]
"""See `sandbox.tiers`."""

Rights = Literal["read", "write", "private", "execute", "device"]
"""As the parameters of `sandbox.landlock.floor`."""


class Access(NamedTuple):
    """One Landlock rule of the floor: `rights` on `path` (real, in the server's view) and below."""

    path: str
    rights: Rights


class Limits(NamedTuple):
    """Bounds on the server's tree; each has its reason in `mcpwrap.limits`. `memory` 0 = half the machine's, capped."""

    processes: int = bounds.PROCESSES
    descriptors: int = bounds.DESCRIPTORS
    data: int = bounds.DATA_BYTES
    memory: int = 0


class Wanted(NamedTuple):
    """What the plan needs besides floor and facts.

    `program` is the absolute path to be executed, `look` how the host is seen (tests give their own).
    `apart` are files below `$CACHE`, relative to it, that stay writable when it is frozen.
    `users` is what the server finds in /etc/passwd; empty: the host's. `nested`: the server may make user
    namespaces. `replicas`: copies of its installation. `sockets` are path sockets of the host that may
    be connected to.
    """

    program: str
    limits: Limits = Limits()
    users: bytes = b""
    apart: tuple[str, ...] = ()
    tier: Tier = "B"
    nested: bool = False
    replicas: tuple[Replica, ...] = ()
    sockets: tuple[str, ...] = ()
    look: Callable[[str], Entry] = look


class Plan(NamedTuple):
    """Everything the stem does, in order.

    `program` is executed as written. `create` are host directories made before (0700); `steps` build
    the view; `sealed` are mount points made read-only at the end; `access` is the Landlock floor;
    `left_out` are (path, why) of what the floor names and the view cannot hold. `frozen` is `$CACHE`, if
    what is in it may be executed: then it becomes read-only when start-up has ended; else empty.
    `temporary`, if given, is a directory of `create` that is emptied at the start. `links` are the names in
    `home`, another one of them, of what is granted of the user's `homes`: see `sandbox.homelinks`.
    """

    program: str
    cwd: str
    create: tuple[str, ...]
    steps: tuple[Step, ...]
    sealed: tuple[str, ...]
    access: tuple[Access, ...]
    left_out: tuple[tuple[str, str], ...]
    limits: Limits
    frozen: str = ""
    nested: bool = False
    tier: Tier = "B"
    temporary: str = ""
    home: str = ""
    homes: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


def plan(floor: Floor, facts: Facts, options: Wanted) -> Plan:
    """Return the plan of a view for this floor on this machine. Reads the host's names, changes nothing.

    Raises CannotConfine for a private home that is no directory, and for loops of symlinks.
    """
    draft = Draft(options.look, UNMOUNTABLE)
    access: dict[Access, None] = {}
    executable = floor.any_writable
    cache = facts.real(facts.cache)
    cached = any(inside(path, cache) or inside(cache, path) for path in floor.executables)

    def own(path: str, source: str = "", *, executable: bool = executable, directory: bool = True) -> str:
        where = draft.place(path)
        draft.add(Bind(where, source or where, writable=True, executable=executable, directory=directory))
        access[Access(where, "write")] = None
        return where

    def reach(path: str, rights: Rights, *, firm: bool = False) -> None:
        writable = rights == "write"
        real = draft.bind(path, writable=writable, firm=firm, executable=writable and executable)
        if real is not None:
            access[Access(real, rights)] = None

    _base(draft, executable)
    home = draft.place(facts.state) + "/home"
    if options.look(home).kind not in ("directory", "missing"):
        raise CannotConfine(f"{home} is no directory: it holds the server's private home", "move it aside")
    for path in filter(None, dict.fromkeys((facts.home, facts.passwd_home))):
        own(path, home)
    own(facts.state)
    cache = own(facts.cache, executable=executable or cached)
    if cached:
        # Package launchers unpack there what they then run. What they keep open for as long as the server
        # lives gets a mount of its own, or the rest would never be free of writers.
        access[Access(cache, "execute")] = None
        for name in options.apart:
            draft.add(Pin(f"{cache}/{name}", directory=False))
    # A mount point cannot be renamed away: the next run finds this same directory as the private home.
    draft.add(Pin(home))
    draft.add(Directory(draft.place(facts.cwd)))

    names = files(answered=options.tier == "B", machine=os.uname().nodename)
    replaced = {*names, *map(facts.real, names)}
    for path in facts.system:
        if path not in replaced:
            reach(path, "read")
    for path in writable(floor):
        reach(path, "write")
    for path in floor.reads:
        reach(path, "read")
    # Readable and never writable, also inside a granted tree that is.
    copied = {each.root for each in options.replicas}
    for each in options.replicas:
        own(each.root, each.source, directory=each.directory)
        for path in each.native:
            reach(path, "read", firm=True)
    for path in (*facts.installation, *facts.programs):
        if path not in copied:
            reach(path, "read", firm=True)
    for path in (*facts.programs, *floor.executables, *facts.loaders):
        if not (cached and inside(path, cache)):
            reach(path, "execute")
    for path in (*floor.links, options.program):
        draft.place(path)
    for path in floor.covers:
        draft.cover(path)
    for path in options.sockets:
        draft.socket(path)
    for path, content in names.items():
        draft.add(File(path, content))
    if options.users:
        draft.add(File(draft.place(USERS), options.users))

    access |= {Access(path, "private"): None for path in ("/tmp", "/dev/shm")}
    access |= {Access(f"/dev/{name}", "device"): None for name in DEVICES}
    access |= {Access(path, "read"): None for path in names}
    # A process may write a few things of its own there, such as its name: the broker says which.
    access[Access("/proc", "device")] = None
    if executable:
        access |= {
            Access(each.path, "execute"): None for each in list(access) if each.rights in ("write", "private")
        }
    steps = draft.steps()
    return Plan(
        program=options.program,
        cwd=draft.place(facts.cwd),
        create=tuple(dict.fromkeys((facts.state, home, facts.cache))),
        steps=steps,
        sealed=(*(step.path for step in steps if isinstance(step, Cover) and step.directory), "/"),
        access=tuple(access),
        left_out=tuple(draft.left_out.items()),
        limits=options.limits,
        frozen=cache if cached and not floor.any_writable else "",
        nested=options.nested,
        tier=options.tier,
        home=home,
        homes=facts.homes,
        links=links((*floor.reads, *floor.writes), facts.homes),
    )


def _base(draft: Draft, executable: bool) -> None:
    """What every server has: memory for temporary files, a handful of devices, /proc."""
    draft.add(Tmpfs("/tmp", bounds.TEMPORARY_BYTES, bounds.TEMPORARY_INODES, 0o1777, executable))
    draft.add(Directory("/dev"))
    for name in DEVICES:
        draft.add(Bind(f"/dev/{name}", f"/dev/{name}", device=True, directory=False))
    for name, target in DEVICE_LINKS.items():
        draft.add(Link(f"/dev/{name}", target))
    draft.add(Tmpfs("/dev/shm", bounds.SHARED_MEMORY_BYTES, bounds.TEMPORARY_INODES, 0o1777))
    draft.add(Proc("/proc", PROC_READ_ONLY))


def describe(plan: Plan) -> list[str]:
    """Return the plan as lines for people, in the order it is carried out."""
    lines = [f"make      {path} (0700, on the host)" for path in plan.create]
    lines += [step.describe() for step in plan.steps]
    lines += [f"seal      {path}" for path in plan.sealed]
    lines += [f"landlock  {each.rights:8}{each.path}" for each in plan.access]
    lines += [f"left out  {path}: {why}" for path, why in plan.left_out]
    lines += [f"freeze    {plan.frozen} (read-only once start-up has ended)"] if plan.frozen else []
    lines += [f"cwd       {plan.cwd}", f"exec      {plan.program}"]
    return lines
