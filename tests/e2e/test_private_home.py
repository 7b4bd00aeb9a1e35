"""The private HOME is kept from run to run: a call leaves nothing there that the next start would run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.client import text
from tests.e2e.victim import Victim, refused

pytestmark = pytest.mark.needs("user", "landlock", "seccomp")


@pytest.fixture(scope="module", params=[pytest.param("", marks=pytest.mark.needs("userns")), "filter"])
def victim(request: pytest.FixtureRequest) -> Iterator[Victim]:
    with Victim(f"private-home{request.param and '-c'}", lacking=request.param) as running:
        yield running


@pytest.fixture(scope="module")
def home(victim: Victim) -> str:
    """Where the server finds it."""
    return text(victim.act("nothing", "environment", name="HOME"))


def done(victim: Victim, act: str, **acts: str) -> bool:
    return not refused(victim.act("nothing", act, **acts))


@pytest.mark.parametrize("name", [".npmrc", ".bashrc", ".sqliterc", ".node_modules"])
def test_what_is_run_by_itself_is_not_written(name: str, victim: Victim, home: str) -> None:
    path = f"{home}/{name}"
    assert text(victim.act("nothing", "write", path=path)).startswith("EROFS")
    assert not done(victim, "mkdir", path=path)
    assert done(victim, "write", path=f"{home}/.other")
    assert not done(victim, "rename", source=f"{home}/.other", destination=path)
    assert not done(victim, "hardlink", source=f"{home}/.other", destination=path)
    assert not done(victim, "symlink", target=".other", path=path)
    assert done(victim, "unlink", path=f"{home}/.other"), "the rest is the server's own"


def test_nor_is_it_by_way_of_the_directories_above(victim: Victim, home: str) -> None:
    above, place = f"{home}/.ipython", "profile_default/startup"
    for directory in ("", "/profile_default", "/profile_default/startup"):
        assert done(victim, "mkdir", path=f"{home}/.x{directory}")
    assert done(victim, "write", path=f"{home}/.x/{place}/00.py")
    assert not done(victim, "symlink", target=".x", path=above)
    assert not done(victim, "rename", source=f"{home}/.x", destination=above)
    assert done(victim, "mkdir", path=above)
    assert not done(victim, "exchange", source=f"{home}/.x", destination=above)
    for inner in ("profile_default", place):
        assert not done(victim, "rename", source=f"{home}/.x/{inner}", destination=f"{above}/{inner}")
        assert not done(victim, "symlink", target=f"{home}/.x/{inner}", path=f"{above}/{inner}")
        if inner != place:
            assert done(victim, "mkdir", path=f"{above}/{inner}"), "other things are kept there"
    assert not done(victim, "write", path=f"{above}/{place}/00.py")


def test_nor_by_the_name_under_which_it_is_kept(victim: Victim) -> None:
    (kept,) = (victim.place.work / "home" / ".local" / "share" / "mcpwrap").glob("*/home")
    assert not done(victim, "write", path=f"{kept}/.npmrc")
    assert not (kept / ".npmrc").exists()
