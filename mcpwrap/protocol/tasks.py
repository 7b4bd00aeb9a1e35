"""Calls that were answered with a task (core in 2025-11-25, an extension in 2026-07-28) and go on working.

The window stays open until a task's status is one that is never left. What was refused in it is written on
the task's outcome, wherever that travels: the answer to `tasks/result`, or inside `tasks/get` and
`notifications/tasks`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwrap.protocol import mcp
from mcpwrap.protocol.bounded import Remembered
from mcpwrap.protocol.window import Call, State, Turn

if TYPE_CHECKING:
    from mcpwrap.protocol.calls import Calls
    from mcpwrap.protocol.outcomes import Outcomes


_MESSAGE: Final = "statusMessage"


class Tasks:
    """The tasks of one connection, by the id their server gave them."""

    def __init__(self, calls: Calls, outcomes: Outcomes) -> None:
        self._calls = calls
        self._outcomes = outcomes
        self._by_id: Remembered[str, Call] = Remembered()

    def created(self, call: Call, task: dict[str, Any], now: float) -> None:
        """The answer to `call` announced `task`."""
        self._by_id[task["taskId"]] = call
        self._calls.become_task(call, mcp.ttl_seconds(task), now)
        self._seen(task)

    def runs(self, task_id: str) -> bool:
        """Tell whether a task of this id is known and has not ended: a second one would take its place."""
        call = self._by_id.get(task_id)
        return call is not None and call.state is State.TASK

    def answered(self, method: str, task_id: str, message: dict[str, Any], text: str) -> str:
        """An answer to a `tasks/...` request passes: return it, with the denials if it holds the outcome."""
        if method == "tasks/result":
            self._end(task_id)
            return self._on_result(text, task_id, "error" if "error" in message else "result")
        if "error" in message and self._outcomes.withholds:
            return self._on_result(text, task_id, "error")
        result = message.get("result")
        return self._on_status(text, "result", result) if type(result) is dict else text

    def noticed(self, message: dict[str, Any], text: str) -> str:
        """A status notification passes: return it, with the denials if it holds the outcome."""
        params = message.get("params")
        return self._on_status(text, "params", params) if type(params) is dict else text

    def _on_status(self, text: str, key: str, task: dict[str, Any]) -> str:
        self._seen(task)
        task_id = task.get("taskId")
        if type(task_id) is str:
            text = self._on_message(text, task_id, task, key)
            for outcome in ("result", "error"):
                if type(task.get(outcome)) is dict:
                    return self._on_result(text, task_id, key, outcome)
        return text

    def _on_message(self, text: str, task_id: str, task: dict[str, Any], key: str) -> str:
        """What a status that is never left says in words is an outcome as well."""
        call = self._by_id.get(task_id)
        if call is None or not call.denials or _MESSAGE not in task or task.get("status") not in mcp.TERMINAL:
            return text
        return self._outcomes.of_message(text, (key, _MESSAGE), call)

    def _on_result(self, text: str, task_id: str, *path: str) -> str:
        call = self._by_id.get(task_id)
        if call is None or not call.denials:
            return text
        if path[-1] == "error":
            return self._outcomes.of_error(text, path, call)
        return self._outcomes.of_task(text, path, call, task_id)

    def _seen(self, task: dict[str, Any]) -> None:
        status, task_id = task.get("status"), task.get("taskId")
        if type(status) is str and status in mcp.TERMINAL and type(task_id) is str:
            self._end(task_id)

    def _end(self, task_id: str) -> None:
        call = self._by_id.get(task_id)
        if call is not None and call.state is State.TASK:
            self._calls.close(call, Turn.TASK_ENDED, "task")
