"""What the interposer tells its caller to do, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwrap.operation import Denial
    from mcpwrap.protocol.manifest import Held
    from mcpwrap.protocol.terms import Objection
    from mcpwrap.protocol.window import Window


class Opened(NamedTuple):
    """Put this window's grant into force, before the bytes that follow."""

    window: Window


class Forward(NamedTuple):
    """Write to the server's stdin. `windows` are the ids of the windows these bytes start work in.

    Bytes of a window that was refused (`Interposer.refuse`) must not be written.
    """

    data: bytes
    windows: tuple[str, ...] = ()


class Reply(NamedTuple):
    """Write to the client's stdout."""

    data: bytes


class Closed(NamedTuple):
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


class Noise(NamedTuple):
    """Write to stderr: the server printed it to stdout, and it is no protocol."""

    data: bytes


class Note(NamedTuple):
    """Write to the audit; `loud` ones also to stderr, one line."""

    kind: str
    text: str
    fields: Mapping[str, str | int] = {}
    loud: bool = False


class StartupArmed(NamedTuple):
    """Start waiting for the quiet that ends start-up."""


class StartupEnded(NamedTuple):
    """The grant of `[startup]` is gone for good."""


class EndInput(NamedTuple):
    """Close the server's stdin: the client's stream has ended and every call it sent is forwarded or gone."""


class Failed(NamedTuple):
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
