"""What of the private HOME is run, or says what is run, by programs that look there of their own accord.

The private HOME is kept from run to run. What one call could leave there for an interpreter would run in every
later call, and at the next start, which may reach a registry and change what is installed. So it is written
while the server starts, and by no call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.policy import names
from mcpwrap.policy.match import below, fold, upward
from mcpwrap.policy.places import Places

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpwrap.policy.facts import Facts


class Loaded:
    """The places of `names.LOADED_IN_HOME` in the private HOME, and of `LOOKED_FOR_UPWARD` on its way to other ground.

    `above`: all directories above what the server sees of others' ground.
    """

    def __init__(self, facts: Facts, above: Collection[str]) -> None:
        # Asked now, while names lead where the policy means; the broker sees another file system.
        self._kept = facts.kept_homes
        self._homes = {home: [each for each in above if below(each, home)] for home in facts.own_homes}
        self._table: tuple[Places, frozenset[str]] | None = None

    def holds(self, path: str) -> bool:
        """Whether `path` is such a place, or lies in one."""
        return (self._table or self._make_table())[0].match(path) is not None

    def leads(self, path: str) -> bool:
        """Whether such a place is found by way of the name `path`: it must stay the directory it is."""
        return fold(path) in (self._table or self._make_table())[1]

    def is_kept(self, path: str) -> bool:
        """Whether it is the private HOME by the name it is kept under, which nobody has a use for."""
        return any(below(path, home) for home in self._kept)

    def _make_table(self) -> tuple[Places, frozenset[str]]:
        """Make the look-up table, and the directories its places are found by; most servers never write there."""
        places, leading = Places("loaded"), set[str]()
        for home, ways in self._homes.items():
            lists: dict[str, tuple[str, ...]] = {home: (*names.LOADED_IN_HOME, *names.LOOKED_FOR_UPWARD)}
            lists |= {way: names.LOOKED_FOR_UPWARD for way in ways if way != home}
            for directory, listed in lists.items():
                for name in listed:
                    places.add_written(f"{directory}/{name}", name)
                    leading.update(upward(fold(f"{directory}/{name}".rpartition("/")[0])))
        self._table = places, frozenset(leading)
        return self._table
