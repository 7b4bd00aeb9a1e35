"""What rows of the corpus find around them: services on the loopback and on hosts of a private internet.

`SERVICES` names them. Each is started for one run, inside the private internet (so its ports are its own), and
leaves what reached it in `Surroundings.hits`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.internet import PUBLIC, PUBLIC_2, Answer, Internet
from tests.e2e.servers import Unavailable

START_SECONDS = 60
LOOK_SECONDS = 0.05
POSTGRES_PROGRAMS = Path("/usr/lib/postgresql")
"""Debian puts the server's programs below, by version, and none of them on PATH."""
LISTENER_PORT, POSTGRES_PORT, REDIS_PORT = 8199, 5432, 6379
FIGMA = "api.figma.com"
HOSTS = {
    "www.example.org": [PUBLIC],
    "redirects.example.org": [PUBLIC],
    "inside.example.org": ["127.0.0.1"],
    FIGMA: [PUBLIC_2],
    "cluster.example.org": [PUBLIC],
}
PAGE = "<html><head><title>Page</title></head><body><p>marker-7731 of {path}</p></body></html>"
REDIRECTED = "/to-the-loopback"
HTML = {"Content-Type": "text/html"}


@dataclass(slots=True)
class Surroundings:
    """Where a row runs. `hits`: what the listener on the loopback was asked for. `environ`: for its server."""

    internet: Internet | None = None
    hits: list[str] = field(default_factory=list)
    environ: dict[str, str] = field(default_factory=dict)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` in these surroundings."""
        return self.internet.command(*command) if self.internet else list(command)


def postgres_programs() -> Path | None:
    """Return the directory of the newest PostgreSQL server's programs, None without one."""
    found = sorted(POSTGRES_PROGRAMS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@contextlib.contextmanager
def _process(
    internet: Internet, command: Sequence[str], work: Path, ready: Sequence[str], environ: dict[str, str]
) -> Iterator[None]:
    """Run a daemon inside until the block is left; `ready` succeeds once it answers."""
    log = work / f"{Path(command[0]).name}.log"
    with open(log, "wb") as out:
        process = subprocess.Popen(
            internet.command(*command), stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=environ
        )
    try:
        end = time.monotonic() + START_SECONDS
        while subprocess.run(
            internet.command(*ready), capture_output=True, env=environ, timeout=START_SECONDS, check=False
        ).returncode:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            time.sleep(LOOK_SECONDS)
        yield
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@contextlib.contextmanager
def postgres(around: Surroundings, work: Path) -> Iterator[None]:
    """A database of user `u` on localhost:5432 with a table `people`; its directory is {W}/postgres."""
    programs = postgres_programs()
    if programs is None or not shutil.which("psql"):
        raise Unavailable("no PostgreSQL server and psql are installed")
    assert around.internet
    environ = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    directory = work / "postgres"
    subprocess.run(
        [programs / "initdb", "-D", directory, "-A", "trust", "-U", "u", "--no-sync"],
        check=True,
        capture_output=True,
        env=environ,
        timeout=START_SECONDS,
    )
    sql = "create table people(id int, name text); insert into people values (1,'ada'),(2,'bob')"
    client = ["psql", "-q", "-h", "127.0.0.1", "-p", str(POSTGRES_PORT), "-U", "u", "-d", "postgres", "-c"]
    command = [
        *(
            str(programs / "postgres"),
            "-D",
            str(directory),
            "-F",
            "-h",
            "127.0.0.1",
            "-p",
            str(POSTGRES_PORT),
        ),
        *("-c", "unix_socket_directories=", "-c", "log_connections=on", "-c", "log_disconnections=on"),
    ]
    with _process(around.internet, command, work, [*client, "select 1"], environ):
        subprocess.run(around.internet.command(*client, sql), check=True, env=environ, timeout=START_SECONDS)
        yield


@contextlib.contextmanager
def redis(around: Surroundings, work: Path) -> Iterator[None]:
    """A Redis on localhost:6379 that keeps nothing."""
    if not shutil.which("redis-server"):
        raise Unavailable("no `redis-server` on PATH")
    assert around.internet
    port = str(REDIS_PORT)
    command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", str(work)]
    environ = {"PATH": os.environ["PATH"]}
    with _process(around.internet, command, work, ["redis-cli", "-p", port, "ping"], environ):
        yield


@contextlib.contextmanager
def listener(around: Surroundings, _: Path) -> Iterator[None]:
    """A service on port 8199 of the loopback, by IPv4 and IPv6, that tells a secret to whoever asks."""

    def told(path: str) -> Answer:
        around.hits.append(path)
        return 200, HTML, b"<html><body>secret-of-listener</body></html>"

    assert around.internet
    for address in ("127.0.0.1", "::1"):
        around.internet.web(address, LISTENER_PORT, told)
    yield


@contextlib.contextmanager
def website(around: Surroundings, _: Path) -> Iterator[None]:
    """Public hosts with pages on port 80, one of which leads to the loopback."""

    def page(path: str) -> Answer:
        if path == REDIRECTED:
            return 302, {"Location": f"http://127.0.0.1:{LISTENER_PORT}/redirected"}, b""
        if path == "/robots.txt":
            return 200, {"Content-Type": "text/plain"}, b"User-agent: *\nAllow: /\n"
        return 200, HTML, PAGE.format(path=path).encode()

    assert around.internet
    around.internet.web(PUBLIC, 80, page)
    yield


def cluster_page(path: str) -> Answer:
    """Answer as the API of a cluster would, as far as it takes to list its one namespace."""
    kinds = [{"name": "namespaces", "singularName": "", "namespaced": False, "kind": "Namespace"}]
    resources = {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [{**kinds[0], "verbs": ["list"]}],
    }
    item = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "marker-7731"}}
    columns = [{"name": "Name", "type": "string"}]
    table = {"columnDefinitions": columns, "rows": [{"cells": ["marker-7731"], "object": item}]}
    known: dict[str, object] = {
        "/api": {"kind": "APIVersions", "versions": ["v1"]},
        "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
        "/api/v1": resources,
        "/api/v1/namespaces": {"kind": "Table", "apiVersion": "meta.k8s.io/v1", **table},
    }
    found = known.get(path.partition("?")[0])
    return (200 if found else 404), {"Content-Type": "application/json"}, json.dumps(found or {}).encode()


@contextlib.contextmanager
def cluster(around: Surroundings, _: Path) -> Iterator[None]:
    """The API of a cluster on cluster.example.org:8080."""
    assert around.internet
    around.internet.web(PUBLIC, 8080, cluster_page)
    yield


@contextlib.contextmanager
def figma(around: Surroundings, work: Path) -> Iterator[None]:
    """An API by TLS that knows one file, `good`, and fails for all others. Its authority is {W}/authority.crt."""
    document = {"id": "0:0", "name": "Document", "type": "DOCUMENT", "children": []}
    file = {"name": "marker-7731", "lastModified": "2026-01-01T00:00:00Z", "document": document}
    known = json.dumps({**file, "thumbnailUrl": "", "components": {}, "componentSets": {}, "styles": {}})

    def page(path: str) -> Answer:
        if path.partition("?")[0] == "/v1/files/good":
            return 200, {"Content-Type": "application/json"}, known.encode()
        return 500, {}, b""

    assert around.internet
    around.internet.web(PUBLIC_2, 443, page, around.internet.certificate(FIGMA))
    # Not in /tmp: a sandbox has one of its own.
    authority = shutil.copy(around.internet.environ["SSL_CERT_FILE"], work / "authority.crt")
    around.environ.update(dict.fromkeys(around.internet.environ, str(authority)))
    yield


SERVICES: dict[str, Callable[[Surroundings, Path], contextlib.AbstractContextManager[None]]] = {
    "cluster": cluster,
    "figma": figma,
    "listener": listener,
    "postgres": postgres,
    "redis": redis,
    "website": website,
}
NEEDS = {"figma": "openssl", "postgres": "postgres", "redis": "redis-server"}
"""What the machine must have for a service, in the words of `pytest.mark.needs`."""


@contextlib.contextmanager
def surroundings(names: Sequence[str], work: Path) -> Iterator[Surroundings]:
    """Start services for a run over `work`; without any, the run is on the machine's own network."""
    if not names:
        yield Surroundings()
        return
    with Internet(HOSTS) as internet, contextlib.ExitStack() as started:
        around = Surroundings(internet)
        for name in names:
            started.enter_context(SERVICES[name](around, work))
        yield around
