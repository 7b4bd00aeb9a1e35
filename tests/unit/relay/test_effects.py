"""What is done about each action, and what is not once an earlier one could not be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from mcpwrap.protocol.actions import Forward, Opened
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.relay.effects import Effects
from tests.unit.protocol.playbook import ANY_TOOL, call, line

if TYPE_CHECKING:
    from mcpwrap.protocol.window import Window


class Windows:
    """Stands for the page: the first window of a batch cannot be put in force."""

    def __init__(self) -> None:
        self.open: set[str] = set()

    def open_window(self, window: Window) -> str:
        if window.id == "w1":
            return "the open calls bind too much"
        self.open.add(window.id)
        return ""

    def close_window(self, window: Window, *_: object) -> None:
        self.open.discard(window.id)


class Deaf:
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def test_when_one_window_of_a_batch_is_refused_no_other_of_it_is_left_open() -> None:
    held = Interposer(overlap="auto", terms=ANY_TOOL, lookups=lambda _: (), startup=False)
    windows = Windows()
    forwarded: list[bytes] = []
    effects = Effects(
        held,
        cast("Any", windows),
        cast("Any", Deaf()),
        cast("Any", Deaf()),
        cast("Any", Deaf()),
        forward=forwarded.append,
        reply=lambda _: None,
        end_input=lambda: None,
        failed=lambda *_: None,
    )
    actions = held.from_client(line([call(1), call(2)]), 0.0)
    assert [type(action) for action in actions] == [Opened, Opened, Forward]
    effects.perform(actions, 0.0)
    assert not forwarded
    assert not windows.open
