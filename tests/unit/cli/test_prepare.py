"""From a command line to a policy: which grant is taken, which is refused, and what is said without one."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

import pytest

from mcpwrap import profiles
from mcpwrap.errors import CommandNotFound, Error, GrantError
from mcpwrap.grant.document import PROFILES
from mcpwrap.options import Options
from mcpwrap.prepare import Prepared, prepare

MINIMAL = "schema = 1\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a server in it; everything above belongs to the user alone."""
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    (home / "work" / "server.py").write_text("")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")
    return home


def ready(home: Path, *words: str, **options: object) -> Prepared:
    command = (sys.executable, str(home / "work" / "server.py"), *words)
    return prepare(Options(**{"command": command, **options}))  # type: ignore[arg-type]


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_without_a_grant_file_named_paths_are_readable_and_said_so(home: Path) -> None:
    data = home / "work" / "data"
    data.mkdir()
    prepared = ready(home, str(data))
    assert prepared.grant_file == ""
    assert prepared.grant_path == f"{home}/.config/mcpwrap/grants/{prepared.name}.toml"
    assert [rule.path for rule in prepared.grant.server.paths if rule.id.startswith("named.")] == [str(data)]
    assert str(data) in prepared.warnings[0]


def test_a_named_path_that_is_private_is_printed_and_not_granted(home: Path) -> None:
    key = write(home / ".ssh" / "id", "key")
    prepared = ready(home, str(key))
    assert not [rule for rule in prepared.grant.server.paths if rule.id.startswith("named.")]
    assert any("not granted" in line and ".ssh" in line for line in prepared.warnings)


def test_the_grant_file_is_found_by_the_name_of_the_server(home: Path) -> None:
    name = ready(home).name
    file = write(home / ".config" / "mcpwrap" / "grants" / f"{name}.toml", MINIMAL)
    assert ready(home).grant_file == str(file)
    other = write(home / ".config" / "mcpwrap" / "grants" / "mine" / "second.toml", MINIMAL)
    assert ready(home, name="mine/second").grant_file == str(other)
    assert ready(home, name="mine/second").places.state.endswith("/mcpwrap/mine~second")


def test_a_grant_file_in_the_working_directory_is_not_looked_at(home: Path) -> None:
    write(home / "work" / "grant.toml", MINIMAL)
    assert ready(home).grant_file == ""


def test_a_named_grant_file_that_is_missing_is_an_error(home: Path) -> None:
    with pytest.raises(GrantError, match=r"missing\.toml"):
        ready(home, grant="missing.toml")


def test_a_grant_for_another_command_is_refused(home: Path) -> None:
    file = write(home / "g.toml", 'schema = 1\n[server]\ncommand = ["node"]\n')
    with pytest.raises(GrantError, match="another command"):
        ready(home, grant=str(file))


def test_a_grant_file_that_others_can_write_is_refused(home: Path) -> None:
    file = write(home / "g.toml", MINIMAL)
    file.chmod(0o666)
    with pytest.raises(GrantError, match="writable by others"):
        ready(home, grant=str(file))
    file.chmod(0o600)
    open_directory = home / "open"
    open_directory.mkdir()
    os.chmod(open_directory, 0o777)
    inside = write(open_directory / "g.toml", MINIMAL)
    with pytest.raises(GrantError, match="open"):
        ready(home, grant=str(inside))
    link = home / "link.toml"
    link.symlink_to(inside)
    with pytest.raises(GrantError, match="open"):
        ready(home, grant=str(link))


def test_a_grant_file_that_its_own_server_could_write_is_refused(home: Path) -> None:
    file = write(home / "work" / "g.toml", f'schema = 1\n[server]\nfs_write = ["{home}/work"]\n')
    with pytest.raises(GrantError, match="widen its own grant"):
        ready(home, grant=str(file))


def test_each_link_on_the_way_to_a_grant_file_lies_where_no_server_writes(home: Path) -> None:
    write(home / "safe" / "g.toml", f'schema = 1\n[server]\nfs_write = ["{home}/work"]\n')
    assert ready(home, grant=str(home / "safe" / "g.toml")).grant_file
    (home / "work" / "conf").symlink_to("../safe")
    (home / "twice").symlink_to(home / "work" / "conf")
    for grant in ("work/conf/g.toml", "twice/g.toml"):
        with pytest.raises(GrantError, match="widen its own grant"):
            ready(home, grant=str(home / grant))


def test_a_grant_file_that_another_server_could_write_is_refused(home: Path) -> None:
    file = write(home / "work" / "g.toml", MINIMAL)
    grants = home / ".config" / "mcpwrap" / "grants"
    write(grants / "npm" / "broken.toml", "fs_write = [")
    assert ready(home, grant=str(file)).grant_file
    write(grants / "npm" / "other.toml", f'schema = 1\n[startup]\nfs_write = ["{home}/work"]\n')
    with pytest.raises(GrantError, match="or another's"):
        ready(home, grant=str(file))


