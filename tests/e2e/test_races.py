"""Paths that change while they are used: what is opened or renamed is what was decided on."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator

import pytest

from tests.e2e.client import text
from tests.e2e.victim import SECRET, Victim

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

OPENS = int(os.environ.get("MCPWRAP_RACE_OPENS", "3000"))
RENAMES = int(os.environ.get("MCPWRAP_RACE_RENAMES", "1000"))
"""Fewer than the 20,000 and 5,000 that were run once: MCPWRAP_RACE_OPENS and MCPWRAP_RACE_RENAMES set them."""
SECONDS = 280


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("races") as running:
        yield running


def counts(said: str) -> dict[str, int]:
    """Return what the act tells it saw, and how often."""
    own = said.partition("\n[mcpwrap]")[0]
    return {key: int(number) for key, number in re.findall(r"(\d+|'[^']*')=(\d+)", own)}


@pytest.mark.parametrize("bare", [True, False], ids=["bare", "mcpwrap"])
def test_a_path_flipped_in_memory_opens_only_the_granted_file(bare: bool, victim: Victim) -> None:
    if bare:
        with Victim("races-bare", "bare") as unconfined:
            directory = unconfined.case("memory")
            a, b = str(directory / "a.txt"), str(directory / "b.txt")
            said = text(unconfined.act("reader", "race_open", {"path": a}, first=a, second=b, count=3000))
            assert SECRET in said, "the bare run proves nothing"
            return
    directory = victim.case("memory")
    a, b = str(directory / "a.txt"), str(directory / "b.txt")
    arguments = {"act": "race_open", "path": a, "with": {"first": a, "second": b, "count": OPENS}}
    seen = counts(text(victim.session.call("reader", arguments, SECONDS)))
    assert sum(seen.values()) == OPENS
    assert seen.keys() <= {repr("mine\n"), str(errno.EACCES), str(errno.ENOENT)}, seen
    assert seen.get(repr("mine\n")), "no open of the granted file succeeded: the race was not run"


def test_a_link_flipped_on_disk_opens_only_the_granted_file(victim: Victim) -> None:
    directory = victim.case("link") / "r"
    (directory / "mine").write_text("mine\n")
    path = str(directory / "flipped")
    other = str(directory.parent / "b.txt")
    arguments = {
        "act": "race_open_link",
        "path": str(directory),
        "with": {"path": path, "first": str(directory / "mine"), "second": other, "count": OPENS // 3},
    }
    said = text(victim.session.call("writer", arguments, SECONDS))
    assert SECRET not in said, said


def test_a_rename_target_flipped_in_memory_changes_only_the_granted_file(victim: Victim) -> None:
    directory = victim.case("rename")
    a, b = str(directory / "a.txt"), str(directory / "b.txt")
    arguments = {
        "act": "race_rename",
        "path": a,
        "with": {"source": a + ".tmp", "first": a, "second": b, "count": RENAMES},
    }
    said = text(victim.session.call("writer", arguments, SECONDS))
    found = re.match(r"done=(\d+) refused=(\d+)", said)
    assert found, said
    done, refused = (int(number) for number in found.groups())
    assert done + refused == RENAMES, said
    assert done, "no rename onto the granted file succeeded: the race was not run"
    assert (directory / "b.txt").read_text() == f"{SECRET}\n"
