"""What a wrong grant file prints, whole. To take new texts: MCPWRAP_TAKE_SNAPSHOTS=1 and read the diff."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpwrap import profiles
from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.source import decode

CASES = sorted((Path(__file__).parent / "grant_errors").glob("*.toml"))
VARIABLES = Variables("/home/u", "/home/u", "/home/u/proj", "/tmp", "/home/u/state", "/home/u/cache", {})


@pytest.mark.parametrize("case", CASES, ids=[case.stem for case in CASES])
def test_a_wrong_grant_file_prints_the_reviewed_text(case: Path) -> None:
    with pytest.raises(BadGrant) as caught:
        parse(decode(case.read_bytes(), case.name), case.name, VARIABLES, profiles.text)
    printed = caught.value.diagnostics() + "\n"
    reviewed = case.with_suffix(".txt")
    if os.environ.get("MCPWRAP_TAKE_SNAPSHOTS"):
        reviewed.write_text(printed, encoding="utf-8")
    assert printed == reviewed.read_text(encoding="utf-8")
