"""Load the rows of `rows/` and run one row of it: bare, under bubblewrap, or behind mcpwrap.

Every run of a row starts from a fresh work directory at the same path, so that results compare byte for
byte once what is volatile by nature (hashes, times) is masked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.e2e.client import Late, Message, Session, SessionEnded, failed, text
from tests.e2e.servers import SERVERS, home, program
from tests.e2e.services import NEEDS, Surroundings, surroundings

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
WORK = Path(os.environ.get("MCPWRAP_TEST_WORK") or "~/mcpwrap-test-work").expanduser()
"""Made for a run and removed after it. Where users' documents are: not below a dotfile and not in /tmp,
whose private views decide for themselves what is there."""
SECRET = "TOP-SECRET-9182\n"
SETUP_SECONDS = 60
PASSED_ON = ("LANG", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
"""What the raw client gives a server, as the SDKs do."""
VOLATILE = r"\b[0-9a-f]{7,40}\b|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?([+-]\d\d:\d\d)?"
"""Commit hashes and times."""

Row = dict[str, Any]


def mcpwrap() -> list[str]:
    """Return the command that runs mcpwrap; `$MCPWRAP_COMMAND` overrides it."""
    given = os.environ.get("MCPWRAP_COMMAND")
    return shlex.split(given) if given else [sys.executable, "-I", "-m", "mcpwrap"]


def rows(table: str) -> list[Row]:
    """Return the rows of `server` or `hole` of all files in rows/."""
    files = sorted((HERE / "rows").glob("*.toml"))
    found: list[Row] = [row for file in files for row in tomllib.loads(file.read_text()).get(table, [])]
    for row in found:
        row["setup"] = row.get("setup", "").replace("{I}", str(home(row["server"])))
    return found


def parameters(table: str) -> list[ParameterSet]:
    """Return the rows of a table for `parametrize`, each with what its services need."""
    return [
        pytest.param(
            row,
            id=row["name"],
            marks=pytest.mark.needs(
                *row.get("needs", ()), *(NEEDS[each] for each in row.get("services", ()) if each in NEEDS)
            ),
        )
        for row in rows(table)
    ]


def fill(value: Any, work: Path) -> Any:
    """Return `value` with {W} replaced by the work directory and {PATH} by this process's, at any depth."""
    if isinstance(value, str):
        return value.replace("{W}", str(work)).replace("{PATH}", os.environ["PATH"])
    if isinstance(value, list):
        return [fill(item, work) for item in value]
    if isinstance(value, dict):
        return {key: fill(item, work) for key, item in value.items()}
    return value


@dataclass(frozen=True, slots=True)
class Bench:
    """A fresh work directory with the environment servers are started in."""

    work: Path
    env: dict[str, str]

    def write_grant(self, name: str, extra: str = "") -> Path:
        """Render a grant into the work directory, out of every grant, and return its path.

        `name`: a template in grants/, or a path in this repository (one of the examples).
        """
        grant = self.work / "grant.toml"
        template = REPOSITORY / name if "/" in name else HERE / "grants" / name
        grant.write_text(fill(template.with_name(f"{template.name}.toml").read_text(), self.work) + extra)
        grant.chmod(0o600)
        return grant

    def audit(self) -> list[Row]:
        """Return the records of every run so far, in order."""
        found = sorted((self.work / "state" / "mcpwrap" / "audit").rglob("*.jsonl"))
        return [json.loads(line) for file in found for line in file.read_text().splitlines()]


def environment(row: Row, how: str) -> dict[str, str]:
    """Return the variables a row sets in a run."""
    variables: dict[str, str] = dict(row.get("env", {}))
    if how != "mcpwrap":
        variables.update(row.get("bare_env", {}))
    return variables


def bench(name: str, setup: str = "", env: Mapping[str, str] | None = None) -> Bench:
    """Make a fresh work directory for `name` and run `setup` in it with bash."""
    work = WORK / name
    shutil.rmtree(work, ignore_errors=True)
    for directory in ("data", "out", "home"):
        (work / directory).mkdir(parents=True)
    (work / "out" / "secret.txt").write_text(SECRET)
    environ = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    environ["HOME"] = str(work / "home")
    if setup:
        # Fixed dates make the hashes of the setup's commits the same in every run.
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), "2026-01-01T00:00:00Z")
        subprocess.run(
            ["bash", "-euc", fill(setup, work)],
            cwd=work,
            env=environ | dates,
            check=True,
            capture_output=True,
            timeout=SETUP_SECONDS,
        )
    environ["XDG_STATE_HOME"] = str(work / "state")
    return Bench(work, environ | fill(dict(env or {}), work))


