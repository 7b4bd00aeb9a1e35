"""What the page says of a call's grant, and what is told of a refusal, while a call has one and after its time."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mcpwrap.operation import Decision, Denial, Event, Need, Operation
from mcpwrap.policy.active import Active
from mcpwrap.policy.args import check
from mcpwrap.policy.compile import Policy
from mcpwrap.protocol.terms import Objection
from mcpwrap.protocol.window import Call, Window
from mcpwrap.relay.calls import OpenCalls
from mcpwrap.relay.terms import terms
from tests.unit.policy.machine import Machine

GRANT = """
[policy]
window_limit = "90s"
on_denial = "error"
unknown_tools = "allow"
[resources]
fs_read = ["/srv/a"]
[tools.read]
fs_read = ["/srv/b"]
pin = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
args.path = { required = true }
[tools."*"]
fs_read = ["/srv/c"]
"""


def compiled(grant: str) -> Policy:
    return Machine("/srv/a /srv/b /srv/c").policy("schema = 1\n" + grant)


class Page:
    def __init__(self) -> None:
        self.active: list[Active] = []

    def publish(self, active: Active) -> None:
        self.active.append(active)


class Journal:
    def __init__(self) -> None:
        self.lines: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **_: self.lines.append((name, args[0] if args else None))


class Told:
    """OpenCalls with a page and a journal that remember."""

    def __init__(self) -> None:
        self.page, self.journal = Page(), Journal()
        self.told: list[tuple[tuple[str, ...], Denial]] = []
        self.calls = OpenCalls(
            compiled(GRANT),
            cast("Any", self.page),
            cast("Any", self.journal),
            tell=lambda ids, denial: self.told.append((ids, denial)),
            say=lambda _: None,
            keep=lambda _: None,
        )

    def refused(self, *windows: str, rule: str = "no-grant") -> Denial:
        self.calls.event(
            Event(Operation("read", Need.READ, "/srv/b"), Decision(False, rule), tuple(windows), 13)
        )
        return self.told[-1][1]


def window(id: str = "w1", tool: str = "read", method: str = "tools/call", area: str = "tools") -> Window:
    return Window(id, tool, {"path": "a"}, 1, 0.0, method=method, area=area)


def test_a_withdrawn_call_is_on_the_page_without_its_grant_and_still_hears_what_it_was_refused() -> None:
    run = Told()
    run.calls.open_window(window())
    assert run.page.active[-1].windows[0].tool == "read"
    run.calls.withdraw_window(window())
    (left,) = run.page.active[-1].windows
    assert (left.id, left.tool, left.bound, left.hosts, left.area) == ("w1", "", (), (), "tools")
    assert ("withdrawn", window()) in run.journal.lines
    denial = run.refused("w1")
    assert run.told[-1][0] == ("w1",)
    assert (denial.rule, denial.tools, denial.offer) == ("window-limit", ("read",), "")
    assert "longer than `window_limit` allows" in denial.sentence
    run.calls.close_window(window(), "answered", (), 100.0)
    assert run.page.active[-1].windows == ()


def test_what_would_be_refused_anyhow_keeps_its_own_reason() -> None:
    run = Told()
    run.calls.open_window(window())
    run.calls.withdraw_window(window())
    assert run.refused("w1", rule="private:.ssh").rule == "private:.ssh"


def test_an_event_of_several_calls_is_not_blamed_on_the_limit_of_one() -> None:
    run = Told()
    run.calls.open_window(window())
    run.calls.open_window(window("w2"))
    run.calls.withdraw_window(window())
    assert run.refused("w1", "w2").rule == "no-grant"


def test_a_window_that_could_not_be_put_in_force_is_withdrawn_without_a_page() -> None:
    run = Told()
    run.calls.withdraw_window(window("w9"))
    assert not run.page.active


@pytest.mark.parametrize(
    ("method", "area", "reads"),
    [
        ("resources/read", "resources", "/srv/a"),
        ("completion/complete", "resources", "/srv/a"),
        ("completion/complete", "", None),
        ("prompts/get", "prompts", None),
    ],
)
def test_other_methods_have_the_tables_of_their_area(method: str, area: str, reads: str | None) -> None:
    run = Told()
    run.calls.open_window(window(tool=method, method=method, area=area))
    effective = compiled(GRANT).effective(run.page.active[-1])
    allowed = [path for path in ("/srv/a", "/srv/b", "/srv/c") if effective.decide(Need.READ, path).allowed]
    assert allowed == ([reads] if reads else [])


def test_the_terms_are_those_of_the_grant() -> None:
    asked = terms(compiled(GRANT))
    assert (asked.unknown, asked.on_denial, asked.window_limit) == ("allow", "error", 90.0)
    assert asked.pin_of("read") == "sha256:" + "0123456789abcdef" * 4
    assert asked.pin_of("write") is None
    assert asked.names("read")
    assert not asked.names("write")
    assert asked.listed == {"resources"}
    assert terms(compiled("[prompts]\nfs_read = ['/srv/a']\n")).listed == {"prompts"}
    assert not terms(compiled("[tools.read]\nfs_read = ['/srv/a']\n")).listed


def test_arguments_are_judged_by_the_conditions_of_their_tool() -> None:
    policy = compiled(GRANT)
    asked = terms(policy)
    refusal = check(policy.args_of("read"), {})
    assert refusal is not None
    assert asked.permit(Call("tools/call", 1, "read", {})) == Objection(refusal.rule, refusal.why)
    assert asked.permit(Call("tools/call", 1, "read", {"path": "a"})) is None
    assert asked.permit(Call("tools/call", 1, "write", {})) is None
    assert asked.permit(Call("prompts/get", 1, "read", {}, "prompts")) is None


def test_without_a_condition_nothing_is_judged() -> None:
    assert (
        terms(compiled("[tools.read]\nfs_read = ['/srv/a']\n")).permit(Call("tools/call", 1, "read", {}))
        is None
    )
