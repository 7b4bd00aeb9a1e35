"""Requests of the server to its client that are open: a call that has one waits for the client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwrap.protocol import mcp
from mcpwrap.protocol.bounded import Remembered, is_short
from mcpwrap.protocol.jsonrpc import usable_id
from mcpwrap.protocol.window import Call, State, Turn

if TYPE_CHECKING:
    from mcpwrap.protocol.calls import Calls
    from mcpwrap.protocol.passing import Id

_ASKING = frozenset({State.OPEN, State.WAITING})


class Questions:
    """Ascribes each open request of the server to calls. MCP does not say which call it belongs to."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._open: Remembered[Id, list[Call]] = Remembered()

    def asked(self, message: dict[str, Any]) -> None:
        """Note a request or notification of the server that goes to the client.

        Only roots, sampling and elicitation count; they are the sole call's in flight, else everyone's. One
        that no client answers (no usable id, `params` that are no object) keeps no call waiting.
        """
        method = message["method"]
        if method == mcp.CANCELLED:
            self._withdrawn(message.get("params"))
        request_id = message.get("id")
        if method not in mcp.CLIENT_WORK or not usable_id(request_id) or not is_short(request_id):
            return
        if type(message.get("params", {})) is not dict:
            return
        self.replied(request_id)
        asking = [call for call in self._calls.active.values() if call.state in _ASKING]
        for call in asking:
            call.asked += 1
            if call.state is State.OPEN:
                call.take(Turn.ASKED)
        if asking:
            self._open[request_id] = asking

    def replied(self, request_id: Id) -> None:
        """The client has answered, or the server no longer wants to know."""
        for call in self._open.pop(request_id, ()):
            call.asked -= 1
            if not call.asked and call.state is State.WAITING:
                call.take(Turn.REPLIED)

    def _withdrawn(self, params: object) -> None:
        request_id = params.get("requestId") if type(params) is dict else None
        if not usable_id(request_id):
            return
        self.replied(request_id)
        # 2026-07-28: the server's only cancel, of the client's own subscription.
        if self._calls.passing.get(request_id, ("", ""))[0] == mcp.LISTEN:
            del self._calls.passing[request_id]
