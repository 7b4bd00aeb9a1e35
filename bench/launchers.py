"""The ways a server is started here: bare, bubblewrap, sandlock, `strace -f`, mcpwrap."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.corpus import mcpwrap
from tests.e2e.servers import CACHE, Unavailable, _run

SANDLOCK = "sandlock==0.9.0"
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Job:
    """What is started: `command`, what it needs to `read` and `write`, and the grant that says so.

    `home` is the server's HOME.
    """

    command: Sequence[str]
    reads: Sequence[str]
    writes: Sequence[str]
    grant: Path
    home: str


def sandlock() -> list[str] | None:
    """Return the command prefix for sandlock, installing it if need be; None if it is not to be had."""
    place = CACHE / "pip" / "sandlock"
    python = place / "bin" / "python"
    if not (place / ".installed").exists():
        try:
            place.mkdir(parents=True, exist_ok=True)
            _run([sys.executable, "-m", "venv", str(place)], place)
            _run([str(python), "-m", "pip", "install", "-q", SANDLOCK], place)
        except Unavailable:
            return None
        (place / ".installed").touch()
    return [str(python), "-I", str(HERE / "sandlock_run.py")]


def bubblewrap(job: Job) -> list[str]:
    """Return the command under bwrap, allowed the union of what the job needs."""
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    options += ["--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
    for top in ("/bin", "/lib", "/lib64", "/sbin"):
        link = os.path.islink(top)
        options += ["--symlink", os.readlink(top), top] if link else ["--ro-bind-try", top, top]
    for path in job.reads:
        options += ["--ro-bind", path, path]
    for path in [job.home, *job.writes]:
        options += ["--bind", path, path]
    return ["bwrap", *options, *job.command]


def ways(job: Job) -> dict[str, list[str]]:
    """Return name → whole command, for every way that is to be had here; `bare` is always the first."""
    found = {"bare": list(job.command)}
    if shutil.which("bwrap"):
        found["bubblewrap"] = bubblewrap(job)
    prefix = sandlock()
    if prefix:
        found["sandlock"] = [*prefix, ":".join(job.reads), ":".join([job.home, *job.writes]), *job.command]
    if shutil.which("strace"):
        found["strace -f"] = ["strace", "-f", "-qq", "-o", "/dev/null", *job.command]
    found["mcpwrap"] = [*mcpwrap(), "--grant", str(job.grant), "--", *job.command]
    return found
