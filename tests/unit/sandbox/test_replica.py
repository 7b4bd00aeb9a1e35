"""What of an installation is copied, and what in it stays the original."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox import replica
from mcpwrap.sandbox.installation import NO_INSTALLATION, Installation
from mcpwrap.sandbox.replica import copy, survey


@pytest.fixture
def server(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "server"
    (root / "lib").mkdir(parents=True)
    (root / "server.py").write_text("print()")
    (root / "lib" / "native.so").write_bytes(b"\x7fELF....")
    (root / "run").write_text("#!/bin/sh\n")
    (root / "run").chmod(0o755)
    (root / "stray.md").write_text("# an executable text")
    (root / "stray.md").chmod(0o755)
    (root / "script.txt").write_text("#!/bin/sh\n")
    (root / "link").symlink_to("server.py")
    return root


def installed(*roots: Path, program: str = "", interpreter: str = "/usr/bin/python3") -> Installation:
    return NO_INSTALLATION._replace(
        program=program or str(roots[0] / "server.py"),
        roots=tuple(map(str, roots)),
        programs=(interpreter,),
    )


def test_native_files_stay_and_data_is_copied_with_its_times(server: Path, tmp_path: Path) -> None:
    os.utime(server / "server.py", ns=(1, 5_000_000_000))
    (made,) = survey(installed(server), str(tmp_path / "state" / "s"))
    assert sorted(made.native) == [str(server / "lib" / "native.so"), str(server / "run")]
    os.close(copy([made]))
    kept = Path(made.source)
    assert (kept / "server.py").read_text() == "print()"
    assert (kept / "server.py").stat().st_mtime_ns == 5_000_000_000
    assert os.readlink(kept / "link") == "server.py"
    assert (kept / "lib" / "native.so").read_bytes() == b"", "a place to bind the original to"
    assert not (kept / "stray.md").stat().st_mode & 0o111
    assert survey(installed(server), str(tmp_path / "state" / "s")) == (made,), "found again"


@pytest.mark.parametrize("change", ["content", "name", "mode", "link"])
def test_a_change_of_the_original_is_another_copy(server: Path, tmp_path: Path, change: str) -> None:
    state = str(tmp_path / "state" / "s")
    (before,) = survey(installed(server), state)
    if change == "content":
        (server / "server.py").write_text("print(2)")
    elif change == "name":
        (server / "server.py").rename(server / "other.py")
    elif change == "mode":
        (server / "script.txt").chmod(0o755)
    else:
        (server / "link").unlink()
        (server / "link").symlink_to("run")
    (after,) = survey(installed(server), state)
    assert after.source != before.source


def test_an_interpreters_prefix_is_copied_only_with_a_server_installed_into_it(
    server: Path, tmp_path: Path
) -> None:
    prefix = tmp_path.resolve() / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python3").write_bytes(b"\x7fELF")
    (prefix / "server.py").write_text("")
    interpreter = str(prefix / "bin" / "python3")
    state = str(tmp_path / "state" / "s")
    apart = survey(installed(server, prefix, interpreter=interpreter), state)
    assert [each.root for each in apart] == [str(server)]
    inside = survey(installed(prefix, interpreter=interpreter), state)
    assert [each.root for each in inside] == [str(prefix)]


def test_nothing_to_copy_and_too_much_are_said(
    server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = str(tmp_path / "state" / "s")
    with pytest.raises(CannotConfine, match="no installation of its own"):
        survey(installed(program="/usr/bin/server")._replace(roots=()), state)
    monkeypatch.setattr(replica, "MAX_NATIVE", 1)
    with pytest.raises(CannotConfine, match="native files"):
        copy(survey(installed(server), state))
    assert not list((tmp_path / "state" / replica.STORE / "s").iterdir()), "nothing is left half made"
    monkeypatch.setattr(replica, "MAX_FILES", 3)
    with pytest.raises(CannotConfine, match="at most 3 files"):
        survey(installed(server), state)
