"""The network of a run as the relay sees it; there is one only if the grant has a rule for it."""

from __future__ import annotations

from typing import Protocol


class WayOut(Protocol):
    """Works from callbacks of the relay's pumps, and from here."""

    @property
    def moving(self) -> bool:
        """Whether connections of start-up alone are being made or move bytes."""

    def hear(self) -> None:
        """Take in what the broker has handed over by now."""

    def deadline(self) -> float | None:
        """Return when `tick` is to be called, None if nothing waits for a time."""

    def tick(self, now: float) -> None:
        """Do what is due."""
