"""What the server has said of its tools in this run, and which of them no longer are what they were.

The first description of a tool is the one it is held to, by its digest; a pin comes before it. A tool that was
ever described otherwise is held to the end of the run: the model never reads the new description, and no
call of it is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpwrap.limits import MAX_DEPTH, TOOLS_LISTED
from mcpwrap.protocol import splice
from mcpwrap.protocol.bounded import is_short
from mcpwrap.protocol.canonical import FIELDS, Described, described
from mcpwrap.protocol.jsonrpc import Names, deeper_than, dump, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LISTED: Final = Names("tools", "nextCursor")
ENTRY: Final = Names(*FIELDS, "_meta", "icons", "execution")

CHANGED: Final = "held by mcpwrap: changed"
UNCOUNTED: Final = "held by mcpwrap: the server lists more tools than are kept in mind"
_EMPTY_SCHEMA: Final = '{"type":"object"}'


class Held(NamedTuple):
    """A tool that is not what it was: two digests, and the fields that differ (of a pin they are not known)."""

    was: str
    now: str
    fields: tuple[str, ...]
    pinned: bool

    @property
    def why(self) -> str:
        """What is told of it; all of it is mcpwrap's own text."""
        if self.pinned:
            return f"what the server lists is not what is pinned: pinned is {self.was}, listed is {self.now}"
        what = " and ".join(self.fields)
        return f"its {what} changed since it was first listed: {self.was} then, {self.now} later"


class Page(NamedTuple):
    """What one answer to `tools/list` brought: tools `new` in this run, those newly `held`, and all `marked` entries.

    `marked`: the index of each entry that must not be shown as it is, with the description put there instead.
    """

    new: dict[str, str]
    held: dict[str, Held]
    marked: dict[int, str]


class Manifest:
    """The tools of one server. `pin_of(tool)` returns the digest it must have, or None."""

    def __init__(self, pin_of: Callable[[str], str | None]) -> None:
        self.held: dict[str, Held] = {}
        self._pin_of = pin_of
        self._tools: dict[str, Described] = {}

    def __contains__(self, tool: str) -> bool:
        return tool in self._tools

    def take(self, entries: Sequence[dict[str, Any]]) -> Page:
        """Take the entries of one page, `doubt` about which was nothing."""
        page = Page({}, {}, {})
        for index, entry in enumerate(entries):
            name = entry["name"]
            now = described(entry)
            first = self._tools.get(name)
            if first is None:
                if len(self._tools) >= TOOLS_LISTED or not is_short(name):
                    page.marked[index] = UNCOUNTED
                    continue
                first = self._tools[name] = now
                page.new[name] = now.digest
            if name not in self.held and (held := self._judged(name, first, now)) is not None:
                page.held[name] = self.held[name] = held
        for index, entry in enumerate(entries):
            if entry["name"] in self.held:
                page.marked[index] = CHANGED
        return page

    def _judged(self, name: str, first: Described, now: Described) -> Held | None:
        pin = self._pin_of(name)
        if pin is not None and pin != now.digest:
            return Held(pin, now.digest, (), pinned=True)
        if first.digest != now.digest:
            return Held(first.digest, now.digest, first.changed(now), pinned=False)
        return None


def doubt(result: object) -> str:
    """Return why some client may read this result of `tools/list` otherwise than it is read here, or ""."""
    if type(result) is not dict:
        return "it is no object"
    entries = result.get("tools")
    if LISTED.doubtful(result):
        return "its members are named in a way that clients read differently"
    if type(entries) is not list:
        return "its tools are no array"
    if deeper_than(MAX_DEPTH, entries):
        return f"it nests deeper than {MAX_DEPTH} levels"
    for entry in entries:
        name = entry.get("name") if type(entry) is dict else None
        if type(name) is not str or not whole(name) or "\0" in name:
            return "a tool in it has no name"
        if ENTRY.doubtful(entry):
            return "the members of a tool are named in a way that clients read differently"
    return ""


def marked(text: str, marks: dict[int, str]) -> str:
    """Return the message `text` with each of these entries of `result.tools` cut down to its name and a mark."""
    spans = splice.elements(text, splice.at_path(text, ("result", "tools")))
    edits = []
    for index, mark in marks.items():
        name = splice.members(text, spans[index])["name"].of(text)
        stand_in = f'{{"name":{name},"description":{dump(mark)},"inputSchema":{_EMPTY_SCHEMA}}}'
        edits.append(splice.Edit(spans[index], stand_in))
    return splice.apply(text, edits)
