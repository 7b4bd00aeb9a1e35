"""Profile `git` with the real server: who commits is known, what a repository would run is not run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import Message, Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap
from tests.e2e.victim import DEPRIVED

pytestmark = pytest.mark.needs("landlock", "userns", "seccomp", "user", "git")

SETUP = """
mkdir -p home/.config/git
printf '[include]\\n\\tpath = ~/.config/git/me\\n' > home/.gitconfig
printf '[user]\\n\\tname = Ada of the include\\n\\temail = ada@example.org\\n' > home/.config/git/me
printf 'https://u:TOP-SECRET-9182@example.org\\n' > home/.config/git/credentials
export HOME=$PWD/home
git init -q data/r && cd data/r && echo one > f && git add f && git commit -qm first && echo two > f && git add f
"""

HOOK = "printf '#!/bin/sh\\necho ran > %s/hook-ran\\n' {W}/data > .git/hooks/{name}; chmod +x .git/hooks/{name}\n"


def start(
    installed: Callable[[str], Path], name: str, hook: str, extra: str = "", lacking: str = ""
) -> tuple[Bench, Session]:
    server = installed("git")
    place = bench(name, SETUP + (HOOK.replace("{name}", hook) if hook else ""))
    grant = place.write_grant("git")
    if extra:
        before, uname, after = grant.read_text().partition('["uname"]')
        assert uname
        grant.write_text(before + extra.replace("{W}", str(place.work)) + after)
    deprived = [sys.executable, "-I", "-B", str(DEPRIVED), lacking] if lacking else []
    command = [*deprived, *mcpwrap(), "--grant", str(grant), "--", str(server)]
    return place, Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / "stderr")


def commit(place: Bench, session: Session) -> Message:
    session.initialize()
    return session.call("git_commit", {"repo_path": str(place.work / "data" / "r"), "message": "second"})


def log(place: Bench) -> list[str]:
    repository = place.work / "data" / "r"
    command = ["git", "-C", str(repository), "log", "--format=%s by %an <%ae>"]
    done = subprocess.run(command, env=place.env, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("lacking", ["", "filter"], ids=["tier B", "tier C"])
def test_a_commit_has_the_name_a_global_configuration_includes(
    lacking: str, installed: Callable[[str], Path]
) -> None:
    place, session = start(installed, "git-identity", "", lacking=lacking)
    with session:
        answer = commit(place, session)
        assert not failed(answer), text(answer)
        assert "refused by mcpwrap" not in text(answer)
    assert log(place)[0] == "second by Ada of the include <ada@example.org>"


@pytest.mark.parametrize("hook", ["pre-commit", "post-commit"])
def test_a_hook_is_not_run_and_the_answer_says_so(installed: Callable[[str], Path], hook: str) -> None:
    place, session = start(installed, f"git-{hook}", hook)
    with session:
        answer = commit(place, session)
        assert f"hooks/{hook}" in text(answer)
        assert "what it writes cannot be executed" in text(answer)
        assert "any-writable" not in text(answer), "the model is not told how to widen its grant"
    assert not (place.work / "data" / "hook-ran").exists()
    assert "`any-writable`" in (place.work / "stderr").read_text(), "the user is"


def test_a_hook_runs_where_the_gate_is_given_up(installed: Callable[[str], Path]) -> None:
    extra = '["any-writable"]\nfs_write = ["{W}/data/hook-ran"]'
    place, session = start(installed, "git-any-writable", "post-commit", extra)
    grant = place.work / "grant.toml"
    assert grant.exists()
    with session:
        answer = commit(place, session)
        assert not failed(answer), text(answer)
    assert (place.work / "data" / "hook-ran").exists()


def test_the_credentials_beside_the_configuration_stay_closed(installed: Callable[[str], Path]) -> None:
    place, session = start(installed, "git-credentials", "")
    with session:
        session.initialize()
        shown = subprocess.run(
            [*mcpwrap(), "why", "git_commit", "--read", str(place.work / "home/.config/git/credentials"),
             "--grant", str(place.work / "grant.toml"), "--", str(installed("git"))],
            env=place.env, cwd=place.work / "data", capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert "refused" in shown.stdout, shown
