"""Known holes of real servers harm bare, and are held behind mcpwrap with an explanation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import text
from tests.e2e.corpus import Row, masked, parameters, rows, run_hole

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


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("row", [r for r in rows("hole") if r["kind"] == "twin"], ids=lambda row: row["name"])
def test_a_twin_harms_in_a_sandbox_around_the_whole_server(
    row: Row, installed: Callable[[str], Path]
) -> None:
    installed(row["server"])
    outcome, _ = run_hole(row, "bubblewrap")
    assert outcome.verdict == "HARM", outcome
