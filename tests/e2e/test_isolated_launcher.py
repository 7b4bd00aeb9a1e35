"""The installed command runs nobody's code but its own, whatever its environment and directory hold.

A client's config may set PYTHONPATH for its server, and starts the launcher in a directory the server's
repository controls. The launcher is not confined, so code it picks up there would run with all rights.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 120
HOSTILE = (
    "sitecustomize.py",
    "usercustomize.py",
    "json.py",
    "re.py",
    "mcpwrap/__init__.py",
    "mcpwrap/__main__.py",
)

pytestmark = pytest.mark.needs("hatchling")


@dataclass(frozen=True)
class Installed:
    """A clean environment with the wheel in it, and a directory full of modules that tell on themselves."""

    bin: Path
    hostile: Path
    mark: Path

    def run(
        self, command: Path, *arguments: str, name: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run in the hostile directory, with it on PYTHONPATH."""
        self.mark.unlink(missing_ok=True)
        environ = {
            "PATH": f"{command.parent}:/usr/bin:/bin",
            "HOME": str(self.hostile),
            "PYTHONPATH": str(self.hostile),
            "PYTHONSTARTUP": str(self.hostile / "sitecustomize.py"),
            "PYTHONUSERBASE": str(self.hostile),
        }
        return subprocess.run(
            [name or str(command), *arguments],
            cwd=self.hostile,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            executable=str(command),
        )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    subprocess.run([*build, "--wheel-dir", directory, ROOT], check=True, timeout=SECONDS)
    return next(directory.glob("mcpwrap-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("installed")
    venv.create(base / "venv", with_pip=False, symlinks=True)
    pip = [sys.executable, "-m", "pip", "--python", str(base / "venv" / "bin" / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-index", "--no-deps", wheel], check=True, timeout=SECONDS)
    mark = base / "mark"
    for name in HOSTILE:
        file = base / "hostile" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"open({str(mark)!r}, 'a').write(__file__ + '\\n')\n")
    return Installed(base / "venv" / "bin", base / "hostile", mark)


def test_the_wheel_carries_a_shell_script_and_not_an_entry_point(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        script = next(name for name in names if name.endswith(".data/scripts/mcpwrap"))
        assert archive.read(script).startswith(b"#!/bin/sh\n")
    assert not [name for name in names if name.endswith("entry_points.txt")]
    assert [name for name in names if name.startswith("mcpwrap/profiles/") and name.endswith(".toml")]


def test_the_same_modules_would_run_in_a_python_that_is_not_isolated(installed: Installed) -> None:
    installed.run(installed.bin / "python", "-m", "mcpwrap", "--help")
    assert installed.mark.read_text().count("\n") >= 2


def test_the_command_runs_none_of_the_modules_around_it(installed: Installed) -> None:
    done = installed.run(installed.bin / "mcpwrap", "--help")
    assert done.returncode == 0, done.stderr
    assert "mcpwrap" in done.stdout
    assert not installed.mark.exists()


def test_a_link_from_another_directory_finds_the_same_interpreter(
    installed: Installed, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "first").symlink_to(installed.bin / "mcpwrap")
    link = tmp_path / "bin" / "mcpwrap"
    link.symlink_to("../first")
    done = installed.run(link, "--help")
    assert done.returncode == 0, done.stderr
    assert not installed.mark.exists()


def test_a_command_found_on_path_is_isolated_too(installed: Installed) -> None:
    done = installed.run(Path("/bin/sh"), "-c", f'PATH="{installed.bin}:$PATH"; mcpwrap --help')
    assert done.returncode == 0, done.stderr
    assert not installed.mark.exists()


@pytest.mark.needs("landlock", "userns", "seccomp", "user")
def test_no_stage_of_a_whole_run_picks_them_up(installed: Installed) -> None:
    done = installed.run(installed.bin / "mcpwrap", "--", "/bin/sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    assert not installed.mark.exists()
