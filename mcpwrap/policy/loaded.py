"""What of the private HOME is run, or says what is run, by programs that look there of their own accord.

The private HOME is kept from run to run. What one call could leave there for an interpreter would run in every
later call, and at the next start, which may reach a registry and change what is installed. So it is written
while the server starts, and by no call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.policy import names
from mcpwrap.policy.match import fold, upward
from mcpwrap.policy.places import Places

if TYPE_CHECKING:
    from mcpwrap.policy.facts import Facts


class Loaded:
    """The places of `names.LOADED_IN_HOME` below every name of the private HOME."""

    def __init__(self, facts: Facts) -> None:
        self._places = Places("loaded")
        self._above: set[str] = set()
        for home in facts.private_homes:
            for name in names.LOADED_IN_HOME:
                self._places.add_written(f"{home}/{name}", name)
                self._above.update(upward(fold(f"{home}/{name}".rpartition("/")[0])))

    def holds(self, path: str) -> bool:
        """Whether `path` is such a place, or lies in one."""
        return self._places.match(path) is not None

    def leads(self, path: str) -> bool:
        """Whether such a place is found by way of the name `path`: it must stay the directory it is."""
        return fold(path) in self._above
