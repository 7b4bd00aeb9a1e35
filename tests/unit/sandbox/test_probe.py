"""What the probe's findings mean, and how they are printed."""

from __future__ import annotations

import pytest

from mcpwrap.cli.doctor import render
from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.probe import Protection, Report, _tier
from mcpwrap.sandbox.tiers import ORDER, TIERS


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
        (("namespaces", "view"), "C", "tier C:"),
        (("view",), "C", "tier C:"),
        (("namespaces", "view", "landlock"), "", "tier D:"),
        (("namespaces", "view", "per call"), "", "tier D:"),
        (("per call",), "B-", "tier B- (with --allow-degraded per-call):"),
        (("system calls",), "", "tier D:"),
    ],
)
def test_the_tier_follows_from_what_is_missing(missing: tuple[str, ...], tier: str, line: str) -> None:
    found = _report(*missing)
    assert found.tier == tier
    assert found.line.startswith(line)
    assert bool(found.weaker) == (tier in ("C", "B-"))


@pytest.mark.parametrize(
    ("missing", "accepted"),
    [
        ((), ("B", "C", "B-")),
        (("namespaces", "view"), ("C", "B-")),
        (("per call",), ("B-",)),
        (("landlock",), ()),
    ],
)
def test_a_required_tier_accepts_a_stronger_one_and_refuses_a_weaker(
    missing: tuple[str, ...], accepted: tuple[str, ...]
) -> None:
    report = _report(*missing)
    for tier in ORDER:
        if tier in accepted:
            report.require(tier)
            continue
        with pytest.raises(CannotConfine, match=f"no {missing[0]}") as refused:
            report.require(tier)
        assert refused.value.way_out == "do this\nor that"


def test_what_is_weaker_is_printed() -> None:
    text = "\n".join(render(_report("namespaces", "view")))
    assert all(f"- {each}" in text for each in TIERS["C"].weaker)


def test_every_missing_layer_is_printed_with_reason_and_fix() -> None:
    lines = render(_report("view"))
    assert any("unavailable  view" in line for line in lines)
    assert [line.strip() for line in lines if "fix:" in line] == ["fix: do this", "fix: or that"]
