"""The command line: what is read, what is refused, and what the error says."""

from __future__ import annotations

import pytest

from mcpwrap.cli.arguments import UsageError, parse
from mcpwrap.cli.main import COMMANDS, help_text, main
from mcpwrap.errors import EXIT_CANNOT_CONFINE, EXIT_FAILED
from mcpwrap.options import Options


def test_everything_behind_the_first_dashes_is_the_command() -> None:
    parsed = parse(["--grant", "g", "--", "npx", "--", "--grant", "x"])
    assert parsed.options == Options(command=("npx", "--", "--grant", "x"), grant="g")


def test_every_option_is_read_in_both_spellings() -> None:
    expected = Options(
        command=("c",),
        grant="g",
        name="n",
        env=("A", "B", "C"),
        require="B",
        overlap="union",
        max_line=2048,
        limit_memory=512 * 1024**2,
        limit_processes=10,
        limit_files=100,
        audit_arguments=True,
    )
    pairs = {
        "--grant": "g",
        "--name": "n",
        "--env": "A,B",
        "--require": "B",
        "--overlap": "union",
        "--max-line": "2K",
        "--limit-memory": "512MiB",
        "--limit-processes": "10",
        "--limit-files": "100",
    }
    spaced = [word for pair in pairs.items() for word in pair]
    joined = [f"{name}={value}" for name, value in pairs.items()]
    for words in (spaced, joined):
        assert parse([*words, "--env", "C", "--audit-arguments", "--", "c"]).options == expected


def test_a_command_may_have_options_and_words_of_its_own() -> None:
    parsed = parse(["tool", "--read", "/x", "--json", "--", "c"], values=("--read",), flags=("--json",))
    assert parsed.words == ("tool",)
    assert parsed.values == {"--read": "/x"}
    assert parsed.flags == {"--json"}


@pytest.mark.parametrize(
    ("argv", "what", "way_out"),
    [
        (["--gran", "x", "--", "c"], "--gran", "--grant"),
        (["--grant"], "needs a value", ""),
        (["--grant=", "--", "c"], "not empty", ""),
        (["--audit-arguments=yes"], "takes no value", ""),
        (["--"], "no command", "COMMAND"),
        (["--require", "Z"], "'Z'", "one of: B"),
        (["--overlap", "x"], "'x'", "serialize"),
        (["--max-line", "12x"], "12x", "512M"),
        (["--max-line", "1"], "--max-line cannot be 1", "1024"),
        (["--max-line", "9" * 30], "number", ""),
        (["--env", "A=b"], "A=b", "LOG_LEVEL"),
        (["--env", "A,LD_PRELOAD"], "LD_PRELOAD is never passed", "script"),
        (["--\x1b[31m"], r"\x1b", ""),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(argv: list[str], what: str, way_out: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(argv)
    assert what in raised.value.what
    assert way_out in raised.value.way_out


def test_help_names_the_five_words_and_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert text == help_text()
    for word in ("grant", "call window", "denial", "audit", "tier", *COMMANDS):
        assert f"  {word} " in text
    assert max(map(len, text.splitlines())) <= 110


def test_no_words_at_all_is_an_error_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == EXIT_FAILED
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == help_text()


@pytest.mark.parametrize("command", ["enforce", "show", "why", "check", "audit", "doctor"])
def test_every_command_refuses_words_it_does_not_know_alike(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--no-such-option"]) == EXIT_FAILED
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["enforce", "show", "why", "check", "audit", "doctor"])
@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__", "GCONV_PATH", "LOCPATH"]
)
def test_no_command_goes_on_where_a_variable_has_put_code_into_it(
    name: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "/x")
    assert main([command]) == EXIT_CANNOT_CONFINE
    assert f"{name} is set" in capsys.readouterr().err


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("mcpwrap 0.")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["audt"], "mcpwrap audit"),
        (["npx", "-y", "x"], "mcpwrap -- npx -y x"),
    ],
)
def test_an_unknown_command_names_the_nearest(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == EXIT_FAILED
    assert hint in capsys.readouterr().err


def test_words_of_the_command_are_not_mistaken_for_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "--", "--help"]) == EXIT_FAILED
    assert "usage: mcpwrap [OPTIONS]" not in capsys.readouterr().out


def test_a_stray_word_before_the_dashes_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["enforce", "npx", "--", "x"]) == EXIT_FAILED
    assert "behind `--`" in capsys.readouterr().err
