"""What the user is told of refusals, on stderr: each once with the lines to paste, all if the server dies early."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.offer import added_before, additions, first_file, indented, merged
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

_BY_HAND: Final = {
    "writable": "docs/grants.md says what `any-writable` would give up; no line is offered for it"
}
"""What lifts a refusal that no pasted line should undo, by its rule."""


class Refusals:
    """Tells each different refusal once. `path`: the grant file, or where one would be.

    `keeps`: the TOML of what is in force without a grant file, which goes when there is one.
    """

    def __init__(self, output: ErrorOutput, path: str, *, exists: bool, keeps: str = "") -> None:
        self._output = output
        self._path = path
        self._told: set[tuple[str, ...]] = set()
        self._offers: list[tuple[str, str]] = []
        self._shown: list[str] = []
        self._unanswerable: list[Denial] = []
        self._stamp = _stamp(path) if exists else None
        self._exists = exists
        self._keeps = keeps

    def say(self, denial: Denial) -> None:
        """Tell of one refusal, unless the same was told before."""
        self._changed()
        key = (denial.act, denial.object, denial.rule, denial.brief, *denial.tools)
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
            self._offers.append((denial.offer, denial.place))

    def early_death(
        self,
        command: str,
        home: str,
        named: Iterable[str],
        readable: Callable[[str], bool],
        place: str = "",
    ) -> str:
        """Return what to say of a server that ended before its first answer, as text with TOML to paste.

        `named`: the paths its command line names; `readable` tells which of them it may read;
        `place` is where what `[startup]` may read is in the grant file.
        """
        lines = [f"{command} ended before it answered anything"]
        tail = self._output.tail.lines()[-QUOTED_LINES:]
        if tail:
            lines += ["the last it said on stderr:", *(f"  | {line}" for line in tail)]
        ungranted = [path for path in named if not readable(path)]
        lines += [f"its command names {printable(path)}, which it may not read" for path in ungranted]
        lines += [f"it was refused: {what(denial)}" for denial in self._unanswerable]
        missing = {"fs_read": [text for path in ungranted if (text := path_text(path, home)) is not None]}
        # Not for good: what holds in every call would make the narrower lines of each tool mean nothing.
        offers = [(rules_text({("startup",): missing}), place), *self._offers]
        added = additions(offers)
        path = printable(self._path)
        if added and not self._exists:
            lines.append(f"if it needs what it was refused, write {path}:")
            lines += indented(first_file(self._keeps, (offer for offer, _ in offers)))
        for there, text in added if self._exists else ():
            into = f"{printable(there)} of {path}" if there else path
            lines += [f"if it needs what it was refused, add to {into}:", *indented(text)]
        if added:
            lines.append(f"and {RESTART}")
        return "\n".join(lines)

    def _remedy(self, denial: Denial) -> str:
        """Return what to add where, and nothing of what was told before: who pastes a line for one refusal must not
        grant another with it, which somebody may have provoked."""
        if denial.rule in _BY_HAND:
            return f"; {_BY_HAND[denial.rule]}"
        if not denial.offer:
            return ""
        path, before = printable(self._path), merged(self._shown)
        if before and merged([before, denial.offer]) == before:
            return "; what is to be added for one before allows it, too"
        if not self._exists and not self._shown:
            self._shown += [self._keeps, denial.offer]
            how = f"write {path}, the first grant of this server"
            text = first_file(self._keeps, [denial.offer])
        else:
            place = denial.place or added_before(self._shown, denial.offer)
            self._shown.append(denial.offer)
            how = f"add to {f'{printable(place)} of ' if place else ''}{path}"
            text = dict(additions([(denial.offer, place)])).get(place, "")
        return "\n".join([f"; to allow it {how}:", *indented(text), f"and {RESTART}"])

    def _changed(self) -> None:
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            self._output.say(f"{printable(self._path)} has changed since this server started: {RESTART}")


def what(denial: Denial) -> str:
    """Return the refusal in a few words; all names in it are escaped already."""
    count = f" ({denial.times} times)" if denial.times > 1 else ""
    tools = ", ".join(map(printable, denial.tools))
    said = denial.brief or f'{denial.act} "{denial.object}" (rule {denial.rule})'
    return f"{tools + ': ' if tools else ''}{said}{count}"


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
