"""Requests of the client that open no window, and whatever answers may come of what is no longer in flight."""

from __future__ import annotations

from typing import Final

from mcpwrap.protocol.bounded import Remembered

TOOLS_LIST: Final = "tools/list"

Id = int | str


class Passing(Remembered[Id, tuple[str, str]]):
    """Such requests in flight, by id: the method and, for tasks/*, the task's id."""

    def __init__(self) -> None:
        super().__init__()
        self.late: Remembered[Id, None] = Remembered()
        """Requests of any kind that are no longer in flight, and whose answer may still come."""

    def give_up(self, request_id: Id) -> bool:
        """Wait no longer for the answer to a request; whether there was one."""
        if self.pop(request_id, None) is None:
            return False
        self.late[request_id] = None
        return True

    def is_looked_through(self, request_id: Id) -> bool:
        """Tell whether the answer to a request must be read before it goes on: a list, or what a task came to."""
        method, task = self.get(request_id, ("", ""))
        return method == TOOLS_LIST or task != ""

    def may_answer(self, request_id: object) -> bool:
        """Tell whether an answer with this id, to nothing in flight, may be to what we gave up or forgot."""
        return self.forgot or (type(request_id) in (int, str) and request_id in self.late)
