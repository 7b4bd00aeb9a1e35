from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from mcpwrap.cli import check
from mcpwrap.cli.main import main
from mcpwrap.errors import EXIT_BAD_GRANT, EXIT_FAILED

if TYPE_CHECKING:
    from pathlib import Path

GRANT = """\
[server]
profile = ["git"]
fs_read = ["/srv/shared"]
[startup]
exec = ["git"]
[policy]
within = ["{root}"]
[tools."read_*|list"]
fs_read = ["$arg:path"]
[tools.write_file]
fs_write = ["$arg:path", "$STATE/x"]
fs_deny = ["**/.git/**"]
exec = ["git"]
[tools.echo]
[tools."*"]
fs_read = ["/srv/all"]
"""


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def test_a_right_file_is_summed_up_by_tool(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.toml"
    file.write_text(GRANT.format(root=tmp_path / "home" / ".."), encoding="utf-8")
    assert check.run([str(file)]) == 78  # ".." in a root
    capsys.readouterr()
    (tmp_path / "w").mkdir()
    file.write_text(GRANT.format(root=tmp_path / "w"), encoding="utf-8")
    assert check.run([str(file)]) == 0
    out, err = capsys.readouterr()
    assert [line.partition(": ")[2].partition(": ")[2] for line in err.splitlines()] == [
        "/srv/shared does not exist",
        "/srv/all does not exist",
    ]
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "ok: 8 rules for 4 tools (profiles: base, git)",
        f"$arg within {tmp_path}/w",
        "always reads /srv/shared",
        "start-up runs git",
        "read_*|list reads $arg:path",
        "write_file reads and writes $arg:path, $STATE/x; never **/.git/**; runs git",
        "echo nothing of its own",
        "every tool reads /srv/all",
    ]


def test_what_is_right_and_may_not_be_meant_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home" / ".ssh").mkdir()
    file = tmp_path / "g.toml"
    file.write_text(
        '[server]\nfs_read = ["~/.ssh"]\nexec = ["no-such-program"]\n[tools.t]\nfs_write = ["~/x/y", "~/.bashrc"]\n'
    )
    file.chmod(0o666)
    assert check.run([str(file)]) == EXIT_BAD_GRANT, "as a run does"
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        f"a run refuses this file: {file} is writable by others, who could grant what they like"
    )
    assert said[1] == f"  chmod go-w '{file}'"
    assert said[2:] == [
        f"warning: {file}:3:9: no program no-such-program here: the line grants nothing",
        f"warning: {file}:2:12: ~/.ssh is opened in spite of private:.ssh: it is named exactly",
        f"warning: {file}:5:13: ~/x/y does not exist",
        f"warning: {file}:5:22: ~/.bashrc does not exist",
        f"warning: {file}:5:22: ~/.bashrc is opened in spite of write-protected:.bashrc: it is named exactly",
    ]


def test_a_rule_that_one_of_the_server_makes_needless_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "home" / "work"
    (work / "a").mkdir(parents=True)
    file = tmp_path / "g.toml"
    file.write_text(
        '[server]\nfs_read = ["~/work"]\n[policy]\nwithin = ["~/work"]\n'
        '[tools.t]\nfs_read = ["$arg:path in ~/work/a", "~/work/.env"]\nfs_write = ["$arg:path"]\n'
        '[tools.u]\ninherit = false\nfs_read = ["$arg:path"]\n'
    )
    file.chmod(0o600)
    assert check.run([str(file)]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "adds nothing" in line]
    what = 'fs_read "$arg:path in ~/work/a" adds nothing: in every call [server] has fs_read "~/work"'
    assert said == [f"warning: {file}:6:12: {what}"]


