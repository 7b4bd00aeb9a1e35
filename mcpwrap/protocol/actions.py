"""What the interposer tells its caller to do, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.operation import Denial
    from mcpwrap.protocol.manifest import Held
    from mcpwrap.protocol.terms import Objection
    from mcpwrap.protocol.window import Window


@dataclass(frozen=True, slots=True)
class Opened:
    """Put this window's grant into force, before the bytes that follow."""

    window: Window


@dataclass(frozen=True, slots=True)
class Forward:
    """Write to the server's stdin. `windows` are the ids of the windows these bytes start work in.

    Bytes of a window that was refused (`Interposer.refuse`) must not be written.
    """

    data: bytes
    windows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """Write to the client's stdout."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Closed:
    """Withdraw this window's grant and have its records on disk, before the bytes that follow.

    `how`: "answered", "error" (the answer was one), "input_required", "cancelled", "task" (it ended),
    "ttl" (a task's time is over), "crowded" (more tasks than are kept), "uncertain", "refused", "eof",
    "withheld" (something was refused, and the grant says `on_denial = "error"`).
    """

    window: Window
    how: str
    denials: tuple[Denial, ...] = ()


class Withdrawn(NamedTuple):
    """Withdraw this window's grant: the call has had its time (`window_limit`). It goes on, and so do its records."""

    window: Window


class Refused(NamedTuple):
    """A call of `tool` was not given to the server and never had a window; its answer follows."""

    tool: str
    request_id: int | str
    objection: Objection


class Listed(NamedTuple):
    """The server listed tools that are new in this run, by name and digest, or are no longer what they were."""

    tools: Mapping[str, str]
    held: Mapping[str, Held]


@dataclass(frozen=True, slots=True)
class Noise:
    """Write to stderr: the server printed it to stdout, and it is no protocol."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """Write to the audit; `loud` ones also to stderr, one line."""

    kind: str
    text: str
    fields: Mapping[str, str | int] = field(default_factory=dict)
    loud: bool = False


@dataclass(frozen=True, slots=True)
class StartupArmed:
    """Start waiting for the quiet that ends start-up."""


@dataclass(frozen=True, slots=True)
class StartupEnded:
    """The grant of `[startup]` is gone for good."""


@dataclass(frozen=True, slots=True)
class EndInput:
    """Close the server's stdin: the client's stream has ended and every call it sent is forwarded or gone."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection cannot go on; nothing more of that side is read."""

    text: str


Action = (
    Opened
    | Forward
    | Reply
    | Closed
    | Withdrawn
    | Refused
    | Listed
    | Noise
    | Note
    | StartupArmed
    | StartupEnded
    | EndInput
    | Failed
)
