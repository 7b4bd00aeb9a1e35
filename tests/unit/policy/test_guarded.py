"""Private and write-protected places: who reaches them, by which name, and who does not."""

from __future__ import annotations

import pytest

from tests.unit.policy.machine import EXEC, HOME, READ, SERVER, WRITE, Machine, idle

WIDE = '[tools.t]\nfs_write = ["~/.config", "~/work", "~/dots", "/data", "~/.local", "~/.gemini", "~/.cargo"]'

PRIVATE = [
    (f"{HOME}/.config/gh/hosts.yml", "private:.config/gh"),
    (f"{HOME}/.config/gcloud/x", "private:.config/gcloud"),
    (f"{HOME}/.config/google-chrome-beta/Default/Cookies", "private:.config/google-chrome*"),
    (f"{HOME}/.config/BraveSoftware/x", "private:.config/BraveSoftware"),
    (f"{HOME}/.config/mcpwrap/grants/x.toml", "private:mcpwrap"),
    (f"{HOME}/.local/share/keyrings/login.keyring", "private:.local/share/keyrings"),
    (f"{HOME}/.local/share/mcpwrap/other/home/x", "private:mcpwrap"),
    (f"{HOME}/.local/state/mcpwrap/audit/x", "private:mcpwrap"),
    (f"{HOME}/.gemini/my_oauth_creds.json", "private:.gemini/*oauth*"),
    (f"{HOME}/.cargo/credentials.toml", "private:.cargo/credentials*"),
    (f"{HOME}/work/.env", "private:.env*"),
    (f"{HOME}/work/deep/.env.production", "private:.env*"),
    (f"{HOME}/work/.ENV", "private:.env*"),
    (f"{HOME}/work/.envrc", "private:.env*"),
]


@pytest.mark.parametrize(("path", "rule"), PRIVATE)
def test_a_wider_grant_does_not_include_private_places(path: str, rule: str) -> None:
    machine = Machine(path)
    effective = machine.call(machine.policy(WIDE))
    for need in (READ, WRITE):
        assert effective.decide(need, path).rule == rule
    assert not effective.decide(EXEC, path).allowed
    assert effective.untouchable(path) == rule


@pytest.mark.parametrize("path", [path for path, _ in PRIVATE])
def test_naming_a_private_path_exactly_grants_it(path: str) -> None:
    machine = Machine(path)
    policy = machine.policy(f'[tools.t]\nfs_read = ["{path}"]\n[tools.w]\nfs_write = ["{path}"]')
    assert machine.call(policy).decide(READ, path).rule == "tools.t.fs_read[0]"
    assert not machine.call(policy).decide(WRITE, path).allowed
    assert machine.call(policy, "w").decide(READ, path).allowed
    # Of those that are write-protected too, naming is enough as well.
    assert machine.call(policy, "w").decide(WRITE, path).rule == "tools.w.fs_write[0]"
    assert not machine.call(policy, "other").decide(READ, path, host=True).allowed


def test_a_name_lifts_what_it_names_and_nothing_beside_it() -> None:
    machine = Machine(f"{HOME}/.ssh/known_hosts {HOME}/.ssh/id_rsa")
    policy = machine.policy('[tools.t]\nfs_read = ["~/.ssh/known_hosts"]')
    effective = machine.call(policy)
    assert effective.decide(READ, f"{HOME}/.ssh/known_hosts").allowed
    assert effective.decide(READ, f"{HOME}/.ssh/id_rsa", host=True).rule == "private:.ssh"


def test_naming_a_directory_does_not_lift_a_private_place_inside_it() -> None:
    machine = Machine(f"{HOME}/.ssh/.env")
    effective = machine.call(machine.policy('[tools.t]\nfs_read = ["~/.ssh"]'))
    assert effective.decide(READ, f"{HOME}/.ssh/id").allowed
    assert effective.decide(READ, f"{HOME}/.ssh/.env").rule == "private:.env*"


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/work/.env/bin/python",
        f"{HOME}/work/.env.example",
        f"{HOME}/work/.env.dist",
        f"{HOME}/work/.environment",
    ],
)
def test_virtual_environments_and_samples_are_no_dotenv_files(path: str) -> None:
    machine = Machine(path)
    assert machine.call(machine.policy(WIDE)).decide(READ, path).allowed


def test_a_directory_called_dotenv_is_not_private_itself() -> None:
    machine = Machine(directories=f"{HOME}/work/.env")
    effective = machine.call(machine.policy(WIDE))
    assert machine.decide(effective, READ, f"{HOME}/work/.env").allowed


