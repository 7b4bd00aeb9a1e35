"""The example grants are taken as they are by `mcpwrap check`, for a user who has the directories they name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.corpus import mcpwrap

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples" / "grants").glob("*.toml"))


@pytest.mark.needs("git")
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_grant_is_valid_and_says_what_it_is_for(example: Path, tmp_path: Path) -> None:
    for directory in ("work", "notes"):
        (tmp_path / directory).mkdir()
    done = subprocess.run(
        [*mcpwrap(), "check", str(example)],
        env={"HOME": str(tmp_path), "PATH": "/usr/local/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "mcpwrap -- " in example.read_text()
