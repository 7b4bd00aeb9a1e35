"""What the relay writes down, as it sees it; the audit is what takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpwrap.operation import Denial, Event
    from mcpwrap.policy.active import Bound
    from mcpwrap.protocol.manifest import Held
    from mcpwrap.protocol.terms import Objection
    from mcpwrap.protocol.window import Window


class Journal(Protocol):
    """Takes events as they happen. They are on disk after `flush`, and only then."""

    def opened(self, window: Window, bound: Bound) -> None:
        """A call's grant is about to be put in force."""

    def closed(self, window: Window, how: str, denials: Sequence[Denial], seconds: float) -> None:
        """A call's grant was withdrawn, `seconds` after it was opened."""

    def withdrawn(self, window: Window) -> None:
        """A call's grant was withdrawn although it goes on: it has had its time."""

    def refused(self, tool: str, request_id: int | str, objection: Objection) -> None:
        """A call was not given to the server and had no window."""

    def listed(self, tools: Mapping[str, str], held: Mapping[str, Held]) -> None:
        """The server listed tools that are new, by name and digest, or are not what they were."""

    def operation(self, event: Event, *, late: bool) -> None:
        """The server did something, or was refused it. `late`: after its window had closed."""

    def note(self, kind: str, text: str, fields: Mapping[str, str | int]) -> None:
        """Something worth knowing that belongs to no operation."""

    def flush(self) -> None:
        """Write all of it to disk. Raises `OSError` (a full disk) and keeps what was not written."""
