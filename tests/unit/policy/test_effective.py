"""What may be done when: phases, tools, places, in the order the rules win."""

from __future__ import annotations

import pytest

from mcpwrap.operation import Need
from mcpwrap.policy.active import Active, ActiveWindow, BoundPath
from tests.unit.policy.machine import CACHE, EXEC, HOME, READ, SERVER, STATE, WRITE, Machine, idle

GRANT = """
[server]
fs_read = ["~/shared"]
exec = ["git"]

[startup]
fs_read = ["~/once"]

[policy]
within = ["~/work"]

[tools.reader]
fs_read = ["$arg:path"]

[tools."write_*|edit"]
fs_write = ["$arg:path", "~/out"]
fs_deny = ["**/secret/**", "~/out/locked"]

[tools.runner]
exec = ["any-writable"]
"""
FILES = (
    f"{HOME}/shared/a {HOME}/once/a {HOME}/work/a {HOME}/work/b {HOME}/work/sub/c {HOME}/out/f "
    f"{HOME}/out/locked/f {HOME}/work/secret/f {HOME}/.ssh/id"
)


@pytest.fixture
def machine() -> Machine:
    return Machine(FILES)


def test_server_rules_hold_in_every_phase_and_startup_rules_only_at_startup(machine: Machine) -> None:
    policy = machine.policy(GRANT)
    for effective in (idle(policy), idle(policy, startup=True), machine.call(policy, "reader")):
        assert effective.decide(READ, f"{HOME}/shared/a").rule == "server.fs_read[0]"
        assert not effective.decide(WRITE, f"{HOME}/shared/a").allowed
    assert idle(policy, startup=True).decide(READ, f"{HOME}/once/a").rule == "startup.fs_read[0]"
    assert not idle(policy).decide(READ, f"{HOME}/once/a").allowed


def test_a_call_has_its_own_argument_and_no_other_file_of_within(machine: Machine) -> None:
    policy = machine.policy(GRANT)
    effective = machine.call(policy, "reader", path=f"{HOME}/work/a")
    assert effective.decide(READ, f"{HOME}/work/a").rule == "tools.reader.fs_read[0]"
    assert effective.decide(READ, f"{HOME}/work/b").rule == "no-grant"
    assert not effective.decide(READ, f"{HOME}/work/a/below").allowed
    assert not effective.decide(WRITE, f"{HOME}/work/a").allowed
    assert not idle(policy).decide(READ, f"{HOME}/work/a").allowed


def test_a_directory_argument_grants_what_is_below(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "reader", path=f"{HOME}/work/sub")
    assert effective.decide(READ, f"{HOME}/work/sub", regular=False).allowed
    assert effective.decide(READ, f"{HOME}/work/sub/c").allowed
    assert not effective.decide(READ, f"{HOME}/work/subject").allowed


def test_write_grants_imply_read(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "edit", path=f"{HOME}/work/a")
    assert effective.decide(READ, f"{HOME}/work/a").allowed
    assert effective.decide(WRITE, f"{HOME}/work/a").allowed


def test_windows_of_several_tools_add_up(machine: Machine) -> None:
    policy = machine.policy(GRANT)
    windows = (
        ActiveWindow("w1", "reader", (BoundPath(READ, f"{HOME}/work/b", "file", "tools.reader.fs_read[0]"),)),
        ActiveWindow("w2", "edit"),
    )
    effective = policy.effective(Active(2, False, windows))
    assert effective.windows == ("w1", "w2")
    assert effective.decide(READ, f"{HOME}/work/b").allowed
    assert effective.decide(WRITE, f"{HOME}/out/f").allowed


@pytest.mark.parametrize("path", ["work/secret/f", "work/Secret/f", "out/locked/f", "out/LOCKED"])
def test_deny_wins_over_every_grant_in_any_spelling(machine: Machine, path: str) -> None:
    effective = machine.call(machine.policy(GRANT), "edit", path=f"{HOME}/work")
    decision = effective.decide(READ, f"{HOME}/{path}")
    assert not decision.allowed
    assert "fs_deny" in decision.rule
    assert effective.untouchable(f"{HOME}/{path}") == decision.rule


def test_deny_holds_for_the_object_under_another_name(machine: Machine) -> None:
    machine = Machine(FILES + f" {HOME}/out/denied")
    policy = machine.policy('[tools.t]\nfs_write = ["~/out"]\nfs_deny = ["~/out/denied"]')
    effective = machine.call(policy)
    assert effective.decide(
        READ, f"{HOME}/out/link", identity=machine.identity(f"{HOME}/out/denied")
    ).rule == ("tools.t.fs_deny[0]")