def test_a_link_to_a_private_place_is_private_where_it_leads() -> None:
    machine = Machine(
        f"{HOME}/dots/ssh/id {HOME}/work/x", {f"{HOME}/.ssh": "dots/ssh", f"{HOME}/work/key": "../.ssh/id"}
    )
    policy = machine.policy('[tools.t]\nfs_read = ["~/dots", "~/work", "~/work/key"]')
    effective = machine.call(policy)
    assert machine.decide(effective, READ, f"{HOME}/work/key").rule == "private:.ssh"
    assert effective.decide(READ, f"{HOME}/dots/ssh/id").rule == "private:.ssh"
    named = machine.call(machine.policy('[tools.t]\nfs_read = ["~/.ssh/id"]'))
    assert machine.decide(named, READ, f"{HOME}/.ssh/id").allowed


def test_private_holds_for_the_object_under_another_name() -> None:
    machine = Machine(f"{HOME}/.npmrc {HOME}/work/hardlink")
    effective = machine.call(machine.policy(WIDE))
    identity = machine.identity(f"{HOME}/.npmrc")
    assert effective.decide(READ, f"{HOME}/work/hardlink", identity=identity).rule == "private:.npmrc"
    assert effective.untouchable(f"{HOME}/work/hardlink", identity) == "private:.npmrc"
    named = machine.call(machine.policy('[tools.t]\nfs_write = ["~/.npmrc"]'))
    assert named.decide(WRITE, f"{HOME}/.npmrc", identity=identity).allowed


def test_both_homes_are_private_as_written_and_as_resolved() -> None:
    machine = Machine("/data/ann/.aws/credentials /home/old/.netrc", {"/home/new": "/data/ann"})
    policy = machine.policy(
        '[tools.t]\nfs_read = ["/data/ann/.aws"]\n[tools.u]\nfs_read = ["/data/shared"]',
        home="/home/new",
        passwd_home="/home/old",
    )
    effective = machine.call(policy, "u")
    for path in ("/data/ann/.aws/credentials", "/home/old/.netrc", "/home/new/.aws/x"):
        assert effective.decide(READ, path, host=True).rule.startswith("private:.")
    assert machine.call(policy).decide(READ, "/data/ann/.aws/credentials").allowed


PROTECTED = [
    (f"{HOME}/work/.git/config", "write-protected:.git/config"),
    (f"{HOME}/work/.GIT/Config", "write-protected:.git/config"),
    (f"{HOME}/work/.g\u200cit/config", "write-protected:.git/config"),
    (f"{HOME}/work/.git/hooks/pre-commit", "write-protected:.git/hooks"),
    (f"{HOME}/work/.git/hooks", "write-protected:.git/hooks"),
    (f"{HOME}/work/.git/modules/a/b/config", "write-protected:.git/config"),
    (f"{HOME}/work/.git/worktrees/a/config.worktree", "write-protected:.git/config.worktree"),
    (f"{HOME}/work/.gitmodules", "write-protected:.gitmodules"),
    (f"{HOME}/work/.mcp.json", "write-protected:.mcp.json"),
    (f"{HOME}/work/.claude/settings.json", "write-protected:.claude*"),
    (f"{HOME}/work/a/.claude.json", "write-protected:.claude*"),
    (f"{HOME}/work/.vscode/tasks.json", "write-protected:.vscode"),
    (f"{HOME}/work/.BashRC", "write-protected:.bashrc"),
    (f"{HOME}/work/.ba\u017fhrc", "write-protected:.bashrc"),
    (f"{HOME}/.config/autostart/x.desktop", "write-protected:.config/autostart"),
    (f"{HOME}/.config/systemd/user/x.service", "write-protected:.config/systemd"),
    (f"{HOME}/.local/bin/x", "write-protected:.local/bin"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "rule"), PROTECTED)
def test_write_protected_names_are_readable_and_not_written(path: str, rule: str) -> None:
    machine = Machine(path)
    effective = machine.call(machine.policy(WIDE))
    assert effective.decide(READ, path).allowed
    assert effective.decide(WRITE, path).rule == rule
    assert effective.decide(WRITE, path, creating=True).rule == rule
    assert effective.untouchable(path) == rule


def test_naming_a_write_protected_path_exactly_lets_it_be_written() -> None:
    machine = Machine(f"{HOME}/work/.git/config {HOME}/work/.git/hooks/x")
    policy = machine.policy('[tools.t]\nfs_write = ["~/work", "~/work/.git/config"]')
    effective = machine.call(policy)
    assert effective.decide(WRITE, f"{HOME}/work/.git/config").allowed
    assert not effective.decide(WRITE, f"{HOME}/work/.git/hooks/x").allowed