def test_no_profile_lets_a_server_write() -> None:
    """What other servers may write is read without the profiles of their grants."""
    for name in PROFILES:
        granting, _, _ = profiles.text(name).partition("[server.quiet]")
        assert "fs_write" not in granting


def test_a_grant_file_that_never_ends_is_not_waited_for(home: Path) -> None:
    os.mkfifo(home / "g.toml")
    with pytest.raises(GrantError, match="no regular file"):
        ready(home, grant=str(home / "g.toml"))
    (home / "loop").symlink_to("loop")
    with pytest.raises(GrantError, match="Too many levels"):
        ready(home, grant=str(home / "loop"))


def test_a_working_directory_that_is_gone_is_said(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "gone").mkdir()
    monkeypatch.chdir(home / "gone")
    (home / "gone").rmdir()
    with pytest.raises(Error, match="no working directory"):
        ready(home)


def test_where_all_programs_keep_their_files_is_no_path_named_for_this_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "conf").mkdir()
    monkeypatch.setattr("mcpwrap.prepare.start_environment", lambda _: {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "conf"))
    monkeypatch.setenv("DATA", str(home / "work"))
    named = [rule.path for rule in ready(home).grant.server.paths if rule.id.startswith("named.")]
    assert str(home / "work") in named
    assert str(home / "conf") not in named


def test_the_command_may_come_from_the_grant_file(home: Path) -> None:
    server = home / "work" / "server.py"
    text = f'schema = 1\n[server]\ncommand = ["{sys.executable}", "{server}"]\nprofile = ["python"]\n'
    file = write(home / "g.toml", text)
    prepared = prepare(Options(grant=str(file)))
    assert prepared.command == (sys.executable, str(server))
    with pytest.raises(Error, match="no command"):
        prepare(Options())


def test_the_environment_is_the_safe_list_the_grants_and_what_was_asked_for(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GRANTED", "ASKED", "SECRET"):
        monkeypatch.setenv(name, "1")
    # What a parent added for its child is passed on as well; here the parent added nothing.
    monkeypatch.setattr("mcpwrap.prepare.start_environment", lambda _: dict(os.environ))
    file = write(home / "g.toml", 'schema = 1\n[server]\nenv = ["GRANTED"]\n[server.set]\nOWN = "$STATE/x"\n')
    prepared = ready(home, grant=str(file), env=("ASKED",))
    assert prepared.environment["GRANTED"] == prepared.environment["ASKED"] == "1"
    assert prepared.environment["OWN"] == f"{prepared.places.state}/x"
    assert "SECRET" not in prepared.environment
    assert "SECRET" in prepared.withheld


def test_a_variable_that_was_asked_for_and_is_not_there_is_said(home: Path) -> None:
    file = write(home / "g.toml", MINIMAL)
    assert ready(home, grant=str(file), env=("CERTAINLY_UNSET",)).warnings == (
        "--env CERTAINLY_UNSET: it is not set, so nothing is passed on",
    )


def test_a_directory_that_has_to_be_made_first_is_said_once(home: Path) -> None:
    text = MINIMAL + '[tools.a]\nfs_write = ["~/notes/x", "~/notes/y", "~/new", "$STATE/x/y"]\n'
    file = write(home / "g.toml", text)
    assert ready(home, grant=str(file)).warnings == ("~/notes does not exist: create it",)


def test_what_holds_without_a_grant_file_is_said_and_kept_for_the_first_one(home: Path) -> None:
    prepared = ready(home)
    assert prepared.warnings[0].startswith(f"no grant file at {prepared.grant_path}: calls may read ")
    assert prepared.warnings[0].endswith("write nothing of yours; `mcpwrap show` prints the rest")
    assert tomllib.loads(prepared.keeps)["server"]["profile"] == ["python"]


def test_the_overlap_of_the_command_line_wins(home: Path) -> None:
    assert ready(home).policy.overlap == "auto"
    assert ready(home, overlap="serialize").policy.overlap == "serialize"


def test_what_mcpwrap_owns_is_private_to_no_server(home: Path) -> None:
    file = write(home / "elsewhere" / "g.toml", MINIMAL)
    facts = ready(home, grant=str(file)).facts
    assert str(file) in facts.withheld
    for place in (".local/share/mcpwrap", ".cache/mcpwrap", ".local/state/mcpwrap"):
        assert f"{home}/{place}" in facts.withheld
    assert facts.config == f"{home}/.config/mcpwrap"


@pytest.mark.usefixtures("home")
def test_a_program_that_does_not_exist_is_said() -> None:
    with pytest.raises(CommandNotFound):
        prepare(Options(command=("no-such-program",)))
