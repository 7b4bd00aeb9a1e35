"""What is configured on a machine becomes hosts for `net` and words for the launcher; credentials do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpwrap import profiles
from mcpwrap.packages.launcher import Package, package
from mcpwrap.packages.registry import Registries, registries


def _package(command: str) -> Package:
    found = package(command.split())
    assert found is not None
    return found


class Machine:
    def __init__(self, base: Path) -> None:
        self.home = base / "home"
        self.npm = base / "node" / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
        self.npm.parent.mkdir(parents=True)
        self.npm.touch()
        self.home.mkdir()
        self.environ: dict[str, str] = {}

    def file(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def asked(self, command: str = "npx p") -> Registries:
        return registries(_package(command), self.environ, str(self.home), str(self.npm))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_configuration_the_public_registry_is_asked_and_nothing_told(machine: Machine) -> None:
    machine.environ["npm_config_globalconfig"] = str(machine.home / "none")
    found = machine.asked()
    assert found.hosts["NPM_REGISTRY"] == profiles.PUBLIC["NPM_REGISTRY"]
    assert (dict(found.environment), found.notes) == ({}, ())
    found = machine.asked("uvx p")
    assert found.hosts["PYPI_INDEX"] == profiles.PUBLIC["PYPI_INDEX"]
    assert (dict(found.environment), found.notes) == ({}, ())


def test_npm_is_configured_by_its_files_and_then_by_variables(machine: Machine) -> None:
    prefix = machine.npm.parents[4]
    (prefix / "etc").mkdir()
    (prefix / "etc" / "npmrc").write_text("registry=https://machine.example/npm/\ncafile = /etc/ssl/ca.pem\n")
    assert machine.asked().hosts["NPM_REGISTRY"] == ("machine.example",)
    machine.file(
        ".npmrc",
        '; mine\nregistry = "http://localhost:4873/"\n@corp:registry=https://npm.corp.example:8443/\n',
    )
    found = machine.asked()
    assert found.hosts["NPM_REGISTRY"] == ("localhost:4873", "npm.corp.example:8443")
    assert found.environment == {
        "npm_config_registry": "http://localhost:4873/",
        "npm_config_@corp:registry": "https://npm.corp.example:8443/",
        "npm_config_cafile": "/etc/ssl/ca.pem",
    }
    machine.environ["NPM_CONFIG_REGISTRY"] = "https://variable.example"
    assert machine.asked().hosts["NPM_REGISTRY"][0] == "variable.example"
    assert (
        machine.asked("npx --registry https://option.example p").hosts["NPM_REGISTRY"][0] == "option.example"
    )


def test_a_variable_in_an_npmrc_is_expanded(machine: Machine) -> None:
    machine.file(".npmrc", "registry=https://${WHERE}/\n")
    machine.environ["WHERE"] = "there.example"
    assert machine.asked().hosts["NPM_REGISTRY"] == ("there.example",)


def test_a_token_stays_behind_and_that_is_said(machine: Machine) -> None:
    file = machine.file(".npmrc", "registry=https://u:secret@r.example/\n//r.example/:_authToken=secret\n")
    found = machine.asked()
    assert found.environment["npm_config_registry"] == "https://r.example/"
    (note,) = found.notes
    assert f'fs_read = ["{file}"]' in note
    assert "secret" not in repr(found)


def test_a_npmrc_in_the_working_directory_is_not_asked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.environ["npm_config_globalconfig"] = str(machine.home / "none")
    work = machine.file("work/.npmrc", "registry=https://evil.example/\n").parent
    monkeypatch.chdir(work)
    assert machine.asked().hosts["NPM_REGISTRY"] == profiles.PUBLIC["NPM_REGISTRY"]


def test_uv_is_configured_by_its_file_and_then_by_variables(machine: Machine) -> None:
    machine.file(
        ".config/uv/uv.toml",
        'native-tls = true\n[[index]]\nname = "corp"\nurl = "https://corp.example/simple"\ndefault = true\n'
        '[[index]]\nurl = "https://more.example:8443/simple"\n',
    )
    found = machine.asked("uvx p")
    assert found.hosts["PYPI_INDEX"] == ("corp.example", "more.example:8443")
    assert found.environment == {
        "UV_DEFAULT_INDEX": "https://corp.example/simple",
        "UV_INDEX": "https://more.example:8443/simple",
        "UV_NATIVE_TLS": "1",
    }
    machine.environ |= {
        "UV_DEFAULT_INDEX": "https://u:pw@v.example/simple",
        "UV_INDEX": "x=https://w.example/s",
    }
    found = machine.asked("uvx p")
    assert found.hosts["PYPI_INDEX"] == ("v.example", "more.example:8443", "w.example")
    assert found.environment["UV_DEFAULT_INDEX"] == "https://v.example/simple"
    assert "pw" not in found.environment["UV_DEFAULT_INDEX"] + "".join(found.notes)
    assert len(found.notes) == 1


def test_what_cannot_be_read_configures_nothing(machine: Machine) -> None:
    machine.environ["npm_config_globalconfig"] = "/dev/zero"
    machine.file(".config/uv/uv.toml", "no toml [")
    (machine.home / ".npmrc").mkdir()
    assert machine.asked().environment == {}
    assert machine.asked("uvx p").environment == {}


def test_a_profile_names_what_is_configured() -> None:
    text = profiles.text("npx", {"NPM_REGISTRY": ("a.example", "b.example:8443")})
    assert 'net = ["a.example", "b.example:8443"]' in text
    assert "$NPM_REGISTRY" not in profiles.text("npx")
