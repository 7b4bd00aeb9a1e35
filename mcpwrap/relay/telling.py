"""What the user is told of refusals, on stderr: one line each, and all of it if the server dies early."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.render import path_text, printable, rules_text

if TYPE_CHECKING:
    from mcpwrap.operation import Denial
    from mcpwrap.relay.stderr import ErrorOutput

TOLD_LINES: Final = 100
"""Different refusals that get a line of their own in one run; all of them are in the audit."""
EARLY_REFUSALS: Final = 100
"""Refusals before the first answer that are kept to be told if the server dies."""
QUOTED_LINES: Final = 8
"""Lines of the server's stderr quoted then."""

RESTART: Final = "restart the server in your client"


class Refusals:
    """Tells each different refusal once. `path`: the grant file, or where one would be."""

    def __init__(self, output: ErrorOutput, path: str, *, exists: bool) -> None:
        self._output = output
        self._path = path
        self._told: set[tuple[str, ...]] = set()
        self._offers: list[str] = []
        self._unanswerable: list[Denial] = []
        self._stamp = _stamp(path) if exists else None
        self._exists = exists

    def say(self, denial: Denial) -> None:
        """Tell of one refusal, unless the same was told before."""
        self._changed()
        key = (denial.act, denial.object, denial.rule, *denial.tools)
        if key in self._told or len(self._told) > TOLD_LINES:
            return
        self._told.add(key)
        if len(self._told) > TOLD_LINES:
            self._output.say("more was refused: `mcpwrap audit` prints all of it")
            return
        if not denial.offer and len(self._unanswerable) < EARLY_REFUSALS:
            self._unanswerable.append(denial)
        self.keep(denial)
        self._output.say(f"refused: {what(denial)}{self._remedy(denial)}")

    def keep(self, denial: Denial) -> None:
        """Remember what would allow it, in case the server dies early."""
        if denial.offer and len(self._offers) < EARLY_REFUSALS:
            self._offers.append(denial.offer)

    def early_death(
        self,
        command: str,
        home: str,
        named: Iterable[str],
        readable: Callable[[str], bool],
        default: Mapping[str, Sequence[str]],
    ) -> str:
        """Return what to say of a server that ended before its first answer, as text with TOML to paste.

        `named`: the paths its command line names; `readable` tells which of them it may read. `default`:
        the nouns of `[server]` that were in force without a grant file, and go when there is one.
        """
        lines = [f"{command} ended before it answered anything"]
        tail = self._output.tail.lines()[-QUOTED_LINES:]
        if tail:
            lines += ["the last it said on stderr:", *(f"  | {line}" for line in tail)]
        ungranted = [path for path in named if not readable(path)]
        lines += [f"its command names {printable(path)}, which it may not read" for path in ungranted]
        lines += [f"it was refused: {what(denial)}" for denial in self._unanswerable]
        missing = {"fs_read": [text for path in ungranted if (text := path_text(path, home)) is not None]}
        tables = merged([rules_text({("server",): missing}), *self._offers])
        if tables and self._exists:
            lines += [
                f"if it needs what it was refused, add this to {printable(self._path)}, to the tables that"
            ]
            lines += [
                "are there already where there are such:",
                "",
                *tables.splitlines(),
                "",
                f"and {RESTART}",
            ]
        elif tables:
            tables = merged([rules_text({("server",): default}), tables])
            lines += [f"if it needs what it was refused, put this into {printable(self._path)}:", ""]
            lines += ["schema = 1", "", *tables.splitlines(), "", f"and {RESTART}"]
        return "\n".join(lines)

    def _remedy(self, denial: Denial) -> str:
        if not denial.offer:
            return ""
        return (
            f"; to allow it put  {' '.join(denial.offer.split())}  into {printable(self._path)} and {RESTART}"
        )

    def _changed(self) -> None:
        if not self._exists:
            return
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._output.say(f"{printable(self._path)} has changed since this server started: {RESTART}")


def what(denial: Denial) -> str:
    """Return the refusal in a few words; all names in it are escaped already."""
    count = f" ({denial.times} times)" if denial.times > 1 else ""
    tools = ", ".join(map(printable, denial.tools))
    return f'{tools + ": " if tools else ""}{denial.act} "{denial.object}" (rule {denial.rule}){count}'


def merged(offers: Iterable[str]) -> str:
    """Return the TOML of all `offers` as one: each table once, each line once."""
    tables: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for offer in offers:
        for table, content in tomllib.loads(offer).items():
            parts = (
                {(table, name): inner for name, inner in content.items()}
                if table == "tools"
                else {(table,): content}
            )
            for key, nouns in parts.items():
                for noun, texts in nouns.items():
                    known = tables.setdefault(key, {}).setdefault(noun, [])
                    known += [text for text in texts if text not in known]
    return rules_text(tables)


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
