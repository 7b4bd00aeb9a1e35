"""What a launcher's cache says of a package; the server wrote it, so nothing of it is trusted but a version."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcpwrap.packages.cached import cached_version, installed_version
from mcpwrap.packages.launched import launched
from mcpwrap.packages.launcher import Package, package


def _package(command: str) -> Package:
    found = package(command.split())
    assert found is not None
    return found


def npx(cache: Path, spec: str, name: str, version: object, place: str = "a1") -> Path:
    directory = cache / "npm" / "_npx" / place
    inside = directory / "node_modules" / name
    inside.mkdir(parents=True)
    (directory / "package.json").write_text(json.dumps({"_npx": {"packages": [spec]}}))
    (directory / "node_modules" / ".package-lock.json").write_text("{}")
    (inside / "package.json").write_text(json.dumps({"name": name, "version": version}))
    return directory


def uvx(cache: Path, name: str, version: str, place: str = "e1") -> Path:
    directory = cache / "uv" / "archive-v0" / place
    (directory / "lib" / "python3.11" / "site-packages" / f"{name}-{version}.dist-info").mkdir(parents=True)
    (directory / "pyvenv.cfg").touch()
    return directory


def test_a_package_npx_unpacked_is_found_by_what_was_asked_for(tmp_path: Path) -> None:
    npx(tmp_path, "@s/p@1.2", "@s/p", "1.2.3")
    assert installed_version(_package("npx -y @s/p@1.2"), str(tmp_path)) == "1.2.3"
    assert installed_version(_package("npx -y @s/p"), str(tmp_path)) == ""
    assert installed_version(_package("npx -y @s/other@1.2"), str(tmp_path)) == ""


def test_the_environment_uv_made_last_is_the_one_that_runs(tmp_path: Path) -> None:
    os.utime(uvx(tmp_path, "mcp_server_time", "2026.1"), (1, 1))
    uvx(tmp_path, "mcp_server_time", "2026.2", "e2")
    uvx(tmp_path, "mcp_server_time_extra", "9.9", "e3")
    found = _package("uvx mcp-server-time")
    assert installed_version(found, str(tmp_path)) == cached_version(found, str(tmp_path)) == "2026.2"
    assert cached_version(_package("uvx mcp-server-time==2026.2"), str(tmp_path)) == "2026.2"
    assert cached_version(_package("uvx mcp-server-time==2026.1"), str(tmp_path)) == ""


@pytest.mark.parametrize("command", ["uvx p@latest", "uvx --with x p", "uvx --python 3.13 p"])
def test_what_is_more_than_what_is_there_must_be_asked_for(tmp_path: Path, command: str) -> None:
    uvx(tmp_path, "p", "1.0")
    assert cached_version(_package(command), str(tmp_path)) == ""
    assert installed_version(_package(command), str(tmp_path)) == "1.0"


@pytest.mark.parametrize("version", ["../../x", "1.0\n", "x", "1" * 80, 5, None, "\x1b[31m1"])
def test_what_is_no_version_is_none(tmp_path: Path, version: object) -> None:
    npx(tmp_path, "p", "p", version)
    assert installed_version(_package("npx p"), str(tmp_path)) == ""


def test_nothing_is_opened_that_the_server_put_in_the_way(tmp_path: Path) -> None:
    outside = tmp_path / "outside.json"
    outside.write_text('{"version": "6.6.6"}')
    cache = tmp_path / "cache"
    directory = npx(cache, "p", "p", "1.0")
    manifest = directory / "node_modules" / "p" / "package.json"
    manifest.unlink()
    manifest.symlink_to(outside)
    assert installed_version(_package("npx p"), str(cache)) == ""
    manifest.unlink()
    os.mkfifo(manifest)
    assert installed_version(_package("npx p"), str(cache)) == ""
    (directory / "node_modules" / "p").rename(tmp_path / "elsewhere")
    (directory / "node_modules" / "p").symlink_to(tmp_path / "elsewhere")
    assert installed_version(_package("npx p"), str(cache)) == ""


def test_a_cache_that_holds_it_is_used_without_asking(tmp_path: Path) -> None:
    npx(tmp_path, "p", "p", "1.0")
    home = str(tmp_path)
    made = launched(_package("npx p"), "/usr/bin/npx", str(tmp_path), {}, home, {})
    assert made.environment["npm_config_prefer_offline"] == "true"
    given = launched(
        _package("npx p"), "/usr/bin/npx", str(tmp_path), {}, home, {"npm_config_prefer_offline": "false"}
    )
    assert "npm_config_prefer_offline" not in given.environment, "the client's own word stands"
    cold = launched(_package("npx q"), "/usr/bin/npx", str(tmp_path), {}, home, {})
    assert "npm_config_prefer_offline" not in cold.environment


def test_uvs_own_lock_is_left_out_of_the_freeze(tmp_path: Path) -> None:
    made = launched(_package("uvx p"), "/usr/bin/uvx", str(tmp_path), {}, str(tmp_path), {})
    assert made.apart == ("uv/.lock",)
    uvx(tmp_path, "p", "1.0")
    assert launched(_package("uvx p"), "", str(tmp_path), {}, "", {}).environment["UV_OFFLINE"] == "1"
