"""What the probe's findings mean, and how they are printed."""

from __future__ import annotations

import pytest

from mcpwrap.cli.doctor import render
from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.probe import Protection, Report, _tier


def _report(*missing: str) -> Report:
    names = ("namespaces", "view", "landlock", "system calls", "per call", "memory")
    protections = tuple(
        Protection(name, "holds", "unavailable", f"no {name}", "do this\nor that")
        if name in missing
        else Protection(name, "holds", "active")
        for name in names
    )
    return Report(*_tier(protections), "6.1", "x86_64", protections)


@pytest.mark.parametrize(
    ("missing", "tier", "line"),
    [
        ((), "B", "tier B:"),
        (("namespaces", "view"), "", "tier C "),
        (("view",), "", "tier C "),
        (("namespaces", "view", "landlock"), "", "tier D:"),
        (("per call",), "", "tier B- "),
        (("system calls",), "", "this machine lacks"),
    ],
)
def test_the_tier_follows_from_what_is_missing(missing: tuple[str, ...], tier: str, line: str) -> None:
    found = _report(*missing)
    assert found.tier == tier
    assert found.line.startswith(line)


def test_a_tier_that_is_not_there_is_refused_with_reason_and_way_out() -> None:
    with pytest.raises(CannotConfine, match="no view") as refused:
        _report("view").require()
    assert refused.value.way_out == "do this\nor that"
    with pytest.raises(CannotConfine, match="not there yet"):
        _report().require("A")
    _report().require()


def test_every_missing_layer_is_printed_with_reason_and_fix() -> None:
    lines = render(_report("view"))
    assert any("unavailable  view" in line for line in lines)
    assert [line.strip() for line in lines if "fix:" in line] == ["fix: do this", "fix: or that"]