@pytest.mark.parametrize(
    "path", [".git/index", ".git/HEAD", ".git/refs/heads/hooks", ".git/objects/config", "git/config"]
)
def test_the_rest_of_a_repository_is_ordinary(path: str) -> None:
    machine = Machine(f"{HOME}/work/{path}")
    assert machine.call(machine.policy(WIDE)).decide(WRITE, f"{HOME}/work/{path}").allowed


def test_a_repository_may_be_born_with_its_config_in_the_call_that_makes_it() -> None:
    machine = Machine(directories=f"{HOME}/work")
    policy = machine.policy(WIDE)
    effective = machine.call(policy)
    repository = f"{HOME}/work/new"
    assert not effective.decide(WRITE, f"{repository}/.git/config", creating=True).allowed
    effective.created(repository)
    effective.created(f"{repository}/.git")
    for name in (".git/config", ".git/hooks/x.sample", ".gitmodules", ".vscode/settings.json"):
        assert effective.decide(WRITE, f"{repository}/{name}", creating=True).allowed
    assert effective.untouchable(f"{repository}/.git/config") is None
    # The next call is another one.
    later = machine.call(policy)
    assert later.decide(WRITE, f"{repository}/.git/config").allowed  # the same window id
    assert not idle(policy).decide(WRITE, f"{repository}/.git/config", creating=True).allowed
    assert not machine.call(policy).decide(WRITE, f"{repository}/.git/config").allowed


def test_what_is_born_is_forgotten_when_it_is_removed() -> None:
    machine = Machine(directories=f"{HOME}/work")
    effective = machine.call(machine.policy(WIDE))
    effective.created(f"{HOME}/work/x")
    effective.removed(f"{HOME}/work/x")
    assert not effective.decide(WRITE, f"{HOME}/work/x/.mcp.json", creating=True).allowed


def test_only_the_new_directory_is_free_not_the_old_one_around_it() -> None:
    machine = Machine(directories=f"{HOME}/work")
    effective = machine.call(machine.policy(WIDE))
    effective.created(f"{HOME}/work/x")
    assert not effective.decide(WRITE, f"{HOME}/work/.mcp.json", creating=True).allowed
    assert not effective.decide(WRITE, f"{HOME}/work/.vscode", creating=True, regular=False).allowed


def test_the_installation_and_the_programs_are_never_written() -> None:
    machine = Machine(f"{SERVER}/data/x")
    policy = machine.policy('[tools.t]\nfs_write = ["~/srv"]\n[tools.u]\nfs_write = ["~/srv/data"]')
    assert machine.call(policy).decide(WRITE, f"{SERVER}/main.py").rule == "write-protected:installation"
    effective = machine.call(policy, "u")
    assert effective.decide(WRITE, f"{SERVER}/data/x").allowed
    assert not effective.decide(WRITE, f"{SERVER}/main.py").allowed
    assert policy.floor.writes == (SERVER, f"{SERVER}/data")
    assert not effective.decide(EXEC, f"{SERVER}/data/x").allowed


def test_arguments_below_a_root_inside_the_installation_are_written() -> None:
    machine = Machine(f"{SERVER}/data/x")
    policy = machine.policy(
        '[tools.t]\nfs_write = ["$arg:p in ~/srv/data"]\n[tools.u]\nfs_write = ["$arg:p in ~/srv"]'
    )
    assert machine.call(policy, p=f"{SERVER}/data/x").decide(WRITE, f"{SERVER}/data/x").allowed
    assert not machine.call(policy, "u", p=f"{SERVER}/data/x").decide(WRITE, f"{SERVER}/data/x").allowed


def test_mcpwraps_code_and_the_directories_of_path_are_write_protected() -> None:
    machine = Machine(directories="/opt/mcpwrap /opt/tools/bin")
    policy = machine.policy('[tools.t]\nfs_write = ["/opt/tools", "/opt/mcpwrap"]', own=("/opt/mcpwrap/lib",),
                            path=("/opt/tools/bin", HOME))  # fmt: skip
    effective = machine.call(policy)
    assert effective.decide(WRITE, "/opt/mcpwrap/lib/x.py").rule == "write-protected:mcpwrap"
    assert effective.decide(WRITE, "/opt/tools/bin/git").rule == "write-protected:PATH"
    assert effective.decide(WRITE, "/opt/tools/x").allowed


def test_an_installation_inside_a_private_place_is_readable_and_the_rest_is_not() -> None:
    machine = Machine(f"{HOME}/.cursor/srv/main.js {HOME}/.cursor/auth.json")
    policy = machine.policy("", installation=(f"{HOME}/.cursor/srv",))
    assert idle(policy).decide(READ, f"{HOME}/.cursor/srv/main.js").rule == "installation"
    assert idle(policy).decide(READ, f"{HOME}/.cursor/auth.json", host=True).rule == "private:.cursor"
