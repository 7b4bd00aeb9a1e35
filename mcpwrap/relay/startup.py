"""When the server's start-up is over: after its first answer it opened and executed nothing for a while.

Where package launchers fill `$CACHE` and run what they put there, it is over only once that has become
read-only: no call may be in flight while something can be both written and executed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.limits import STARTUP_LIMIT_SECONDS, STARTUP_MOVING_LIMIT_SECONDS, STARTUP_QUIET_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECONDS: Final = 0.05
"""How often the counter is looked at; the quiet is at most this much longer than it had to be."""

BUSY: Final = "EBUSY"
"""What the kernel says of a mount that has a writer; it may have none the next time."""


class StartupWatch:
    """Watches the broker's activity counter. `activity`: the 8 bytes it counts in, native order.

    `freeze` asks for a read-only `$CACHE`, None where there is nothing to freeze; the answer is given to
    `froze`. `failed` says why start-up can never end, if so.
    """

    def __init__(self, activity: memoryview, freeze: Callable[[], None] | None = None) -> None:
        self._activity = activity.cast("B").cast("Q")
        self._freeze = freeze
        self._armed: float | None = None
        self._asked = False
        self._seen = 0
        self._since = 0.0
        self.over = False
        self.failed = ""
        self.moving: Callable[[], bool] | None = None
        """Whether connections of start-up alone move: that is no quiet."""

    def arm(self, now: float) -> None:
        """The server gave its first successful answer."""
        if self._armed is None and not self.over:
            self._armed = self._since = now
            self._seen = self._activity[0]

    def deadline(self, now: float) -> float | None:
        """Return when to look again, None if there is nothing to wait for."""
        if self._armed is None or self.over:
            return None
        return (
            now + LOOK_SECONDS
            if self._asked
            else min(self._since + STARTUP_QUIET_SECONDS, now + LOOK_SECONDS)
        )

    def ended(self, now: float) -> bool:
        """Look; return True once, when start-up has ended."""
        if self._armed is None or self.over:
            return False
        seen = self._activity[0]
        moving = self.moving is not None and self.moving()
        if seen != self._seen or moving:
            self._seen = seen
            self._since = now
        quiet = now >= self._since + STARTUP_QUIET_SECONDS
        limit = STARTUP_MOVING_LIMIT_SECONDS if moving else STARTUP_LIMIT_SECONDS
        if not (quiet or now >= self._armed + limit):
            return False
        if self._freeze is None:
            self.over = True
        elif not self._asked:
            self._asked = True
            self._freeze()
        return self.over

    def froze(self, error: str, now: float) -> None:
        """Take the answer to a request: "", or the name of the errno it failed with."""
        if not self._asked or self._armed is None:
            return
        self._asked = False
        if not error:
            self._freeze = None  # The next look ends start-up.
        elif error != BUSY or now >= self._armed + STARTUP_LIMIT_SECONDS:
            self.failed = (
                "start-up cannot end: a process of the server keeps a file in its $CACHE open for writing, "
                "where programs are executed from; let it write elsewhere ([server.set], $STATE)"
                if error == BUSY
                else f"start-up cannot end: the server's $CACHE cannot be made read-only ({error})"
            )
        else:
            self._since = now - STARTUP_QUIET_SECONDS + LOOK_SECONDS
