"""Real clients start a server through `mcpwrap --` as they start it bare."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.corpus import bench, mcpwrap
from tests.e2e.servers import home, program

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "git")

HERE = Path(__file__).resolve().parent
SETUP = (
    "cd data && git init -q r && cd r && git config user.email a@b && git config user.name n"
    " && echo x > f && git add f && git commit -qm first"
)


@pytest.mark.parametrize(("server", "version"), [("git", "2.3.0"), ("git-2025", "1.30.0")])
def test_the_python_sdk_calls_through_it(server: str, version: str, installed: Callable[[str], Path]) -> None:
    installed(server)
    place = bench(f"sdk-{version}", SETUP)
    repository = str(place.work / "data" / "r")
    command = [
        *mcpwrap(),
        "--grant",
        str(place.write_grant("git")),
        "--",
        str(program(server)),
        "--repository",
        repository,
    ]
    asked = {
        "command": command,
        "env": dict(place.env),
        "cwd": str(place.work / "data"),
        "tool": "git_log",
        "arguments": {"repo_path": repository},
    }
    done = subprocess.run(
        [str(home(server) / "bin" / "python"), "-W", "ignore", str(HERE / "sdk_call.py"), json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        cwd=place.work,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["sdk"] == version
    assert "first" in said["text"][0]


def test_claude_code_connects_from_a_real_configuration(installed: Callable[[str], Path]) -> None:
    claude = str(installed("claude-code"))
    installed("git")
    place = bench("claude", SETUP)
    grant, repository = str(place.write_grant("git")), str(place.work / "data" / "r")
    command = [*mcpwrap(), "--grant", grant, "--", str(program("git")), "--repository", repository]
    environment = {
        **place.env,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    for arguments in (["mcp", "add", "--scope", "user", "held", "--", *command], ["mcp", "list"]):
        done = subprocess.run(
            [claude, *arguments],
            env=environment,
            cwd=place.work,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "Connected" in done.stdout, done.stdout
    records = place.audit()
    assert any(record.get("kind") == "run" for record in records), "mcpwrap was not in between"