def test_the_private_home_is_the_servers_own_unless_the_host_shows_through(machine: Machine) -> None:
    effective = idle(machine.policy(GRANT))
    for path in (f"{HOME}/notes", f"{HOME}/.ssh/id", f"{HOME}/.tool"):
        assert effective.decide(READ, path).rule == "home"
        kept = effective.decide(WRITE, path, creating=True)
        # A document would be where its user never finds it; dotfiles are what programs keep for themselves.
        assert (kept.allowed, kept.rule) == (
            (False, "no-grant") if path.endswith("notes") else (True, "home")
        )
        assert not effective.decide(EXEC, path).allowed
    # Ground of a tool that is not called now: its mount is there, so only its grant counts.
    assert effective.decide(READ, f"{HOME}/out/f").rule == "no-grant"
    assert effective.decide(READ, f"{HOME}/work/a").rule == "no-grant"


def test_asked_for_the_users_own_object_the_private_home_and_tmp_are_not_it(machine: Machine) -> None:
    effective = idle(machine.policy(GRANT))
    assert effective.decide(READ, f"{HOME}/.ssh/id", host=True).rule == "private:.ssh"
    assert effective.decide(READ, f"{HOME}/notes", host=True).rule == "no-grant"
    assert effective.decide(READ, "/tmp/x", host=True).rule == "no-grant"
    assert effective.decide(READ, "/home", host=True).rule == "no-grant"


@pytest.mark.parametrize(
    ("path", "rule", "writable"),
    [
        ("/tmp/x", "temporary", True),
        ("/dev/shm/x", "temporary", True),
        ("/dev/null", "device", True),
        (f"{STATE}/memory.jsonl", "state", True),
        (f"{CACHE}/x", "cache", False),
        ("/usr/lib/x.so", "system", False),
        ("/etc/ssl/certs", "system", False),
        (f"{SERVER}/main.py", "installation", False),
        ("/home", "view", False),
        ("/", "view", False),
    ],
)
def test_what_is_always_there(machine: Machine, path: str, rule: str, writable: bool) -> None:
    effective = idle(machine.policy(GRANT))
    decision = effective.decide(READ, path)
    assert (decision.rule, decision.allowed, decision.routine) == (rule, True, True)
    assert effective.decide(WRITE, path).allowed == writable


def test_a_dotenv_of_the_installation_is_read_by_start_up_and_by_no_call(machine: Machine) -> None:
    for path in (f"{SERVER}/.env", f"{SERVER}/lib/.env.local"):
        policy = machine.policy(GRANT)
        assert idle(policy, startup=True).decide(READ, path).rule == "installation"
        for effective in (idle(policy), machine.call(policy)):
            assert effective.decide(READ, path).rule == "private:.env*"
        named = machine.policy(f'[tools.t]\nfs_read = ["{path}"]\n')
        assert machine.call(named).decide(READ, path).rule == "tools.t.fs_read[0]"
    assert idle(machine.policy(GRANT)).decide(READ, f"{SERVER}/.env.example").rule == "installation"


def test_the_cache_is_written_during_startup_only(machine: Machine) -> None:
    policy = machine.policy(GRANT)
    assert idle(policy, startup=True).decide(WRITE, f"{CACHE}/x").rule == "cache"
    assert idle(policy).decide(WRITE, f"{CACHE}/x") == idle(policy).decide(WRITE, f"{CACHE}/y")
    assert idle(policy).decide(EXEC, f"{CACHE}/bin/x").rule == "writable"


def test_what_python_would_keep_beside_a_module_is_refused_quietly(machine: Machine) -> None:
    policy = machine.policy('[server]\nprofile = ["python"]\n')
    kept = idle(policy).decide(WRITE, f"{CACHE}/lib/__pycache__/m.pyc", creating=True)
    assert (kept.allowed, kept.rule, kept.quiet) == (False, "cache", True)
    assert not idle(policy).decide(WRITE, f"{CACHE}/lib/m.py").quiet


@pytest.mark.parametrize(
    "path",
    ["", "pipe:[123]", "socket:[1]", "anon_inode:[eventfd]", "/memfd:x (deleted)", f"{HOME}/shared/a (deleted)",
     "relative", f"{HOME}/shared/../.ssh/id", f"{HOME}/shared//a", f"{HOME}/shared/./a", f"{HOME}/shared/a/",
     f"{HOME}/shared/a\0b"],
)  # fmt: skip
@pytest.mark.parametrize("need", list(Need))
def test_what_is_no_path_is_refused(machine: Machine, path: str, need: Need) -> None:
    decision = idle(machine.policy(GRANT)).decide(need, path)
    assert (decision.allowed, decision.rule) == (False, "no-path")


