"""The life of one call, as one table.

    held ──opened──► open ◄─replied── waiting        (a server request to the client is open)
      │               │ ──asked────►    │
      │               ├──became_task──► task ──task_ended──► closed
      │               ├──cancelled────► draining ──drained─► closed
      └─withdrawn─────┴──answered────────────────────────────► closed

A window is open from `opened` to `closed`: its grant is in force, and what the kernel refuses is written on
its answer. A call that has had its time (`window_limit`) stays where it stands, without its grant.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwrap.limits import RECORDS_PER_WINDOW

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.operation import Denial


class State(StrEnum):
    """Where a call stands. Every state but `HELD` and `CLOSED` has its window open."""

    HELD = "held"
    OPEN = "open"
    WAITING = "waiting"
    DRAINING = "draining"
    TASK = "task"
    CLOSED = "closed"


class Turn(StrEnum):
    """What may befall a call."""

    OPENED = "opened"
    WITHDRAWN = "withdrawn"
    ASKED = "asked"
    REPLIED = "replied"
    CANCELLED = "cancelled"
    DRAINED = "drained"
    BECAME_TASK = "became_task"
    TASK_ENDED = "task_ended"
    ANSWERED = "answered"
    REFUSED = "refused"
    ENDED = "ended"


TRANSITIONS: Final[Mapping[State, Mapping[Turn, State]]] = {
    State.HELD: {
        Turn.OPENED: State.OPEN,
        # Cancelled, out of time, or the client's stream is gone: the server never saw it.
        Turn.WITHDRAWN: State.CLOSED,
        Turn.ENDED: State.CLOSED,
    },
    State.OPEN: {
        Turn.ASKED: State.WAITING,
        Turn.CANCELLED: State.DRAINING,
        Turn.BECAME_TASK: State.TASK,
        Turn.ANSWERED: State.CLOSED,
        Turn.REFUSED: State.CLOSED,
        Turn.ENDED: State.CLOSED,
    },
    State.WAITING: {
        Turn.REPLIED: State.OPEN,
        Turn.CANCELLED: State.DRAINING,
        Turn.BECAME_TASK: State.TASK,
        Turn.ANSWERED: State.CLOSED,
        Turn.REFUSED: State.CLOSED,
        Turn.ENDED: State.CLOSED,
    },
    State.DRAINING: {
        # A second cancel does not lengthen the first.
        Turn.CANCELLED: State.DRAINING,
        Turn.DRAINED: State.CLOSED,
        Turn.ANSWERED: State.CLOSED,
        Turn.REFUSED: State.CLOSED,
        Turn.ENDED: State.CLOSED,
    },
    State.TASK: {
        Turn.TASK_ENDED: State.CLOSED,
        Turn.ENDED: State.CLOSED,
    },
    State.CLOSED: {},
}
"""Every turn that can befall a state. One that is not here is a fault of mcpwrap, not of a peer."""


class Window(NamedTuple):
    """One call whose grant is in force.

    `tool` is the called tool; for `resources/*`, `prompts/*` and `completion/complete` it is the method
    itself, and `method` tells the two apart. `area` says which tables of the grant hold: "tools" (that of the tool),
    "resources", "prompts", or "" for none besides `[server]`. `arguments`
    are the call's own, parsed (of the other methods: their params without `_meta`); strings in them may
    hold half surrogate pairs, and very long ones may each be a `glance.LongText`. `opened` is the caller's
    clock. `union` says, if not "", why it overlaps calls of other tools. `joined` is the window of the leg
    before, if this call retries one that ended with `input_required`.
    """

    id: str
    tool: str
    arguments: Mapping[str, Any]
    request_id: int | str
    opened: float
    method: str = "tools/call"
    area: str = "tools"
    union: str = ""
    joined: str | None = None


class Call:
    """One request that opens a window: what was asked, where it stands, what it was refused."""

    __slots__ = (
        "_denials",
        "area",
        "arguments",
        "asked",
        "batch",
        "deadline",
        "knows_tasks",
        "meta",
        "method",
        "modern",
        "request_id",
        "request_state",
        "state",
        "tool",
        "untold",
        "wants_task",
        "window",
        "withdrawn",
    )

    def __init__(
        self, method: str, request_id: int | str, tool: str, arguments: Mapping[str, Any], area: str = "tools"
    ) -> None:
        self.method = method
        self.area = area
        self.request_id = request_id
        self.tool = tool
        self.arguments = arguments
        self.state = State.HELD
        self.window: Window | None = None
        self.batch: object = None
        """The same object for all calls that came in one line."""
        self.asked = 0
        """Requests of the server to the client that are open and ascribed to this call."""
        self.deadline = 0.0
        """When a draining window closes or a task's ttl ends."""
        self.withdrawn = False
        """It has had its time: its window is open without a grant."""
        self.meta: object = None
        """`_meta` of the request."""
        self.modern = False
        """The request carries its protocol version itself: revision 2026-07-28 or later."""
        self.wants_task = False
        """The request asks to become a task (2025-11-25)."""
        self.knows_tasks = False
        """The request says that it may become one (the extension of 2026-07-28)."""
        self.request_state: str | None = None
        """What an earlier leg told the client to send back."""
        self.untold = 0
        """Denials beyond those kept."""
        self._denials: dict[tuple[str, str, str], Denial] = {}

    def take(self, turn: Turn) -> None:
        """Move on by the table; a turn that is not in it raises KeyError."""
        self.state = TRANSITIONS[self.state][turn]

    def deny(self, denial: Denial) -> None:
        """Note one refusal; equal ones are merged with their count."""
        key = (denial.act, denial.object, denial.rule)
        known = self._denials.get(key)
        if known is not None:
            self._denials[key] = counted(known, known.times + denial.times)
        elif len(self._denials) < RECORDS_PER_WINDOW:
            self._denials[key] = denial
        else:
            self.untold += denial.times

    @property
    def denials(self) -> tuple[Denial, ...]:
        """What was refused during this call, in the order it was first seen."""
        return tuple(self._denials.values())


def counted(denial: Denial, count: int) -> Denial:
    """Return the same denial with another count."""
    return denial._replace(times=count)
