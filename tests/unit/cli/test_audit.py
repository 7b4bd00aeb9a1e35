"""`mcpwrap audit`: the last run, of one server or of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpwrap.audit.record import encode
from mcpwrap.cli.main import main

AT = "2026-11-30T18:17:57.707Z"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "mcpwrap" / "audit"


def write(root: Path, name: str, stamp: str) -> None:
    (root / name).mkdir(parents=True, exist_ok=True)
    denial = {"act": "read", "object": "/x", "rule": "no-grant", "count": 1, "sentence": "", "offer": ""}
    run: list[dict[str, object]] = [
        {"kind": "run", "name": name, "command": ["c", stamp], "grant": ""},
        {"kind": "opened", "window": "w1", "tool": "first", "bound": []},
        {"kind": "closed", "window": "w1", "tool": "first", "how": "answered", "ms": 1, "denials": [denial]},
        {"kind": "opened", "window": "w2", "tool": "second", "bound": []},
        {"kind": "closed", "window": "w2", "tool": "second", "how": "answered", "ms": 1},
        {"kind": "exit", "status": 0, "reason": "r", "seconds": 1},
    ]
    file = root / name / f"{stamp}-1.jsonl"
    file.write_bytes(b"".join(encode(AT, record) for record in run))


def test_the_last_run_of_any_server_is_printed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "npm/a", "20200101T000001.000Z")
    write(root, "pypi/b", "20200101T000002.000Z")
    write(root, "npm/a", "20200101T000000.000Z")
    assert main(["audit"]) == 0
    assert capsys.readouterr().out.startswith("pypi/b  ")
    assert main(["audit", "--name", "npm/a"]) == 0
    assert "c 20200101T000001.000Z" in capsys.readouterr().out
    assert main(["audit", "--list"]) == 0
    assert capsys.readouterr().out == "npm/a\npypi/b\n"


def test_json_is_what_was_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "a", "20200101T000000.000Z")
    assert main(["audit", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [
        "run",
        "opened",
        "closed",
        "opened",
        "closed",
        "exit",
    ]


def test_last_is_the_last_call_that_was_refused_something(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(root, "a", "20200101T000000.000Z")
    assert main(["audit", "--last"]) == 0
    text = capsys.readouterr().out
    assert "first" in text
    assert "second" not in text


def test_last_may_be_a_call_that_was_never_started(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(root, "a", "20200101T000000.000Z")
    with (root / "a" / "20200101T000000.000Z-1.jsonl").open("ab") as file:
        file.write(encode(AT, {"kind": "refused", "tool": "third", "request": 3, "rule": "pin", "why": "w"}))
    assert main(["audit", "--last"]) == 0
    text = capsys.readouterr().out
    assert "third  not started" in text
    assert "first" not in text


def test_a_run_without_a_refusal_is_no_failure(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "a").mkdir(parents=True)
    record = encode(AT, {"kind": "run", "name": "a", "command": ["c"], "grant": ""})
    (root / "a" / "20200101T000000.000Z-1.jsonl").write_bytes(record)
    assert main(["audit", "--last"]) == 0
    assert capsys.readouterr().out == "no call was refused anything in the last run\n"


def test_what_was_refused_while_no_call_was_open_is_counted(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "a").mkdir(parents=True)
    refused = {"kind": "operation", "windows": [], "act": "read", "need": "read", "object": "/x", "rule": "no-grant",
               "allowed": False, "pid": 1, "errno": 13}  # fmt: skip
    run: list[dict[str, object]] = [
        {"kind": "run", "name": "a", "command": ["c"], "grant": ""},
        refused,
        {**refused, "quiet": True},
        {**refused, "allowed": True},
        {**refused, "windows": ["w1"]},
    ]
    (root / "a" / "20200101T000000.000Z-1.jsonl").write_bytes(b"".join(encode(AT, each) for each in run))
    assert main(["audit", "--last"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1:] == ["outside of calls 1 operations were: `mcpwrap audit` prints them"]


def test_no_audit_is_said(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit"]) == 1
    assert str(root) in capsys.readouterr().err


@pytest.mark.usefixtures("root")
def test_a_name_that_leaves_the_directory_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--name", "../../x"]) != 0
    assert "is no name" in capsys.readouterr().err
