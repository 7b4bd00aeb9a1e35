"""Descriptors the broker's loop watches besides the listener, each with what is to be done when it is ready."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

READABLE = select.POLLIN
WRITABLE = select.POLLOUT


class Watches:
    """The callbacks by descriptor; `poll` is the loop's own."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._callbacks: dict[int, Callable[[int], None]] = {}

    def add(self, fd: int, interest: int, callback: Callable[[int], None]) -> None:
        """Watch `fd`, or watch it for something else; `callback` is given what poll(2) says of it."""
        self._callbacks[fd] = callback
        self._poll.register(fd, interest)

    def drop(self, fd: int) -> None:
        """Watch `fd` no longer; call before it is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def call(self, fd: int, state: int) -> None:
        """Do what is to be done now that `fd` is ready; nothing if it was dropped meanwhile."""
        callback = self._callbacks.get(fd)
        if callback is not None:
            callback(state)