def test_globs_grant_what_they_match_on_real_paths() -> None:
    machine = Machine("/data/work/a.md /data/work/d/b.md /data/work/c.txt", {f"{HOME}/link": "/data/work"})
    policy = machine.policy('[tools.t]\nfs_read = ["~/link/**/*.md"]')
    effective = machine.call(policy)
    assert effective.decide(READ, "/data/work/a.md").allowed
    assert effective.decide(READ, "/data/work/d/b.md").allowed
    assert not effective.decide(READ, "/data/work/c.txt").allowed
    assert not effective.decide(WRITE, "/data/work/a.md").allowed


def test_no_table_is_for_what_is_no_tool(machine: Machine) -> None:
    policy = machine.policy('[tools."*"]\nfs_read = ["~/shared"]\n')
    assert [table.header for table in policy.tables_of("any")] == ["*"]
    assert policy.tables_of("") == ()


def test_every_tool_table_is_added_unless_a_header_does_not_inherit(machine: Machine) -> None:
    policy = machine.policy(
        '[tools."*"]\nfs_read = ["~/shared"]\n[tools."a*"]\nfs_read = ["~/once"]\n'
        '[tools.ab]\ninherit = false\nfs_read = ["~/out"]\n'
    )
    assert machine.call(policy, "other").decide(READ, f"{HOME}/shared/a").allowed
    assert machine.call(policy, "aa").decide(READ, f"{HOME}/shared/a").allowed
    effective = machine.call(policy, "ab")
    assert not effective.decide(READ, f"{HOME}/shared/a").allowed
    assert effective.decide(READ, f"{HOME}/once/a").allowed
    assert effective.decide(READ, f"{HOME}/out/f").allowed


def test_quiet_lines_silence_refusals_and_grant_nothing(machine: Machine) -> None:
    policy = machine.policy('[server.quiet]\nfs_read = ["/opt/probe"]\nexec = ["git"]\n')
    effective = idle(policy)
    decision = effective.decide(READ, "/opt/probe/x")
    assert (decision.allowed, decision.quiet, decision.rule) == (False, True, "server.quiet.fs_read[0]")
    assert effective.decide(EXEC, "/usr/bin/git").quiet
    assert not effective.decide(READ, "/opt/other").quiet


def test_path_sockets_are_reached_on_the_servers_own_ground_only(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "edit")
    assert effective.decide(Need.CONNECT, "/tmp/s").allowed
    assert not effective.decide(Need.CONNECT, f"{HOME}/out/docker.sock").allowed
    assert effective.decide(Need.CONNECT, "/run/user/1000/bus").rule == "private:/run/user"


def test_decisions_are_the_same_when_asked_again_and_after_much_else(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "edit", path=f"{HOME}/work/a")
    before = [effective.decide(need, f"{HOME}/work/a") for need in Need]
    for number in range(20_000):
        effective.decide(READ, f"{HOME}/work/{number}")
    assert [effective.decide(need, f"{HOME}/work/a") for need in Need] == before


def test_the_deepest_path_the_kernel_has_is_decided_like_any_other(machine: Machine) -> None:
    effective = idle(machine.policy(GRANT))
    assert effective.decide(READ, f"{HOME}/shared" + "/a" * 2_030).allowed
    assert effective.decide(READ, "/srv" + "/.ssh" * 2_030).rule == "no-grant"
    assert (
        effective.decide(WRITE, f"{HOME}/shared" + "/.git" * 2_000 + "/config").rule
        == "write-protected:.git/config"
    )


FILE, OTHER, LINK = (True,), (False,), (True, False)


@pytest.mark.parametrize("name", [".env", "r/.git"])
@pytest.mark.parametrize(
    ("moved", "present", "exchange"),
    [
        (OTHER, FILE, True),
        (OTHER, FILE, False),
        (LINK, FILE, False),
        (LINK, (), False),
        (FILE, (), False),
        (FILE, OTHER, True),
    ],
)
def test_a_rename_is_decided_for_what_comes_and_for_what_is_there(
    machine: Machine, name: str, moved: tuple[bool, ...], present: tuple[bool, ...], exchange: bool
) -> None:
    policy = machine.policy(f'[tools.t]\nfs_write = ["{HOME}/work"]')
    decisions = machine.call(policy, "t").decide_rename(
        f"{HOME}/work/d", f"{HOME}/work/{name}", moved=moved, present=present, exchange=exchange
    )
    assert not all(decision.allowed for _, decision in decisions)


def test_a_directory_may_be_renamed_to_dot_git_and_is_looked_through_first(machine: Machine) -> None:
    policy = machine.policy(f'[tools.t]\nfs_write = ["{HOME}/work"]')
    decisions = machine.call(policy, "t").decide_rename(f"{HOME}/work/d", f"{HOME}/work/.git", moved=OTHER)
    assert all(decision.allowed for _, decision in decisions)
