"""Package launchers with real packages from the registry that is configured here: cold, warm, and held.

The registry stands in `[startup]` only. What machine tests run on may reach it at an address that is nobody's
public one: that address is then granted beside it, in `[startup]` too.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcpwrap import profiles
from mcpwrap.packages.launcher import package
from mcpwrap.packages.registry import Registries, registries
from mcpwrap.policy.addresses import classify
from mcpwrap.sandbox.environment import CERTIFICATES
from tests.e2e.client import Session, failed, text
from tests.e2e.corpus import Bench, Row, bench, mcpwrap

pytestmark = pytest.mark.needs("landlock", "userns", "seccomp", "user", "node", "npm")

COLD_SECONDS = 240.0
"""Thousands of small files, each decided on, behind a slow mirror, on a machine that does other things."""
CONNECT_SECONDS = 10

MEMORY = "@modelcontextprotocol/server-memory@2026.8.31"
TIME = "mcp-server-time==2026.10.19"
FETCH = "mcp-server-fetch"

Installed = Callable[[str], Path]


class Launched:
    """One server that a launcher makes, over several runs with one cache."""

    def __init__(self, name: str, command: list[str], tools: str, *, beside: tuple[Path, ...] = ()) -> None:
        passed = {key: value for key, value in os.environ.items() if key in CERTIFICATES}
        path = ":".join([*(str(each.parent) for each in beside), os.environ["PATH"]])
        self.found = _configured(command)
        self.place: Bench = bench(name, env={**passed, **self.found.environment, "PATH": path})
        self.command = command
        asked = package(command)
        assert asked is not None
        self.profile = asked.profile
        self.grant = self.place.work / "grant.toml"
        self.grant.write_text(f"schema = 1\n[startup]\nnet = {list(map(str, self._addresses()))}\n{tools}")
        self.grant.chmod(0o600)

    @property
    def hosts(self) -> list[str]:
        """The hosts that are configured, without ports."""
        used = [key for key in self.found.hosts if f"${key}" in _raw(self.profile)]
        assert used, self.profile
        return [host.partition(":")[0] for key in used for host in self.found.hosts[key]]

    def _addresses(self) -> list[str]:
        found = set()
        for host in self.hosts:
            try:
                infos = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
            except OSError:
                continue  # deno names two registries, of which one may be all there is
            for info in infos:
                address = str(info[4][0])
                if classify(address) != "public":
                    found.add(f"[{address}]:443" if ":" in address else f"{address}:443")
        return sorted(found)

    def start(self, *words: str) -> Session:
        command = [*mcpwrap(), "--grant", str(self.grant), "--", *self.command, *words]
        return Session(
            command, env=self.place.env, cwd=self.place.work / "data", stderr=self.place.work / "stderr"
        )

    def stderr(self) -> str:
        return (self.place.work / "stderr").read_text()

    def last(self, kind: str) -> list[Row]:
        """Return the records of one kind of the last run."""
        records = self.place.audit()
        begin = max(index for index, each in enumerate(records) if each["kind"] == "run")
        return [each for each in records[begin:] if each["kind"] == kind]

    def cache(self) -> Path:
        (found,) = (self.place.work / "home" / ".cache" / "mcpwrap").iterdir()
        return found


def _raw(profile: str) -> str:
    return (Path(profiles.__file__).parent / f"{profile}.toml").read_text()


def _configured(command: list[str]) -> Registries:
    asked = package(command)
    assert asked is not None
    program = shutil.which(command[0]) or command[0]
    found = registries(asked, os.environ, os.path.expanduser("~"), program)
    return found._replace(hosts={**profiles.PUBLIC, **found.hosts})


def _missing(why: str) -> None:
    if os.environ.get("MCPWRAP_MUST_WORK"):
        pytest.fail(f"MCPWRAP_MUST_WORK is set, and {why}", pytrace=False)
    pytest.skip(why)


@pytest.fixture(scope="module", autouse=True)
def _registry() -> None:
    """Skip everything where the registry cannot be reached at all: then nothing says anything."""
    found = _configured(["npx", "p"])
    host = urlsplit(f"https://{found.hosts['NPM_REGISTRY'][0]}")
    try:
        socket.create_connection((host.hostname or "", host.port or 443), CONNECT_SECONDS).close()
    except OSError as error:
        _missing(f"the configured registry cannot be reached: {error}")


def connections(records: list[Row]) -> list[Row]:
    return [each for each in records if each["act"] in ("connect", "lookup")]


def refused(records: list[Row]) -> list[str]:
    return [f"{each['act']} {each['object']}: {each['rule']}" for each in records if not each["allowed"]]


def mount_options(pid: int, path: Path) -> str:
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    (options,) = [line.split()[5] for line in lines if line.split()[4] == str(path)]
    return options


def test_npx_starts_cold_and_warm_with_the_registry_in_start_up_only() -> None:
    server = Launched("npx-cold", ["npx", "-y", MEMORY], "[tools.read_graph]\n")
    with server.start() as session:
        session.initialize(seconds=COLD_SECONDS)
        assert not failed(session.call("read_graph"))
        (told,) = server.last("protections")
        options = mount_options(told["server"], server.cache()).split(",")
        assert "ro" in options and "noexec" not in options, "written no more, and executed still"
    (version,) = server.last("package")
    assert (version["package"], version["version"]) == (
        "npm/@modelcontextprotocol/server-memory",
        "2026.8.31",
    )
    reached = connections(server.last("operation"))
    assert reached and not refused(reached), refused(reached)
    assert {each["object"].rpartition(":")[0] or each["object"] for each in reached} <= set(server.hosts)
    assert not [each for each in server.last("operation") if not each["allowed"]], (
        "nothing a launcher needs is missing"
    )

    begun = time.monotonic()
    with server.start() as session:
        session.initialize()
        warm = time.monotonic() - begun
        assert not failed(session.call("read_graph"))
    assert not connections(server.last("operation")), "what is cached is not asked for"
    assert warm < 30, "and no registry is waited for"
    assert "now; in the last run" not in server.stderr()


def test_uvx_starts_cold_and_warm_with_the_index_in_start_up_only(installed: Installed) -> None:
    uvx = installed("uv")
    server = Launched("uvx-cold", ["uvx", TIME], "[tools.get_current_time]\n", beside=(uvx,))
    with server.start() as session:
        session.initialize(seconds=COLD_SECONDS)
        assert not failed(session.call("get_current_time", {"timezone": "UTC"}))
        (told,) = server.last("protections")
        options = mount_options(told["server"], server.cache()).split(",")
        assert "ro" in options and "noexec" not in options
        lock = mount_options(told["server"], server.cache() / "uv" / ".lock").split(",")
        assert "noexec" in lock, "uv's own lock stays open for writing, and is not executed"
    assert server.last("package")[0]["version"] == "2026.10.19"
    reached = connections(server.last("operation"))
    assert reached and not refused(reached), refused(reached)

    with server.start() as session:
        session.initialize()
        assert not failed(session.call("get_current_time", {"timezone": "UTC"}))
    assert not connections(server.last("operation")), "what is cached is not asked for"


def test_a_tool_does_not_reach_the_registry_its_server_came_from(installed: Installed) -> None:
    uvx = installed("uv")
    command = ["uvx", FETCH, "--ignore-robots-txt", "--allow-private-ips"]
    server = Launched("uvx-fetch", command, "[tools.fetch]\n", beside=(uvx,))
    with server.start() as session:
        session.initialize(seconds=COLD_SECONDS)
        answer = session.call("fetch", {"url": f"https://{server.hosts[0]}/"})
        assert failed(answer) and "refused by mcpwrap" in text(answer)
    assert "__pycache__" not in text(answer) + server.stderr(), "what Python would keep is refused quietly"
    compiled = [each for each in server.last("operation") if "__pycache__" in each["object"]]
    assert any(not each["allowed"] for each in compiled)
    operations = connections(server.last("operation"))
    assert any(each["allowed"] and not each["windows"] for each in operations), "start-up reached it"
    held = [each for each in operations if not each["allowed"]]
    assert held and all(each["windows"] for each in held)
    assert held[0]["object"].startswith(server.hosts[0])


def test_another_version_than_in_the_last_run_is_told(installed: Installed) -> None:
    uvx = installed("uv")
    server = Launched("uvx-drift", ["uvx", TIME], "[tools.get_current_time]\n", beside=(uvx,))
    with server.start() as session:
        session.initialize(seconds=COLD_SECONDS)
        session.call("get_current_time", {"timezone": "UTC"})
    audit = next((server.place.work / "state").rglob("*.jsonl"))
    audit.write_text(audit.read_text().replace('"version":"2026.10.19"', '"version":"2025.1.1"'))
    with server.start() as session:
        session.initialize()
        session.call("get_current_time", {"timezone": "UTC"})
    assert "is version 2026.10.19 now; in the last run it was 2025.1.1" in server.stderr()
    assert server.last("package")[0]["was"] == "2025.1.1"


def test_bunx_starts_cold_and_warm(installed: Installed) -> None:
    bunx = installed("bun")
    server = Launched("bunx-cold", ["bunx", MEMORY], "[tools.read_graph]\n", beside=(bunx,))
    for seconds in (COLD_SECONDS, 60.0):
        with server.start() as session:
            session.initialize(seconds=seconds)
            assert not failed(session.call("read_graph"))


def test_deno_starts_cold_and_warm(installed: Installed) -> None:
    deno = installed("deno")
    command = ["deno", "run", "-A", f"npm:{MEMORY}"]
    server = Launched("deno-cold", command, "[tools.read_graph]\n", beside=(deno,))
    for seconds in (COLD_SECONDS, 60.0):
        with server.start() as session:
            session.initialize(seconds=seconds)
            assert not failed(session.call("read_graph"))
    assert not connections(server.last("operation"))


def test_a_shim_of_the_real_mise_is_followed_as_mise_does(installed: Installed) -> None:
    mise = installed("mise")
    place = bench("mise", env={"MISE_OFFLINE": "1", "MISE_YES": "1"})
    home = Path(place.env["HOME"])
    shims = home / ".local" / "share" / "mise" / "shims"
    env = {
        **place.env,
        "PATH": f"{shims}:{mise.parent}:{os.environ['PATH']}",
        "MISE_TRUSTED_CONFIG_PATHS": str(home),
    }
    node = os.path.realpath(shutil.which("node") or "")

    def run(*words: str) -> str:
        return _run([str(mise), *words], env, place).stdout.strip()

    for version in ("20.11.1", "22.3.0"):
        (home / "built" / version / "bin").mkdir(parents=True)
        shutil.copy2(node, home / "built" / version / "bin" / "node")
        run("link", f"node@{version}", str(home / "built" / version))
    (home / ".config" / "mise").mkdir(parents=True)
    (home / ".config" / "mise" / "config.toml").write_text('[tools]\nnode = "22.3.0"\n')
    run("reshim")
    script = place.work / "data" / "server"
    script.write_text("#!/usr/bin/env node\nconsole.log(process.execPath)\n")
    script.chmod(0o755)
    wrapped = _run([*mcpwrap(), "--", str(script)], env, place)
    assert os.path.realpath(run("which", "node")) in wrapped.stderr


def _run(command: list[str], env: Mapping[str, str], place: Bench) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        env=env,
        cwd=place.work / "data",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
