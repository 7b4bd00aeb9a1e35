"""Deadlines of many connections: the next one is known at once, however many there are."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class Timer:
    """One call to come. `cancel` as often as wanted."""

    __slots__ = ("_order", "callback", "when")

    def __init__(self, when: float, order: int, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback
        self._order = order

    def cancel(self) -> None:
        self.callback = None

    def __lt__(self, other: Self) -> bool:
        return (self.when, self._order) < (other.when, other._order)


class Timers:
    """Calls back at a time; nothing runs but in `tick`."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._made = 0

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Have `callback` called by the first `tick` at or after `when`."""
        if len(self._heap) > 64 and self._made % 64 == 0:
            # Cancelled ones are most of them, and would stay for as long as they were to take.
            self._heap = [each for each in self._heap if each.callback is not None]
            heapq.heapify(self._heap)
        self._made += 1
        timer = Timer(when, self._made, callback)
        heapq.heappush(self._heap, timer)
        return timer

    def deadline(self) -> float | None:
        """Return when `tick` is to be called next, None if never."""
        while self._heap and self._heap[0].callback is None:
            heapq.heappop(self._heap)
        return self._heap[0].when if self._heap else None

    def tick(self, now: float) -> None:
        """Call back everything that is due."""
        while self._heap and self._heap[0].when <= now:
            callback = heapq.heappop(self._heap).callback
            if callback is not None:
                callback()


class Alarm:
    """One call to come, or none: set anew, it is another."""

    def __init__(self, timers: Timers, clock: Callable[[], float]) -> None:
        self._timers = timers
        self._clock = clock
        self._timer: Timer | None = None

    def set(self, seconds: float, callback: Callable[[], None]) -> None:
        """Have `callback` called in so many seconds, and not what was to be called before."""
        self.cancel()
        self._timer = self._timers.at(self._clock() + seconds, callback)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
