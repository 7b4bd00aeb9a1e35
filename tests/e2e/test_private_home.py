"""The private HOME is kept from run to run: a call leaves nothing there that the next start would run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.client import Session, text
from tests.e2e.corpus import bench, mcpwrap
from tests.e2e.victim import DEPRIVED, SERVER, Victim, refused

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


@pytest.mark.parametrize("name", [".npmrc", ".bashrc", ".sqliterc", ".node_modules", ".git"])
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


def test_nor_by_the_name_under_which_it_is_kept(victim: Victim, home: str) -> None:
    (kept,) = (victim.place.work / "home" / ".local" / "share" / "mcpwrap").glob("*/home")
    for name in (".npmrc", "package.json", "node_modules"):
        assert not done(victim, "write", path=f"{kept}/{name}")
        assert not (kept / name).exists()
    if str(kept) != home:
        assert text(victim.act("nothing", "write", path=f"{kept}/.other")).startswith("EROFS")


def test_nor_where_it_lies_above_other_ground(victim: Victim, home: str) -> None:
    """node looks for modules in every directory above a program, and the package cache is below `~/.cache`."""
    victim.act("nothing", "mkdir", path=f"{home}/.cache")
    for name in ("node_modules", "package.json", ".git"):
        # Without a view HOME is another directory, with nothing but its own below it.
        assert done(victim, "mkdir", path=f"{home}/.cache/{name}") is bool(victim.lacking)
    assert done(victim, "mkdir", path=f"{home}/.cache/tool")
    assert done(victim, "mkdir", path=f"{home}/.cache/tool/node_modules"), "nothing else lies below it"


STARTER = """
import errno, json, os, runpy, sys
os.chdir(os.environ["HOME"])
def tried(act, *words):
    try:
        act(*words)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
open(".npmrc", "w").close(); open(".plain", "w").close()
outcomes = [tried(os.link, ".npmrc", ".x1"), tried(os.link, ".plain", ".bashrc"), tried(os.link, ".plain", ".x2"),
            tried(os.symlink, ".x3", ".zshrc"), tried(os.symlink, ".plain", ".x4"),
            tried(os.symlink, ".y", ".jupyter"), tried(os.rename, ".x4", ".zshenv")]
json.dump(outcomes, open(".outcomes", "w"))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("lacking", [pytest.param("", marks=pytest.mark.needs("userns")), "filter"])
def test_start_up_writes_there_but_gives_nothing_there_a_second_name(lacking: str) -> None:
    place = bench(f"private-home-start{lacking and '-c'}", "mkdir starter")
    starter, grant = place.work / "starter" / "start.py", place.work / "grant.toml"
    starter.write_text(STARTER)
    grant.write_text(f'[server]\nfs_read = ["{SERVER.parent}"]\n')
    grant.chmod(0o600)
    deprived = [sys.executable, "-I", "-B", str(DEPRIVED), lacking] if lacking else []
    wrapped = [*mcpwrap(), "--grant", str(grant), "--", sys.executable, "-B", str(starter), str(SERVER)]
    with Session(
        [*deprived, *wrapped], env=place.env, cwd=place.work / "data", stderr=place.work / "stderr"
    ) as session:
        session.initialize()
        home = text(session.call("nothing", {"act": "environment", "with": {"name": "HOME"}}))
        said = text(session.call("nothing", {"act": "read", "with": {"path": f"{home}/.outcomes"}}))
    assert json.loads(said) == ["EXDEV", "EXDEV", "done", "EPERM", "done", "EPERM", "EPERM"]
