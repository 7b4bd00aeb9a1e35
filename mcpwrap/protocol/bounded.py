"""Memory that peers cannot fill."""

from __future__ import annotations

from typing import TypeVar

from mcpwrap.limits import REMEMBERED

K = TypeVar("K")
V = TypeVar("V")


class Remembered(dict[K, V]):
    """A dict that forgets its oldest entry when it would hold more than `REMEMBERED`."""

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        if len(self) >= REMEMBERED:
            del self[next(iter(self))]
        super().__setitem__(key, value)
