"""`$CACHE` of a server that may execute what lies there: written while it starts, never in a call."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.client import Message, Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap

pytestmark = pytest.mark.needs("landlock", "userns", "seccomp", "user")

LAUNCHER = """
import json, mmap, os, sys, threading
cache = os.environ["CACHE"]
program = cache + "/bin/hello"
os.makedirs(cache + "/bin", exist_ok=True)
with open(program, "w") as file:
    file.write("#!/bin/sh\\necho hello from the cache\\n")
os.chmod(program, 0o755)
if not os.path.islink(cache + "/bin/link"):
    os.symlink("hello", cache + "/bin/link")
kept = None
HOLD = os.environ.get("HOLD", "")
if HOLD == "file":
    kept = open(os.open(cache + "/held", os.O_WRONLY | os.O_CREAT, 0o700), "w")
elif HOLD == "map":
    with open(cache + "/mapped", "w+b") as file:
        file.truncate(4096)
        kept = mmap.mmap(file.fileno(), 4096)
elif HOLD == "apart":
    os.makedirs(cache + "/uv", exist_ok=True)
    kept = open(cache + "/uv/.lock", "w")
if os.environ.get("RELEASE"):
    threading.Timer(float(os.environ["RELEASE"]), lambda: kept.close()).start()

def run(path):
    import subprocess
    return subprocess.run([path], capture_output=True, text=True, check=True).stdout.strip()

def attempt(act, path):
    if act == "run":
        return run(path)
    if act == "write":
        with open(path, "w") as file:
            file.write("#!/bin/sh\\necho replaced\\n")
    elif act == "append":
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"x")
    elif act == "remove":
        os.unlink(path)
    elif act == "rename":
        os.rename(path, path + ".old")
    elif act == "make":
        os.mkdir(path)
    elif act == "chmod":
        os.chmod(path, 0o700)
    elif act == "late":
        kept.write("#!/bin/sh\\necho written in a call\\n")
        kept.close()
        return run(path)
    return "done"

started = run(cache + "/bin/link")
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    content, bad = started, False
    if message["method"] == "tools/call":
        arguments = message["params"]["arguments"]
        try:
            content = attempt(arguments["act"], cache + "/" + arguments["path"])
        except OSError as error:
            content, bad = str(error), True
    result = {"content": [{"type": "text", "text": content}], "isError": bad}
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")
"""
"""A package launcher in short: it makes a program in `$CACHE`, runs it, and then is the server.

