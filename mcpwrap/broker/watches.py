"""Descriptors the broker's loop watches besides the listener, each with what is to be done when it is ready."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

READABLE = select.POLLIN
WRITABLE = select.POLLOUT

TICK_SECONDS: Final = 0.25
"""How often it is looked at what has taken too long."""


class Watches:
    """The callbacks by descriptor; `poll` is the loop's own."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._ticks: list[Callable[[float], None]] = []
        self._next_tick = 0.0

    def add(self, fd: int, interest: int, callback: Callable[[int], None]) -> None:
        """Watch `fd`, or watch it for something else; `callback` is given what poll(2) says of it."""
        self._callbacks[fd] = callback
        self._poll.register(fd, interest)

    def drop(self, fd: int) -> None:
        """Watch `fd` no longer; call before it is closed."""
        if self._callbacks.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def add_tick(self, callback: Callable[[float], None]) -> None:
        """Have `callback` called every `TICK_SECONDS`, with the seconds of time.monotonic."""
        self._ticks.append(callback)

    def tick(self) -> None:
        """Do what is to be done from time to time; call it often."""
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + TICK_SECONDS
            for callback in self._ticks:
                callback(now)

    def call(self, fd: int, state: int) -> None:
        """Do what is to be done now that `fd` is ready; nothing if it was dropped meanwhile."""
        callback = self._callbacks.get(fd)
        if callback is not None:
            callback(state)
