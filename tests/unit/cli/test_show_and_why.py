"""`show` and `why` on a real grant file: what they print and how they exit."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import pytest

from mcpwrap.cli import show, why
from mcpwrap.cli.arguments import UsageError
from mcpwrap.errors import GrantError

if TYPE_CHECKING:
    from pathlib import Path

GRANT = """
[policy]
within = ["~/work"]
[tools.read_file]
fs_read = ["$arg:path"]
[tools.other]
fs_write = ["~/work/out"]
[tools.fetch]
net = ["$arg:url", "api.example.com", "*.example.org:*", "localhost:5432", "udp://ntp.example.org:123"]
unix = ["~/work/s.sock"]
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    home = tmp_path / "home"
    for name in ("work/out", ".ssh"):
        (home / name).mkdir(parents=True)
    (home / "work" / "a").touch()
    (home / ".ssh" / "id").touch()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home / "work")
    (tmp_path / "grant.toml").write_text(GRANT)
    return ["--grant", str(tmp_path / "grant.toml"), "--", sys.executable, "-c", "0"]


@pytest.fixture(autouse=True)
def trusted_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    # The directory of a test run is below /tmp, which others may write.
    monkeypatch.setattr("mcpwrap.grant.lookup.check_trust", lambda *_: None)


@pytest.mark.parametrize(
    ("question", "status", "said"),
    [
        (["read_file", "--read", "a", "--args", '{"path": "a"}'], 0, "allowed by tools.read_file.fs_read[0]"),
        (["read_file", "--read", "~/work/a", "--args", '{"path": "b"}'], 1, '    "~/work/a"'),
        (["read_file", "--read", "~/.ssh/id"], 1, "refused by private:.ssh"),
        (["other", "--write", "~/work/out/x"], 0, "tools.other.fs_write[0]"),
        (["other", "--write", "out/.git/config"], 1, "write-protected:.git/config"),
        (["other", "--exec", "sh"], 1, "no-grant"),
        (["other", "--exec", sys.executable], 0, "command"),
        (
            ["read_file", "--read", "/x", "--args", '{"path": "/etc/x"}'],
            1,
            "binds nothing: the path lies outside",
        ),
        (
            ["fetch", "--connect", "api.example.com"],
            0,
            "allowed by tools.fetch.net[1]\nIt may be on a private network",
        ),
        (["fetch", "--connect", "API.example.com:443"], 0, "tools.fetch.net[1]"),
        (["fetch", "--connect", "api.example.com:80"], 1, '    "api.example.com:80"'),
        (["fetch", "--connect", "a.example.org:1"], 0, "Where it leads is judged as well"),
        (["fetch", "--connect", "[::1]:5432"], 0, "tools.fetch.net[3]"),
        (["fetch", "--connect", "127.1:5432"], 0, "tools.fetch.net[3]"),
        (["fetch", "--connect", "udp://ntp.example.org:123"], 0, "tools.fetch.net[4]"),
        (
            ["fetch", "--connect", "x.example:8", "--args", '{"url": "http://x.example:8/"}'],
            0,
            "tools.fetch.net[0]",
        ),
        (
            ["fetch", "--connect", "x.example", "--args", '{"url": "http://10.1.1.1/"}'],
            1,
            "binds nothing: the host is this",
        ),
        (["fetch", "--connect", "169.254.169.254:80"], 1, "address-guard:metadata"),
        (["other", "--connect", "x.example"], 1, "[tools.other]"),
        (["fetch", "--lookup", "anything.example"], 0, "look up"),
        (["fetch", "--lookup", "localhost"], 0, "tools.fetch.net[3]"),
        (["fetch", "--lookup", "127.0.0.1"], 1, "no-host"),
        (["fetch", "--socket", "s.sock"], 0, "tools.fetch.unix[0]"),
        (["other", "--socket", "s.sock"], 1, 'unix = ["~/work/s.sock"]'),
        (["fetch", "--socket", "/run/docker.sock"], 1, "private:/run/docker.sock"),
    ],
)
def test_why_exits_with_the_answer_and_names_the_rule(
    command: list[str], question: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why.run(question + command) == status
    assert said in capsys.readouterr().out


def test_why_speaks_json(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert why.run(["read_file", "--read", "~/work/a", "--json", *command]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["allowed"], answer["rule"]) == (False, "no-grant")
    assert answer["offer"].startswith("[tools.read_file]")
    assert answer["place"].startswith("fs_read of [tools.read_file] (line ")


def test_show_names_what_is_withheld(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "1")
    monkeypatch.setattr("mcpwrap.prepare.start_environment", lambda _: dict(os.environ))
    assert show.run(command) == 0
    out = capsys.readouterr().out
    line = next(line for line in out.splitlines() if line.startswith("withheld "))
    assert "SOME_TOKEN" in out[out.index(line) :].partition("\n\n")[0]


@pytest.mark.parametrize(
    "question",
    [[], ["t"], ["t", "u", "--read", "x"], ["t", "--read", "a", "--write", "b"], ["t", "--read", "a", "--args", "["],
     ["t", "--read", "a", "--args", "[]"], ["t", "--read", "a\0"], ["t", "--exec", "no-such-program"],
     ["t", "--connect", "https://x.example/"], ["t", "--connect", "x:0x"], ["t", "--connect", ""],
     ["t", "--connect", "udp://x.example"], ["t", "--connect", "a b"], ["t", "--connect", "x", "--lookup", "x"]],
)  # fmt: skip
def test_why_refuses_questions_it_cannot_read(command: list[str], question: list[str]) -> None:
    with pytest.raises(UsageError):
        why.run(question + command)


def test_show_prints_each_phase_and_tool_with_its_rules(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show.run(command) == 0
    text = capsys.readouterr().out
    for piece in ("tools.read_file.fs_read[0]", "tools.other.fs_write[0]", "private:.ssh", "home", "system"):
        assert piece in text


def test_show_of_one_tool_leaves_the_others_out(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert show.run(["other", *command]) == 0
    text = capsys.readouterr().out
    assert "tools.other.fs_write[0]" in text
    assert "tools.read_file" not in text


def test_show_speaks_json_and_prints_the_plan(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert show.run(["--json", *command]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert "tool" in {section["kind"] for section in shown["sections"]}
    assert show.run(["--plan", *command]) == 0
    assert "landlock" in capsys.readouterr().out


def test_a_grant_that_is_wrong_is_an_error_of_both(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "grant.toml").write_text("[tools.t]\nfs_raed = []\n")
    with pytest.raises(GrantError):
        show.run(command)
    with pytest.raises(GrantError):
        why.run(["t", "--read", "x", *command])


def test_show_lists_what_is_reached_and_checked_and_what_is_given_up(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "grant.toml").write_text(
        '[policy]\nunknown_tools = "allow"\nsni = "any"\nwindow_limit = "90s"\n'
        '[tools.fetch]\nnet = ["$arg:url in *.wikipedia.org", "api.example.com", "any"]\n'
        f'args.url = {{ max_length = 9 }}\npin = "sha256:{"0" * 64}"\n'
        '[tools."*"]\nunix = ["~/.ssh/agent"]\n[resources]\nlisten = ["8080"]\n'
        '[server.quiet]\nnet = ["telemetry.example.com"]\n'
    )
    show.run(command)
    whole = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    show.run(["fetch", *command])
    fetch = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    agent = f"reach {tmp_path}/home/.ssh/agent tools.*.unix[0]"
    for line in (
        "reach the host of $arg:url, if it is *.wikipedia.org tools.fetch.net[0] (on 443, 80 and the port it names)",
        "reach api.example.com:443 tools.fetch.net[1]",
        "check argument url tools.fetch.args.url (not longer than 9)",
        f"pin sha256:{'0' * 64} tools.fetch.pin (another description is refused)",
        "wider every public address tools.fetch.net[2] (data can be sent anywhere)",
        "wider tools nobody listed policy.unknown_tools (may be called, with the grant of [server])",
        "quiet telemetry.example.com:443 server.quiet.net[0]",
    ):
        assert line in whole
        assert line in fetch
    assert (
        "calls keep their grant for 90s; those of unknown tools are allowed; what one is refused is told"
        in ("\n".join(whole))
    )
    assert "serve port 8080 resources.listen[0] (from this machine only)" in whole
    assert any(line.startswith(agent.replace("*", '"*"')) and "private:.ssh" in line for line in fetch)
