"""Shims of version managers, in the layouts the managers make, lead to what the manager would run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpwrap.errors import CommandNotFound
from mcpwrap.packages.shims import unshimmed

NATIVE = b"\x7fELF" + bytes(60)


class Machine:
    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.cwd = self.home / "work" / "project"
        self.cwd.mkdir(parents=True)
        self.environ = {"HOME": str(self.home)}

    def file(self, path: Path | str, text: str | bytes = "", mode: int = 0o644) -> Path:
        path = self.home / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    def program(self, path: str) -> Path:
        return self.file(path, NATIVE, 0o755)

    def real(self, shim: Path) -> str:
        return unshimmed(str(shim), self.environ, str(self.cwd))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_any_other_program_is_itself(machine: Machine) -> None:
    for path in ("/usr/bin/node", "/opt/shims/node", str(machine.program("bin/x"))):
        assert unshimmed(path, machine.environ, str(machine.cwd)) == path


@pytest.fixture
def asdf(machine: Machine) -> Path:
    for version in ("20.11.1", "22.3.0"):
        machine.program(f".asdf/installs/nodejs/{version}/bin/npx")
    text = "#!/usr/bin/env bash\n# asdf-plugin: nodejs 20.11.1\n# asdf-plugin: nodejs 22.3.0\nexec asdf exec npx\n"
    return machine.file(".asdf/shims/npx", text, 0o755)


def test_asdf_takes_the_nearest_tool_versions(machine: Machine, asdf: Path) -> None:
    installs = machine.home / ".asdf" / "installs" / "nodejs"
    machine.file(".tool-versions", "python 3.12.1\nnodejs 20.11.1 # the usual\n")
    assert machine.real(asdf) == str(installs / "20.11.1" / "bin" / "npx")
    machine.file("work/.tool-versions", "nodejs 99.0.0 22.3.0\n")
    assert machine.real(asdf) == str(installs / "22.3.0" / "bin" / "npx"), "the first that is installed"
    machine.environ["ASDF_NODEJS_VERSION"] = "20.11.1"
    assert machine.real(asdf) == str(installs / "20.11.1" / "bin" / "npx")


def test_asdf_may_leave_it_to_the_system(machine: Machine, asdf: Path) -> None:
    machine.file(".tool-versions", "nodejs system\n")
    assert machine.real(asdf) == ""


@pytest.mark.parametrize(
    "text", ["", "nodejs path:/tmp/evil\n", "nodejs ../../../evil\n", "nodejs ref:main\n", "nodejs 18\n"]
)
def test_what_asdf_would_not_know_is_not_guessed(machine: Machine, asdf: Path, text: str) -> None:
    machine.program("evil/bin/npx")
    machine.file("work/project/.tool-versions", text)
    with pytest.raises(CommandNotFound, match="shim of asdf") as refused:
        machine.real(asdf)
    assert "asdf which npx" in refused.value.way_out


@pytest.fixture
def mise(machine: Machine) -> Path:
    data = machine.home / ".local" / "share" / "mise"
    for version in ("20.11.1", "22.3.0"):
        machine.program(f".local/share/mise/installs/node/{version}/bin/node")
    for alias, version in (("20", "20.11.1"), ("22", "22.3.0"), ("latest", "22.3.0")):
        (data / "installs" / "node" / alias).symlink_to(f"./{version}")
    shim = data / "shims" / "node"
    shim.parent.mkdir()
    shim.symlink_to(machine.program(".local/bin/mise"))
    return shim


@pytest.mark.parametrize(
    ("file", "text", "version"),
    [
        (".config/mise/config.toml", '[tools]\nnode = "20"\n', "20.11.1"),
        ("work/mise.toml", '[tools]\nnode = { version = "22" }\n', "22.3.0"),
        ("work/project/.mise.toml", '[tools]\nnode = ["latest", "20"]\n', "22.3.0"),
        ("work/project/.tool-versions", "node 20.11.1\n", "20.11.1"),
    ],
)
def test_mise_is_configured_by_directory_and_then_for_the_user(
    machine: Machine, mise: Path, file: str, text: str, version: str
) -> None:
    machine.file(".config/mise/config.toml", '[tools]\nnode = "lts"\n')
    machine.file(file, text)
    real = machine.home / ".local" / "share" / "mise" / "installs" / "node" / version / "bin" / "node"
    assert machine.real(mise) == str(real)


def test_mise_without_a_version_is_not_guessed(machine: Machine, mise: Path) -> None:
    with pytest.raises(CommandNotFound, match="shim of mise"):
        machine.real(mise)
    machine.file("work/project/mise.toml", '[tools]\nnode = "../../../evil"\n')
    with pytest.raises(CommandNotFound, match="shim of mise"):
        machine.real(mise)
    machine.environ["MISE_NODE_VERSION"] = "22.3.0"
    assert "/22.3.0/" in machine.real(mise)


@pytest.fixture
def volta(machine: Machine) -> Path:
    for version in ("20.11.1", "22.3.0"):
        machine.program(f".volta/tools/image/node/{version}/bin/npx")
    shim = machine.home / ".volta" / "bin" / "npx"
    machine.program(".volta/bin/volta-shim")
    shim.symlink_to("volta-shim")
    return shim


def test_volta_takes_the_projects_pin_and_then_the_users_default(machine: Machine, volta: Path) -> None:
    image = machine.home / ".volta" / "tools" / "image" / "node"
    machine.file(".volta/tools/user/platform.json", '{"node": {"runtime": "20.11.1", "npm": null}}')
    assert machine.real(volta) == str(image / "20.11.1" / "bin" / "npx")
    machine.file("work/package.json", '{"volta": {"node": "22.3.0"}}')
    machine.file("work/project/package.json", "{}")
    assert machine.real(volta) == str(image / "22.3.0" / "bin" / "npx")
    machine.file("work/project/package.json", '{"volta": {"node": "../../../../evil"}}')
    with pytest.raises(CommandNotFound, match="shim of volta"):
        machine.real(volta)


def test_volta_knows_the_commands_of_packages(machine: Machine, volta: Path) -> None:
    machine.program(".volta/tools/image/packages/@s/server/bin/server")
    machine.file(".volta/tools/user/bins/server.json", json.dumps({"name": "server", "package": "@s/server"}))
    shim = volta.parent / "server"
    shim.symlink_to("volta-shim")
    assert machine.real(shim) == str(machine.home / ".volta/tools/image/packages/@s/server/bin/server")


def test_pyenv_takes_the_nearest_version_file(machine: Machine) -> None:
    for version in ("3.11.7", "3.12.1"):
        machine.program(f".pyenv/versions/{version}/bin/python3")
    shim = machine.file(".pyenv/shims/python3", "#!/usr/bin/env bash\n", 0o755)
    machine.file(".pyenv/version", "3.11.7\n")
    assert "/3.11.7/" in machine.real(shim)
    machine.file("work/.python-version", "3.12.1\n")
    assert "/3.12.1/" in machine.real(shim)
    machine.file("work/project/.python-version", "system\n")
    assert machine.real(shim) == ""
