from __future__ import annotations

import re

import pytest

from mcpwrap import profiles
from mcpwrap.grant.document import PROFILES
from mcpwrap.grant.grant import ANY_WRITABLE
from mcpwrap.grant.pattern import glob_regex
from tests.unit.grant.reading import read


@pytest.mark.parametrize("name", PROFILES)
def test_a_shipped_profile_is_right_in_itself(name: str) -> None:
    grant = read(f'[server]\nprofile = ["{name}"]\n')
    assert name in grant.profiles
    assert all(rule.optional for rule in grant.server.execs)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_grants_no_writing_no_shell_and_no_gate_less_exec(name: str) -> None:
    grant = read(f'[server]\nprofile = ["{name}"]\n')
    assert not [rule for rule in grant.server.paths if rule.noun == "fs_write"]
    assert not {rule.program for rule in grant.server.execs} & {ANY_WRITABLE, "sh", "bash", "/bin/sh", "env"}


def test_every_line_of_a_profile_that_grants_has_its_reason() -> None:
    for name in PROFILES:
        lines = [line for line in profiles.text(name).split("\n") if '"' in line and not line.startswith("#")]
        assert [line for line in lines if "#" not in line] == []


def test_profile_git_never_reaches_where_credentials_are_kept() -> None:
    grant = read('[server]\nprofile = ["git"]\n')
    reads = [rule.path for rule in grant.server.paths if rule.noun == "fs_read"]
    assert "/home/u/.gitconfig" in reads
    assert "/home/u/.config/git" not in reads
    assert not [path for path in reads if path and path.endswith("credentials")]


def test_profile_git_covers_the_programs_git_runs_after_a_commit() -> None:
    globs = [rule.program for rule in read('[server]\nprofile = ["git"]\n').server.execs if rule.is_glob]
    for directory in ("/usr/lib/git-core", "/usr/libexec/git-core"):
        assert any(re.match(glob_regex(glob), f"{directory}/git") for glob in globs)
