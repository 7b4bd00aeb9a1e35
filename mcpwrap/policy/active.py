"""What one run's calls have opened: windows with the paths and hosts their arguments bound.

These are the only parts of a policy that change while the server runs; they travel from the relay to
the broker through the page. Named tuples, here and in all modules every run imports: making a frozen
dataclass takes 0.4 ms, and start-up is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from mcpwrap.operation import Need

Kind = Literal["file", "directory", "missing", "other"]
"""What a path leads to; "other" is a socket, device or FIFO."""

BoundKind = Literal["file", "tree", "create", "exact"]
"""How far a bound path reaches:

- `file`: that one file.
- `tree`: a directory and what is below it.
- `create`: a path that was missing when the call came: itself and whatever is made below it.
- `exact`: argument plus literal tail (`"$arg:repo/.git/config"`): itself and what is below it; the
  user wrote that name, so a write-protected one may be written.
"""

Area = Literal["tools", "resources", "prompts"]
"""Which tables of the grant are in force during a window: those of its tool, or `[resources]`, `[prompts]`."""


class Resolved(NamedTuple):
    """The object a path finally leads to: `real` is absolute, also for a missing one."""

    real: str
    kind: Kind


class BoundPath(NamedTuple):
    """One real path an argument granted. `need` is READ or WRITE (which implies read).

    `siblings`: new regular files beside it, named as atomic writers name theirs, may be made as well.
    `root`: of each directory above it, down from this one, the names may be listed (servers look for other
    spellings of a name that is not there), and one that is missing may be made for a WRITE; no more.
    """

    need: Need
    path: str
    kind: BoundKind
    rule: str
    siblings: bool = False
    root: str = ""


class BoundHost(NamedTuple):
    """One host an argument granted, by TCP.

    `host` is a canonical name (lower case, A-labels, no trailing dot) or, if `literal`, the canonical text of
    a public address. `ports` are those that are granted, ascending.
    """

    host: str
    ports: tuple[int, ...]
    rule: str
    literal: bool = False


class Unbound(NamedTuple):
    """An argument value that granted nothing.

    `argument` is its name (`path`, `items[]`), `value` as the client wrote it, `path` where it
    leads if it is a path at all (or, for CONNECT, the host it names), `reason` one of `bind.REASONS`, or the
    id of the private rule it met.
    """

    need: Need
    rule: str
    argument: str
    value: str
    path: str
    reason: str


class Bound(NamedTuple):
    """All that one call's arguments granted, and what they did not."""

    paths: tuple[BoundPath, ...] = ()
    unbound: tuple[Unbound, ...] = ()
    hosts: tuple[BoundHost, ...] = ()


class ActiveWindow(NamedTuple):
    """One open call window; `tool` is empty in the areas `resources` and `prompts`."""

    id: str
    tool: str
    bound: tuple[BoundPath, ...] = ()
    hosts: tuple[BoundHost, ...] = ()
    area: Area = "tools"


class Active(NamedTuple):
    """Everything in force at one moment besides `[server]`.

    `generation` counts publications from 1 (0: nothing published yet, start-up).
    """

    generation: int
    startup: bool
    windows: tuple[ActiveWindow, ...] = ()
