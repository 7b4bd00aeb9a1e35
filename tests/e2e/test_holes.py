"""Known holes of real servers harm bare, and are held behind mcpwrap with an explanation."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.e2e.client import text
from tests.e2e.corpus import Row, masked, mcpwrap, parameters, rows, run_hole
from tests.e2e.victim import DEPRIVED

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "git")


@pytest.mark.parametrize("row", parameters("hole"))
def test_a_hole_that_harms_bare_is_held_and_explained(row: Row, installed: Callable[[str], Path]) -> None:
    installed(row["server"])
    bare, _ = run_hole(row, "bare")
    assert not bare.problem, bare.problem
    assert all(bare.harms.values()), f"the bare run shows no harm, so it proves nothing: {bare}"

    wrapped, place = run_hole(row, "mcpwrap")
    assert wrapped.verdict == "held", wrapped
    # The bare run's controls afterwards may show the harm: what they said before is what must still be said.
    for call, expected, before, after in zip(
        row["control"], bare.before, wrapped.before, wrapped.after, strict=True
    ):
        volatile = call.get("volatile", "")
        assert masked(before, volatile) == masked(expected, volatile)
        assert masked(after, volatile) == masked(expected, volatile)

    denied = row["denied"].replace("{W}", re.escape(str(place.work)))
    told = [answer for answer in wrapped.attacks if "refused by mcpwrap" in text(answer)]
    assert told, f"no answer explains the refusal: {wrapped.attacks} {wrapped.stderr}"
    assert any(re.search(denied, text(answer)) for answer in told), told
    for attack, answer in zip(row["attack"], wrapped.attacks, strict=True):
        if "denied" in attack:
            assert "refused by mcpwrap" in text(answer) and re.search(attack["denied"], text(answer)), answer
    assert all("do not retry" in text(answer) for answer in told), told
    for answer in told:
        carrier = answer.get("result") or answer["error"].get("data", {})
        assert "mcpwrap/denials" in json.dumps(carrier), answer
    assert "[tools" not in "".join(text(answer) for answer in told), (
        "the model was handed the line that widens"
    )

    records = place.audit()
    assert any(re.search(denied, json.dumps(record)) for record in records), records
    assert wrapped.stderr, "the user is told too"


def without_namespaces() -> list[ParameterSet]:
    """Return the rows that can run there: a browser's own sandbox needs namespaces."""
    return [each for each in parameters("hole") if "chromium" not in each.values[0].get("needs", ())]  # type: ignore[union-attr]


@pytest.mark.parametrize("row", without_namespaces())
def test_a_hole_is_held_and_explained_where_there_are_no_namespaces(
    row: Row, installed: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(row["server"])
    deprived = [sys.executable, "-I", "-B", str(DEPRIVED), "filter", *mcpwrap()]
    deprived[5] = shutil.which(deprived[5]) or deprived[5]
    monkeypatch.setenv("MCPWRAP_COMMAND", shlex.join(deprived))
    wrapped, place = run_hole(row, "mcpwrap")
    assert "held at tier C" in wrapped.stderr
    assert wrapped.verdict == "held", wrapped
    denied = row["denied"].replace("{W}", re.escape(str(place.work)))
    told = [text(answer) for answer in wrapped.attacks if "refused by mcpwrap" in text(answer)]
    assert any(re.search(denied, each) for each in told), (told, wrapped.stderr)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("row", [r for r in rows("hole") if r["kind"] == "twin"], ids=lambda row: row["name"])
def test_a_twin_harms_in_a_sandbox_around_the_whole_server(
    row: Row, installed: Callable[[str], Path]
) -> None:
    installed(row["server"])
    outcome, _ = run_hole(row, "bubblewrap")
    assert outcome.verdict == "HARM", outcome
