"""The same known holes, bare and behind mcpwrap, where there are no namespaces: held with the same words."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import test_holes
from tests.e2e.corpus import WORK, Row, mcpwrap, parameters, rows, run_hole
from tests.e2e.victim import DEPRIVED

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "git")


@pytest.fixture(autouse=True)
def _at_tier_c(monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-I", "-B", str(DEPRIVED), "filter", *mcpwrap()]
    monkeypatch.setenv("MCPWRAP_COMMAND", shlex.join(command))


OF_NAMESPACES = [row for row in rows("hole") if row["grant"] == "playwright"]
"""Their grant says `nested_sandbox`: what they need is not to be had here."""
_NAMES = {row["name"] for row in OF_NAMESPACES}


@pytest.mark.parametrize("row", [each for each in parameters("hole") if each.id not in _NAMES])
def test_a_hole_that_harms_bare_is_held_at_tier_c(row: Row, installed: Callable[[str], Path]) -> None:
    test_holes.test_a_hole_that_harms_bare_is_held_and_explained(row, installed)
    audits = (WORK / row["name"] / "state" / "mcpwrap" / "audit").rglob("*.jsonl")
    records = [json.loads(line) for file in audits for line in file.read_text().splitlines()]
    assert {each["tier"] for each in records if each["kind"] == "protections"} == {"C"}


@pytest.mark.parametrize("row", OF_NAMESPACES, ids=lambda row: row["name"])
def test_a_server_whose_grant_needs_namespaces_is_not_started(
    row: Row, installed: Callable[[str], Path]
) -> None:
    installed(row["server"])
    outcome, _ = run_hole(row, "mcpwrap")
    assert "needs namespaces (tier B)" in outcome.problem
    assert not any(outcome.harms.values())