def bubblewrap(row: Row, place: Bench) -> list[str]:
    """Return the bwrap prefix that allows the union of all tools' grants, and nothing more."""
    union = fill(row.get("union", {}), place.work)
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--proc", "/proc", "--dev", "/dev"]
    if union.get("net"):
        options.append("--share-net")  # All of it: there is no other way to give some.
    options += ["--tmpfs", "/tmp", "--ro-bind", "/usr", "/usr", "--ro-bind", "/etc", "/etc"]
    for top in ("/bin", "/lib", "/lib64", "/sbin"):
        options += (
            ["--symlink", os.readlink(top), top] if os.path.islink(top) else ["--ro-bind-try", top, top]
        )
    install = str(home(row["server"]))
    options += ["--ro-bind", install, install, "--bind", place.env["HOME"], place.env["HOME"]]
    if sys.base_prefix not in ("/usr", "/usr/local"):
        options += ["--ro-bind", sys.base_prefix, sys.base_prefix]
    for path in union.get("read", ()):
        options += ["--ro-bind", path, path]
    for path in union.get("write", ()):
        options += ["--bind", path, path]
    return [shutil.which("bwrap") or "bwrap", *options]


def launch(row: Row, place: Bench, how: str) -> list[str]:
    """Return the whole command of a row: `how` is `bare`, `bubblewrap` or `mcpwrap`."""
    command = [str(program(row["server"])), *fill(row.get("command", []), place.work)]
    if how == "bare":
        return command
    if how == "bubblewrap":
        return [*bubblewrap(row, place), *command]
    return [*mcpwrap(), "--grant", str(place.write_grant(row["grant"])), "--", *command]


def masked(answer: Message, volatile: str = "") -> str:
    """Return an answer without its id, and with what changes from run to run masked."""
    rest = {key: value for key, value in answer.items() if key != "id"}
    shown = json.dumps(rest, sort_keys=True, ensure_ascii=False)
    return re.sub(volatile, "~", re.sub(VOLATILE, "~", shown)) if volatile else re.sub(VOLATILE, "~", shown)


def do_call(session: Session, call: Row) -> Message:
    """Do one call of a row."""
    return session.call(call["tool"], json.loads(call.get("arguments", "{}")))


@dataclass(slots=True)
class Outcome:
    """What one run of a hole came to.

    `harms`: each way of seeing the harm, and whether it shows. `attacks`, `before`, `after`: the
    answers to the attack and to the controls around it. `problem`: why the run says nothing, if so.
    """

    harms: dict[str, bool] = field(default_factory=dict)
    attacks: list[Message] = field(default_factory=list)
    before: list[Message] = field(default_factory=list)
    after: list[Message] = field(default_factory=list)
    problem: str = ""
    stderr: str = ""

    @property
    def verdict(self) -> str:
        """`HARM`, `held`, or `inconclusive` when a control did not answer as it should."""
        if any(self.harms.values()):
            return "HARM"
        return "inconclusive" if self.problem else "held"


def run_hole(row: Row, how: str) -> tuple[Outcome, Bench]:
    """Run the controls, the attack and the controls again in a fresh work directory."""
    place = bench(f"{row['name']}", row.get("setup", ""), environment(row, how))
    row = fill(row, place.work)
    outcome = Outcome()
    with surroundings(row.get("services", ()), place.work) as around:
        command, stderr = around.command(launch(row, place, how)), place.work / f"stderr.{how}"
        with Session(
            command, env=place.env | around.environ, cwd=place.work / "data", stderr=stderr
        ) as session:
            try:
                session.initialize()
                session.answer(session.request("tools/list"))
                outcome.before = [do_call(session, call) for call in row["control"]]
                outcome.attacks = [do_call(session, call) for call in row["attack"]]
                outcome.after = [do_call(session, call) for call in row["control"]]
            except (Late, SessionEnded) as problem:
                outcome.problem = str(problem)
        outcome.harms = harms(row["harm"], outcome.attacks, place, around)
    outcome.stderr = session.stderr()
    for call, answer in zip([*row["control"], *row["control"]], outcome.before + outcome.after, strict=False):
        if failed(answer) or not re.search(call.get("expect", ""), json.dumps(answer), re.DOTALL):
            outcome.problem = outcome.problem or f"control {call['tool']}: {json.dumps(answer)[:400]}"
    return outcome, place


def harms(
    checks: Sequence[Row], attacks: Sequence[Message], place: Bench, around: Surroundings
) -> dict[str, bool]:
    """Return, for each way of seeing the harm, whether it shows on the host."""
    found: dict[str, bool] = {}
    for check in checks:
        ((kind, value),) = check.items()
        if kind == "file":
            seen = os.path.exists(value)
        elif kind == "file_has":
            file = Path(value[0])
            seen = file.exists() and bool(re.search(value[1], file.read_text(errors="replace")))
        elif kind == "result_has":
            seen = any(re.search(value, text(answer)) for answer in attacks)
        elif kind == "hit":
            seen = value in around.hits
        else:
            assert kind == "command", kind
            seen = not subprocess.run(
                around.command(["bash", "-c", value]),
                cwd=place.work,
                env=place.env,
                capture_output=True,
                check=False,
                timeout=30,
            ).returncode
        found[f"{kind}: {value}"] = seen
    return found


def servers_of(table: Sequence[Row]) -> list[str]:
    """Return the servers a table needs, each once."""
    wanted = {row["server"] for row in table}
    return [name for name in SERVERS if name in wanted]
