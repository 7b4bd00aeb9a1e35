"""The one poll loop of a run: descriptors in, callbacks out."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Final

READABLE: Final = select.POLLIN
WRITABLE: Final = select.POLLOUT
BROKEN: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL
"""Reported whether asked for or not."""


class Pumps:
    """Calls back whoever registered a descriptor when it is ready; `poll(2)`, since `epoll(7)` refuses files.

    Callbacks run in order of their `rank`, lowest first, whatever order the kernel reports in.
    """

    def __init__(self) -> None:
        self._poll = select.poll()
        self._callbacks: dict[int, tuple[int, Callable[[int], None]]] = {}
        self._interests: dict[int, int] = {}

    def add(self, fd: int, interest: int, callback: Callable[[int], None], *, rank: int = 0) -> None:
        """Watch `fd`; `interest` of 0 still reports `BROKEN`."""
        self._callbacks[fd] = (rank, callback)
        self._interests[fd] = interest
        self._poll.register(fd, interest)

    def want(self, fd: int, interest: int) -> None:
        """Change what a watched `fd` is watched for; nothing if it is not watched."""
        if self._interests.get(fd, interest) != interest:
            self._interests[fd] = interest
            self._poll.modify(fd, interest)

    def drop(self, fd: int) -> None:
        """Watch `fd` no longer; call before it is closed."""
        if self._callbacks.pop(fd, None) is not None:
            del self._interests[fd]
            self._poll.unregister(fd)

    def turn(self, seconds: float | None) -> None:
        """Wait for at most `seconds` (None: for ever) and call back what became ready."""
        # Rounded up: waking a moment early would make a busy loop of the last millisecond.
        milliseconds = None if seconds is None else max(0, int(seconds * 1000 + 0.999))
        ready = self._poll.poll(milliseconds)
        if len(ready) > 1:
            ready.sort(key=self._rank)
        for fd, events in ready:
            found = self._callbacks.get(fd)
            if found is not None:
                found[1](events)

    def _rank(self, item: tuple[int, int]) -> int:
        found = self._callbacks.get(item[0])
        return found[0] if found is not None else 0
