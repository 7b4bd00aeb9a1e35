"""When the server's start-up is over: after its first answer it opened and executed nothing for a while."""

from __future__ import annotations

from typing import Final

from mcpwrap.limits import STARTUP_LIMIT_SECONDS, STARTUP_QUIET_SECONDS

LOOK_SECONDS: Final = 0.05
"""How often the counter is looked at; the quiet is at most this much longer than it had to be."""


class StartupWatch:
    """Watches the broker's activity counter. `activity`: the 8 bytes it counts in, native order."""

    def __init__(self, activity: memoryview) -> None:
        self._activity = activity.cast("B").cast("Q")
        self._armed: float | None = None
        self._seen = 0
        self._since = 0.0
        self.over = False

    def arm(self, now: float) -> None:
        """The server gave its first successful answer."""
        if self._armed is None and not self.over:
            self._armed = self._since = now
            self._seen = self._activity[0]

    def deadline(self, now: float) -> float | None:
        """Return when to look again, None if there is nothing to wait for."""
        if self._armed is None or self.over:
            return None
        return min(self._since + STARTUP_QUIET_SECONDS, now + LOOK_SECONDS)

    def ended(self, now: float) -> bool:
        """Look; return True once, when start-up has ended."""
        if self._armed is None or self.over:
            return False
        seen = self._activity[0]
        if seen != self._seen:
            self._seen = seen
            self._since = now
        quiet = now >= self._since + STARTUP_QUIET_SECONDS
        self.over = quiet or now >= self._armed + STARTUP_LIMIT_SECONDS
        return self.over
