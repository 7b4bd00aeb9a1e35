"""What the relay writes down, as it sees it; the audit is what takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from mcpwrap.operation import Denial, Event
    from mcpwrap.policy.active import Bound
    from mcpwrap.protocol.window import Window


class Journal(Protocol):
    """Takes events as they happen. They are on disk after `flush`, and only then."""

    def opened(self, window: Window, bound: Bound) -> None:
        """A call's grant is about to be put in force."""

    def closed(self, window: Window, how: str, denials: Sequence[Denial], seconds: float) -> None:
        """A call's grant was withdrawn, `seconds` after it was opened."""

    def operation(self, event: Event, *, late: bool) -> None:
        """The server did something, or was refused it. `late`: after its window had closed."""

    def note(self, kind: str, text: str, fields: Mapping[str, str | int]) -> None:
        """Something worth knowing that belongs to no operation."""

    def flush(self) -> None:
        """Write all of it to disk. Raises `OSError` (a full disk) and keeps what was not written."""
