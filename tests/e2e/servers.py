"""The real servers of the end-to-end tests: pinned releases, one npm prefix or virtual environment each.

They are installed once, under `$MCPWRAP_TEST_CACHE` (default `~/.cache/mcpwrap-tests`), and never into
the repository. Two of them are old on purpose: their published holes are what is demonstrated.
`python tests/e2e/servers.py [NAME ...]` installs by hand.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(os.environ.get("MCPWRAP_TEST_CACHE") or "~/.cache/mcpwrap-tests").expanduser()
INSTALL_SECONDS = 600
"""A cold cache behind a slow mirror; a warm one takes 3 to 10 s a server."""


class Unavailable(Exception):
    """A server that cannot be had here; the text says why."""


@dataclass(frozen=True, slots=True)
class Server:
    """One release: `kind` is `npm` or `pip`, `program` the file its package puts into the bin directory."""

    kind: str
    packages: tuple[str, ...]
    program: str


SERVERS = {
    "filesystem": Server(
        "npm", ("@modelcontextprotocol/server-filesystem@2026.8.31",), "mcp-server-filesystem"
    ),
    "filesystem-2025": Server(
        "npm", ("@modelcontextprotocol/server-filesystem@2025.3.28",), "mcp-server-filesystem"
    ),
    "memory": Server("npm", ("@modelcontextprotocol/server-memory@2026.8.31",), "mcp-server-memory"),
    "everything": Server(
        "npm", ("@modelcontextprotocol/server-everything@2026.8.31",), "mcp-server-everything"
    ),
    "git": Server("pip", ("mcp-server-git==2026.10.19", "mcp==2.3.0"), "mcp-server-git"),
    # Written for the 1.x SDK, with the GitPython of its day; the release of three published holes.
    "git-2025": Server(
        "pip", ("mcp-server-git==2025.7.1", "mcp==1.30.0", "GitPython==3.1.44"), "mcp-server-git"
    ),
    # A client, not a server: `claude mcp list` starts what its configuration names.
    "claude-code": Server("npm", ("@anthropic-ai/claude-code@2.1.197",), "claude"),
    "playwright": Server("npm", ("@playwright/mcp@0.0.83",), "playwright-mcp"),
    # Opens file: URLs, which later releases do not.
    "playwright-2025": Server("npm", ("@playwright/mcp@0.0.38",), "mcp-server-playwright"),
    # Launchers and version managers: what starts servers.
    "uv": Server("pip", ("uv==0.13.8",), "uvx"),
    "bun": Server("npm", ("bun@1.4.4",), "bunx"),
    "deno": Server("npm", ("deno@2.9.6",), "deno"),
    "mise": Server("npm", ("@jdxcode/mise@2026.9.15",), "mise"),
    "time": Server("pip", ("mcp-server-time==2026.10.19",), "mcp-server-time"),
    # Releases with published holes that nobody has closed in them; those of Python with the SDK of their day.
    "figma-2025": Server("npm", ("figma-developer-mcp@0.6.0",), "figma-developer-mcp"),
    "desktop-commander-2025": Server("npm", ("@wonderwhy-er/desktop-commander@0.2.13",), "desktop-commander"),
    "fetch-2025": Server("pip", ("mcp-server-fetch==2025.4.7", "mcp==1.30.0"), "mcp-server-fetch"),
    "markitdown": Server("pip", ("markitdown-mcp==0.0.1a8",), "markitdown-mcp"),
    "kubernetes-2025": Server(
        "pip", ("mcp-kubernetes-server==0.1.11", "fastmcp==2.12.4"), "mcp-kubernetes-server"
    ),
    "vegalite": Server(
        "pip",
        ("iflow-mcp-isaacwasserman-mcp-server-vegalite==0.0.1", "mcp==1.30.0"),
        "mcp_server_vegalite",
    ),
    "sqlite": Server("pip", ("mcp-server-sqlite==2025.4.25", "mcp==1.30.0"), "mcp-server-sqlite"),
    "postgres": Server("npm", ("@modelcontextprotocol/server-postgres@0.6.2",), "mcp-server-postgres"),
    "redis": Server("npm", ("@modelcontextprotocol/server-redis@2025.4.25",), "mcp-server-redis"),
    "fetch": Server("pip", ("mcp-server-fetch==2026.10.24",), "mcp-server-fetch"),
    "openapi": Server("npm", ("@ivotoby/openapi-mcp-server@1.16.1",), "openapi-mcp-server"),
    # A static Go binary that an npm package starts.
    "kubernetes": Server("npm", ("kubernetes-mcp-server@0.0.67",), "kubernetes-mcp-server"),
    "thinking": Server(
        "npm",
        ("@modelcontextprotocol/server-sequential-thinking@2026.8.31",),
        "mcp-server-sequential-thinking",
    ),
    "commands": Server("npm", ("mcp-server-commands@0.5.0",), "mcp-server-commands"),
    "calculator": Server("pip", ("mcp-server-calculator==0.2.1",), "mcp-server-calculator"),
    "makefile": Server("pip", ("makefile-mcp==0.3.0",), "makefile-mcp"),
    # No server: an interpreter with clients of the network, for clients/python.py.
    "clients": Server("pip", ("aiohttp==3.14.5", "httpx==0.28.1", "requests==2.34.2"), "python"),
    "duckdb": Server("pip", ("mcp-server-motherduck==1.1.0",), "mcp-server-motherduck"),
}


def home(name: str) -> Path:
    """Return the directory one server is installed in."""
    return CACHE / SERVERS[name].kind / name


def program(name: str) -> Path:
    """Return the path of an installed server's program."""
    bin_directory = "node_modules/.bin" if SERVERS[name].kind == "npm" else "bin"
    return home(name) / bin_directory / SERVERS[name].program


def install(name: str) -> Path:
    """Install server `name` unless it is there, and return its program. Raises `Unavailable`."""
    server, place = SERVERS[name], home(name)
    place.mkdir(parents=True, exist_ok=True)
    done = place / ".installed"
    spec = " ".join(server.packages)
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == spec:
            return program(name)
        if server.kind == "npm":
            _npm(place, server.packages)
        else:
            _pip(place, server.packages)
        done.write_text(spec)
    return program(name)


def _npm(place: Path, packages: tuple[str, ...]) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("no `npm` on PATH")
    (place / "package.json").write_text('{"name":"installed","private":true}\n')
    _run([npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *packages], place)


def _pip(place: Path, packages: tuple[str, ...]) -> None:
    interpreter = str(place / "bin" / "python")
    if not os.path.exists(interpreter):
        # This interpreter's pip installs for it; one of its own would take as long as most servers.
        _run([sys.executable, "-m", "venv", "--without-pip", str(place)], place)
    pip = [sys.executable, "-m", "pip", "--python", interpreter]
    _run([*pip, "install", "-q", "--disable-pip-version-check", *packages], place)


def _run(command: list[str], place: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(f"{command[0]}: {problem}") from problem
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-400:]}")


if __name__ == "__main__":
    for wanted in sys.argv[1:] or SERVERS:
        print(install(wanted))
