"""The open call windows: their grants on the page, their events in the audit, their refusals told."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Decision, Denial, Event, Need, Operation
from mcpwrap.policy.active import Active, ActiveWindow, Area, Bound
from mcpwrap.policy.reasons import denial, is_about, is_granted, is_told, unbound_denial
from mcpwrap.relay.hostview import named_object, resolve, strings

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.effective import Effective
    from mcpwrap.policy.page import PageWriter
    from mcpwrap.protocol.window import Window
    from mcpwrap.relay.journal import Journal

TOOLS_CALL: Final = "tools/call"
_AREAS: Final[dict[str, Area]] = {"resources": "resources", "prompts": "prompts"}
_NOBODYS: Final = frozenset({"no-grant", "not-in-view"})
"""Rules that say nobody granted it."""
REFUSED_REMEMBERED: Final = 256
"""Refused objects of one call that its arguments need not be looked up for again: more than it can name."""


class OpenCalls:
    """Everything the kernel side needs to know of calls, and everything it tells of them.

    `tell(window_ids, denial)` is called for each refusal that belongs on an answer, `say(denial)` for
    each that the user should see, `keep(denial)` for what may explain why the server does not start.
    """

    def __init__(
        self,
        policy: Policy,
        page: PageWriter,
        journal: Journal,
        *,
        tell: Callable[[tuple[str, ...], Denial], None],
        say: Callable[[Denial], None],
        keep: Callable[[Denial], None],
        home: str = "",
        cwd: str = "/",
    ) -> None:
        self._policy = policy
        self._page = page
        self._journal = journal
        self._tell = tell
        self._say = say
        self._keep = keep
        self._home = home
        self._cwd = cwd
        self._generation = 0
        self._startup = True
        self._windows: dict[str, Window] = {}
        self._active: dict[str, ActiveWindow] = {}
        self._bound: dict[str, Bound] = {}
        self._refused: dict[str, set[str]] = {}
        self._withdrawn: set[str] = set()
        self._in_force: Effective | None = None
        self.published: Callable[[], None] | None = None
        """Called after each publication, when `effective` is another already."""

    @property
    def open(self) -> int:
        """How many windows are open."""
        return len(self._windows)

    def open_window(self, window: Window) -> str:
        """Put the call's grant in force. Return why it cannot be, or "": then nothing has changed."""
        tool = window.tool if window.method == TOOLS_CALL else ""
        area = _AREAS.get(window.area, "tools")
        bound = self._policy.bind(tool, window.arguments, resolve, area)
        self._journal.opened(window, bound)
        try:
            self._journal.flush()
        except OSError as error:
            return f"its audit record cannot be written: {error.strerror}"
        self._windows[window.id] = window
        self._active[window.id] = ActiveWindow(window.id, tool, bound.paths, bound.hosts, area)
        self._bound[window.id] = bound
        self._refused[window.id] = set()
        try:
            self._publish()
        except ValueError as error:
            self._forget(window.id)
            return str(error)
        return ""

    def withdraw_window(self, window: Window) -> None:
        """Withdraw the call's grant although it goes on. What it is refused from now on is still told on its answer."""
        if window.id in self._windows:
            # A window of no tool has the grant of `[server]` only, and still stamps what happens in it.
            self._active[window.id] = ActiveWindow(window.id, "")
            self._bound[window.id] = Bound()
            self._withdrawn.add(window.id)
            self._publish()
        self._journal.withdrawn(window)

    def close_window(self, window: Window, how: str, denials: tuple[Denial, ...], now: float) -> None:
        """Withdraw the call's grant, and write down how it went. Raises `OSError`: the disk is full."""
        if window.id in self._windows:
            self._forget(window.id)
            self._publish()
        self._journal.closed(window, how, denials, now - window.opened)
        self._journal.flush()

    def end_startup(self) -> None:
        """Withdraw the grant of `[startup]` for good."""
        if self._startup:
            self._startup = False
            self._publish()

    def event(self, event: Event) -> None:
        """Take one operation from the broker: write it down, and tell its refusal."""
        open_ids = tuple(id for id in event.windows if id in self._windows)
        if open_ids and self._withdrawn.issuperset(open_ids):
            event = event._replace(decision=_had_its_time(event.decision))
        self._journal.operation(event, late=len(open_ids) < len(event.windows))
        if event.decision.allowed:
            return
        if event.decision.quiet:
            if self._startup and not open_ids and os.path.lexists(event.operation.object):
                # Nothing to bother anybody with, unless the server dies of it.
                self._keep(denial(event, self._policy, (), startup=True))
            return
        tools = tuple(dict.fromkeys(filter(None, map(self._tool, open_ids))))
        bound, arguments = Bound(), tuple[str, ...]()
        if len(open_ids) == 1:
            bound, arguments = self._bound[open_ids[0]], tuple(self._windows[open_ids[0]].arguments)
        areas = {self._active[id].area for id in open_ids}
        refused = denial(
            event,
            self._policy,
            tools,
            startup=self._startup,
            bound=bound,
            arguments=arguments,
            area=areas.pop() if len(areas) == 1 else "tools",
        )
        if open_ids:
            for id in open_ids:
                if len(self._refused[id]) < REFUSED_REMEMBERED:
                    self._refused[id].add(event.operation.object)
            self._tell(open_ids, refused)
        self._say(refused)

    def lookups(self, window: Window) -> list[Denial]:
        """Return what an error answer may be about although nothing was trapped.

        A server that only stats or reads a link of what is not in its view gets a plain "no such
        file": each string of the arguments that names an existing object this call may not reach, and
        each value that bound nothing, is a denial `lookup`, unless it was refused already.
        """
        bound = self._bound.get(window.id)
        if bound is None:
            return []
        tool = self._tool(window.id)
        refused = self._refused[window.id]
        values = {(each.argument, each.value): each for each in reversed(bound.unbound) if is_told(each)}
        effective = self.effective()
        found = [
            unbound_denial(each, self._policy, tool)
            for each in reversed(values.values())
            # Of what was refused by the kernel the model has read already, and of what it lies in.
            if not any(is_about(each, path) for path in refused) and not is_granted(each, effective)
        ]
        told = {each.path for each in bound.unbound} | refused
        for text in strings(window.arguments):
            path = named_object(text, self._home, self._cwd)
            if not path or path in told:
                continue
            told.add(path)
            decision = self._unreachable(path, effective)
            if decision is not None:
                if window.id in self._withdrawn:
                    decision = _had_its_time(decision)
                operation = Operation("lookup", Need.READ, path, text if text != path else "")
                found.append(
                    denial(
                        Event(operation, decision, (window.id,)),
                        self._policy,
                        (tool,) if tool else (),
                        bound=bound,
                        arguments=tuple(window.arguments),
                    )
                )
        for each in found:
            self._say(each)
        return found

    def reads(self, path: str) -> bool:
        """Tell whether the server may read the host's `path` now."""
        return self._unreachable(resolve(path).real, self.effective()) is None

    def _unreachable(self, path: str, effective: Effective) -> Decision | None:
        """Return the refusal of reading the host's object at the real `path`; None if it is reached."""
        try:
            found = os.lstat(path)
        except OSError:
            return None
        decision = effective.decide(
            Need.READ,
            path,
            identity=(found.st_dev, found.st_ino),
            regular=stat.S_ISREG(found.st_mode),
            host=True,
        )
        return None if decision.allowed else decision

    def effective(self) -> Effective:
        """Return what is in force now; the same object until it is another."""
        if self._in_force is None:
            self._in_force = self._policy.effective(self._current())
        return self._in_force

    def _current(self) -> Active:
        return Active(self._generation, self._startup, tuple(self._active.values()))

    def _publish(self) -> None:
        self._generation += 1
        self._page.publish(self._current())
        self._in_force = None
        if self.published is not None:
            self.published()

    def _tool(self, id: str) -> str:
        """Return the tool an open window is a call of, or ""."""
        window = self._windows[id]
        return window.tool if window.method == TOOLS_CALL else ""

    def _forget(self, id: str) -> None:
        self._withdrawn.discard(id)
        del self._windows[id]
        del self._active[id]
        del self._bound[id]
        del self._refused[id]


def _had_its_time(decision: Decision) -> Decision:
    """Return a refusal that the call's own grant might not have been, had it not been withdrawn."""
    return decision if decision.rule not in _NOBODYS else decision._replace(rule="window-limit")