`HOLD` keeps something there open for writing, for `RELEASE` seconds or for good.
"""

GRANT = """schema = 1
[server]
profile = ["python"]
env = ["HOLD", "RELEASE"]
exec = ["$CACHE/**"]
set = { CACHE = "$CACHE" }
[startup]
exec = ["sh"]
[tools.act]
exec = ["sh"]
"""

LIMIT = "import mcpwrap.relay.startup as s; s.STARTUP_LIMIT_SECONDS = {seconds}; "
MAIN = "from mcpwrap.cli.main import main; import sys; sys.exit(main(sys.argv[1:]))"


def start(name: str, *, grant: str = GRANT, before: str = "", **env: str) -> tuple[Bench, Session]:
    place = bench(name, env=env)
    file = place.work / "grant.toml"
    file.write_text(grant)
    script = place.work / "server.py"
    script.write_text(LAUNCHER)
    launcher = mcpwrap()
    if before:
        launcher = [sys.executable, "-I", "-c", before + MAIN]
    command = [*launcher, "--grant", str(file), "--", sys.executable, "-I", str(script)]
    return place, Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / "stderr")


def act(session: Session, name: str, path: str) -> Message:
    return session.call("act", {"act": name, "path": path})


def cache(place: Bench) -> Path:
    (found,) = (place.work / "home" / ".cache" / "mcpwrap").iterdir()
    return found


def test_what_a_launcher_puts_there_runs_while_it_starts_and_afterwards() -> None:
    place, session = start("freeze-runs")
    with session:
        session.initialize()
        assert text(session.answer(session.request("ping"))) == "hello from the cache"
        assert text(act(session, "run", "bin/hello")) == "hello from the cache"
        assert text(act(session, "run", "bin/link")) == "hello from the cache", "by a link, as npx does"
        assert (cache(place) / "bin" / "hello").exists(), "it is kept for the next run"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("write", "bin/hello"),
        ("append", "bin/hello"),
        ("remove", "bin/hello"),
        ("rename", "bin/hello"),
        ("chmod", "bin/hello"),
        ("write", "bin/new"),
        ("make", "bin/directory"),
    ],
)
def test_nothing_there_is_changed_by_a_call(name: str, path: str) -> None:
    place, session = start("freeze-writes")
    with session:
        session.initialize()
        answer = act(session, name, path)
        assert failed(answer) and "Read-only file system" in text(answer)
        assert "read-only once start-up has ended" in text(answer), "the model is told why"
        assert text(act(session, "run", "bin/hello")) == "hello from the cache"
    (event,) = [each for each in place.audit() if each["kind"] == "operation" and not each["allowed"]]
    assert (event["rule"], event["errno"]) == ("cache", 30)


def test_the_kernel_holds_it_when_the_broker_does_not() -> None:
    lax = "import mcpwrap.policy.decide as d; d._FROZEN = d.Decision(True, 'cache'); "
    _, session = start("freeze-kernel", before=lax)
    with session:
        session.initialize()
        answer = act(session, "write", "bin/hello")
        assert failed(answer) and "Read-only file system" in text(answer)
        assert text(act(session, "run", "bin/hello")) == "hello from the cache"


@pytest.mark.parametrize("hold", ["file", "map"])
def test_a_file_open_for_writing_delays_the_end_of_start_up(hold: str) -> None:
    _, session = start("freeze-busy", HOLD=hold, RELEASE="1.5")
    with session:
        session.initialize()
        begun = session.started
        answer_id = session.start_call("act", {"act": "run", "path": "bin/hello"})
        assert text(session.answer(answer_id)) == "hello from the cache"
        assert session.arrived[answer_id] - begun > 1.5
        assert failed(act(session, "write", "bin/hello"))


@pytest.mark.parametrize("hold", ["file", "map"])
def test_a_file_that_is_never_closed_ends_the_run_with_the_reason(hold: str) -> None:
    place, session = start("freeze-never", before=LIMIT.format(seconds=1.0), HOLD=hold)
    with session:
        session.initialize()
        session.start_call("act", {"act": "run", "path": "bin/hello"})
        assert session.wait(20) == 125
    stderr = (place.work / "stderr").read_text()
    assert "keeps a file in its $CACHE open for writing" in stderr
    (end,) = [each for each in place.audit() if each["kind"] == "exit"]
    assert "open for writing" in end["reason"]


def test_without_the_freeze_that_file_is_written_in_a_call_and_then_executed() -> None:
    """The layer taken out: pid 1 says it is done, and does nothing."""
    without = "import mcpwrap.kernel.mounts as k; real = k.mount_setattr; "
    without += "k.mount_setattr = lambda *what, **how: None if lax() else real(*what, **how); "
    without += "import sys; lax = lambda: sys._getframe(2).f_code.co_filename.endswith('freeze.py'); "
    _, session = start("freeze-without", before=without, HOLD="file")
    with session:
        session.initialize()
        assert text(act(session, "late", "held")) == "written in a call"


def test_without_such_a_rule_the_cache_holds_no_programs() -> None:
    place, session = start("freeze-none", grant=GRANT.replace('exec = ["$CACHE/**"]\n', ""))
    with session:
        assert session.wait(20)
    assert "Permission denied" in (place.work / "stderr").read_text()
    shown = subprocess.run(
        [*mcpwrap(), "show", "--plan", "--", sys.executable, str(place.work / "server.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
        env=place.env,
        cwd=place.work / "data",
    )
    assert "freeze " not in shown.stdout
