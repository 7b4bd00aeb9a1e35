"""The directories above bound paths: found from the paths themselves, for each has thousands if an attacker likes."""

from __future__ import annotations

from bisect import bisect_left, insort

from mcpwrap.policy.match import below


class Parents:
    """Every directory above one of the paths added, down from the root that path was added with."""

    def __init__(self) -> None:
        self._bound: dict[str, list[tuple[str, str]]] = {}

    def add(self, path: str, root: str, rule: str) -> None:
        """Add the directories above `path`, granted by `rule`."""
        if path != root:
            insort(self._bound.setdefault(root, []), (path, rule))

    def get(self, directory: str) -> str | None:
        """Return the rule that grants `directory`, None if it is above no path. One search for each root."""
        inside = directory if directory == "/" else directory + "/"
        for root, bound in self._bound.items():
            if below(directory, root):
                # Whatever lies in `directory` sorts together, from the first that is not before it.
                at = bisect_left(bound, (inside, ""))
                if at < len(bound) and bound[at][0].startswith(inside):
                    return bound[at][1]
        return None
