"""What becomes of the outcome of a call in which something was refused (`[policy] on_denial`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.protocol.annotate import annotated, annotated_error, withheld, withheld_error, withheld_message
from mcpwrap.protocol.mcp import TOOLS_CALL
from mcpwrap.protocol.terms import WITHHOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwrap.protocol.window import Call


class Outcomes:
    """`withholds`: the outcome is replaced by one that tells what was refused, instead of carrying that as well."""

    def __init__(self, on_denial: str) -> None:
        self.withholds = on_denial == WITHHOLD

    def written(self, text: str, path: Sequence[str], call: Call, *, final: bool = True) -> str | None:
        """Return the message `text` with the call's denials on, or in the place of, the result at `path`.

        `final`: it is the call's outcome, which a model reads. None if the result there cannot bear them.
        """
        if not self.withholds:
            return annotated(text, path, call, block=final and call.method == TOOLS_CALL)
        return withheld(text, path, call)

    def of_task(self, text: str, path: Sequence[str], call: Call, task_id: str) -> str:
        """Return the same for the outcome of a task; what cannot bear the denials is replaced by them."""
        on = None if self.withholds else annotated(text, path, call, block=call.method == TOOLS_CALL)
        return withheld(text, path, call, task_id) if on is None else on

    def of_error(self, text: str, path: Sequence[str], call: Call) -> str:
        """Return the same for a JSON-RPC error, of the call or of its task."""
        return (withheld_error if self.withholds else annotated_error)(text, path, call)

    def of_message(self, text: str, path: Sequence[str], call: Call) -> str:
        """Return the same for what a task's last status says; only its outcome carries what was refused beside that."""
        return withheld_message(text, path, call) if self.withholds else text