def test_what_leads_out_of_the_sandbox_is_said_in_plain_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = tmp_path / "home" / "s"
    socket.touch()
    file = tmp_path / "g.toml"
    file.write_text(
        '[server]\nnested_sandbox = true\nlisten = ["8080", "any:81"]\n'
        '[policy]\non_denial = "error"\nwindow_limit = "2h"\n'
        '[tools.query]\nnet = ["localhost:5432", "*.example.org:*", "udp://[2001:db8::1]:53"]\n'
        f'unix = ["~/s"]\npin = "sha256:{"0" * 64}"\n'
        'args.limit = { type = "integer", max = 9 }\nargs."*" = { forbid = true }\n'
        '[tools.fetch]\nnet = ["$arg:url in a.example"]\nunix = ["/run/nothing"]\n[resources]\nnet = ["any"]\n'
        '[prompts]\nnet = ["*.com", "169.254.169.254:80", "10.0.0.1"]\n'
    )
    assert check.run([str(file)]) == 0
    out, err = capsys.readouterr()
    asked = "argument limit of type integer, at most 9; every other argument must not be given; pinned"
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "ok: 14 rules for 2 tools (profiles: base)",
        "always is reached at port 8080 from this machine only, port 81 from every address",
        "resources connects to every public address",
        "prompts connects to *.com:443, 169.254.169.254:80, 10.0.0.1:443",
        f"query connects to localhost:5432, *.example.org on every port, [2001:db8::1]:53 by UDP, {socket}; {asked}",
        "fetch connects to the host of $arg:url, if it is a.example, /run/nothing",
        "one call keeps its grant for 2h",
        "a refusal makes the answer of its call an error",
        "look twice user namespaces inside: more of the kernel can be reached (server.nested_sandbox)",
        "look twice port 81: can be reached from every address of this machine (server.listen[1])",
        "look twice every public address: data can be sent anywhere (resources.net[0])",
        "look twice *.com: whoever likes can have a name there, and receive data by it (prompts.net[0])",
    ]
    assert f"{file}:15:9: /run/nothing does not exist" in err
    assert [line for line in err.splitlines() if "credentials" in line] == [
        f'warning: {file}:19:17: "169.254.169.254:80" is where clouds hand out a machine\'s own credentials'
    ]


def test_a_socket_by_a_link_that_a_tool_may_change_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / "work").mkdir()
    (home / "real").touch()
    (home / "work" / "s").symlink_to("../real")
    file = tmp_path / "g.toml"
    file.write_text('[tools.t]\nfs_write = ["~/work"]\nunix = ["~/work/s"]\n')
    file.chmod(0o600)
    assert check.run([str(file)]) == 0
    warned = "~/work/s is reached by a link that a tool may change: name what it leads to"
    assert capsys.readouterr().err == f"warning: {file}:3:9: {warned}\n"


def test_a_wrong_file_is_exit_78_with_the_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.toml"
    file.write_text("[server]\nfs_raed = []\n", encoding="utf-8")
    assert check.run([str(file)]) == 78
    assert capsys.readouterr().err.startswith(f'{file}:2:1: unknown key "fs_raed" in [server]\n')


@pytest.mark.parametrize("make", ["missing", "directory", "binary", "fifo"])
def test_what_is_no_file_is_a_plain_sentence(
    make: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "g.toml"
    if make == "directory":
        file.mkdir()
    elif make == "fifo":
        os.mkfifo(file)
    elif make == "binary":
        file.write_bytes(b"\x7fELF\xff\x00")
    assert check.run([str(file)]) == 78
    assert str(file) in capsys.readouterr().err


def test_a_missing_root_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.toml"
    file.write_text('[policy]\nwithin = ["/srv/certainly/not/there"]\n', encoding="utf-8")
    assert check.run([str(file)]) == 78
    assert "is no directory" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [[], ["a", "b"], ["--what"], ["a", "--name"]])
def test_another_command_line_prints_the_usage(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *argv]) == EXIT_FAILED
    assert "usage: mcpwrap check FILE" in capsys.readouterr().err


def test_help_is_printed_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.run(["--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: mcpwrap check FILE")


def test_a_name_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.toml"
    file.write_text('[server.set]\nA = "$STATE"\n', encoding="utf-8")
    assert check.run([str(file), "--name", "npm/@a/b"]) == 0
    assert check.run([str(file), "--name", "../x"]) == 78
    assert "--name ../x is no name" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ['env = ["LD_PRELOAD"]', '[server.set]\nLD_PRELOAD = "/x.so"', 'env = ["MCPWRAP_X"]']
)
def test_a_variable_that_is_never_passed_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "g.toml"
    file.write_text(f"[server]\n{text}\n", encoding="utf-8")
    assert check.run([str(file)]) == 78
    assert "is never passed to a server" in capsys.readouterr().err
