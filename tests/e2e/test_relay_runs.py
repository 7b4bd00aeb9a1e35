"""One run from the command line to its end: statuses, streams, signals, start-up and its failure."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

from tests.e2e.client import Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap

pytestmark = pytest.mark.needs("landlock", "userns", "seccomp", "user")

SECONDS = 60

READER = """
import json, os, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    content, bad = "ok", False
    if message["method"] == "tools/call":
        arguments = message["params"]["arguments"]
        try:
            if arguments.get("how") == "stat":
                os.stat(arguments["path"])
            content = open(arguments["path"]).read()
        except OSError as error:
            content, bad = str(error), True
    result = {"content": [{"type": "text", "text": content}], "isError": bad}
    if message["method"] == "tools/list":
        names, schema = ("read", "fixed", "other", "nothing"), {"type": "object"}
        result = {"tools": [{"name": name, "inputSchema": schema} for name in names]}
    os.write(1, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")
"""
"""Reads the file it is asked for; `how: stat` looks at it first."""

GRANT = """schema = 1
[server]
profile = ["python"]
[policy]
within = ["{W}/data"]
[tools.read]
fs_read = ["$arg:path"]
[tools.fixed]
fs_read = ["{W}/data/fixed"]
"""


def python(place: Bench, code: str) -> list[str]:
    script = place.work / "server.py"
    script.write_text(code)
    return [sys.executable, "-I", str(script)]


def run(place: Bench, *words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*mcpwrap(), *words],
        input=stdin,
        capture_output=True,
        timeout=SECONDS,
        check=False,
        env=place.env,
        cwd=place.work / "data",
    )


def reader(place: Bench, *options: str, grant: str = GRANT) -> Session:
    file = place.work / "grant.toml"
    file.write_text(grant.replace("{W}", str(place.work)))
    command = [*mcpwrap(), "--grant", str(file), *options, "--", *python(place, READER)]
    return Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / "stderr")


def processes_with(mark: str) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
            except OSError:
                continue
    return found


def none_left(mark: str, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while processes_with(mark):
        if time.monotonic() > limit:
            return False
        select.select([], [], [], 0.02)
    return True


def test_the_exit_status_is_the_servers_own() -> None:
    place = bench("relay-status")
    assert run(place, "--", "/bin/sh", "-c", "exit 42").returncode == 42
    assert run(place, "--", "/bin/sh", "-c", "kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_our_own_failures_have_their_statuses_and_start_nothing() -> None:
    place = bench("relay-failures")
    mark = place.work / "data" / "started"
    server = ["/bin/sh", "-c", f"touch {mark}"]
    (place.work / "bad.toml").write_text("schema = 1\n[servr]\n")
    assert run(place, "--", "no-such-program").returncode == 127
    done = run(place, "--grant", str(place.work / "bad.toml"), "--", *server)
    assert done.returncode == 78
    assert b"bad.toml:2:2" in done.stderr
    assert run(place, "--require", "A", "--", *server).returncode == 126
    assert run(place, "--nonsense", "--", *server).returncode == 125
    assert not mark.exists()


def test_variables_of_the_dynamic_loader_are_refused() -> None:
    place = bench("relay-loader")
    done = subprocess.run(
        [*mcpwrap(), "--", "/bin/true"],
        env={**place.env, "LD_LIBRARY_PATH": "/nonexistent"},
        cwd=place.work,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 126
    assert b"LD_LIBRARY_PATH" in done.stderr


def test_a_python_that_is_not_isolated_is_refused() -> None:
    place = bench("relay-isolated")
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-m", "mcpwrap", "--", "/bin/true"],
        env={**place.env, "PYTHONPATH": root},
        cwd=place.work,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 126
    assert b"not isolated" in done.stderr


def test_nothing_but_the_servers_bytes_is_on_stdout() -> None:
    place = bench("relay-stdout")
    done = run(
        place, "--", "/bin/sh", "-c", 'echo \'{"jsonrpc":"2.0","method":"x"}\'; echo banner; echo err >&2'
    )
    assert done.stdout == b'{"jsonrpc":"2.0","method":"x"}\n'
    assert b"banner\n" in done.stderr
    assert b"err\n" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL, None])
def test_no_process_is_left_after_five_seconds(number: signal.Signals | None) -> None:
    name = number.name if number else "EOF"
    mark = f"mark-{name}-{os.getpid()}"
    place = bench(f"relay-end-{name}")
    # Ignores all it can, and has a grandchild in a session of its own.
    code = (
        "import os, signal, time\n"
        "for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)\n"
        "if os.fork() == 0: os.setsid()\n"
        'else: os.write(1, b\'{"jsonrpc":"2.0","method":"up"}\\n\')\n'
        "while True: time.sleep(60)\n"
    )
    process = subprocess.Popen(
        [*mcpwrap(), "--", *python(place, code), mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=place.env,
        cwd=place.work / "data",
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], SECONDS)
        assert ready
        assert len(processes_with(mark)) >= 3
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert none_left(mark, 5)
        process.wait(1)


def pasted(said: str) -> str:
    """Return the TOML of the message about an early death."""
    _, _, rest = said.partition("if it needs what it was refused")
    block, end, _ = rest.partition("\n")[2].partition("mcpwrap: and restart the server in your client\n")
    assert end
    return block


NEEDS_FILES = """
import sys
sys.stderr.write("starting\\n")
print([open(path).read() for path in sys.argv[1:]], open({also!r}).read())
"""


def test_a_server_that_dies_at_start_without_a_grant_file_prints_one_that_fixes_it() -> None:
    place = bench("relay-early", "echo a > data/needed; echo b > data/also")
    data = place.work / "data"
    server = [*python(place, NEEDS_FILES.format(also=str(data / "also"))), str(data / "needed")]
    done = run(place, "--", *server)
    said = done.stderr.decode()
    assert done.returncode == 1
    assert "ended before it answered anything" in said
    assert "| starting" in said
    file = place.work / "home" / "grant.toml"
    file.write_text(pasted(said))
    assert tomllib.loads(pasted(said))["server"] == {"profile": ["python"], "fs_read": [f"{data}/needed"]}
    done = run(place, "--grant", str(file), "--", *server)
    assert done.returncode == 0, done.stderr.decode()


def test_a_server_that_dies_at_start_says_what_its_grant_file_lacks() -> None:
    place = bench("relay-early-file", "echo a > data/needed; echo b > data/also")
    data = place.work / "data"
    server = [*python(place, NEEDS_FILES.format(also=str(data / "also"))), str(data / "needed")]
    file = place.work / "home" / "grant.toml"
    file.write_text('schema = 1\n[server]\nprofile = ["python"]\n[startup]\nexec = ["date"]\n')
    said = run(place, "--grant", str(file), "--", *server).stderr.decode()
    assert f"its command names {data}/needed, which it may not read" in said
    assert f"add to [startup] (line 4) of {file}:" in said
    offered = said.partition(f"of {file}:\n")[2].partition("mcpwrap: ")[0]
    assert f"{data}/needed" in tomllib.loads(offered)["fs_read"]


def test_a_call_reads_its_own_file_and_no_other_tools_file() -> None:
    place = bench("relay-calls", "echo one > data/one; echo fixed > data/fixed; echo two > data/two")
    data = place.work / "data"
    with reader(place) as session:
        session.initialize()
        assert text(session.call("read", {"path": str(data / "one")})) == "one\n"
        assert text(session.call("fixed", {"path": str(data / "fixed")})) == "fixed\n"
        for tool, name in (("fixed", "two"), ("other", "one")):
            answer = session.call(tool, {"path": str(data / name)})
            assert failed(answer)
            assert "refused by mcpwrap" in text(answer)
            assert str(data / name) in text(answer)
        # Text for the model never holds what would widen the grant; stderr does.
        assert "fs_read" not in text(session.call("other", {"path": str(data / "one")})).replace("rule", "")
    said = session.stderr()
    assert f'mcpwrap: refused: fixed: read "{data}/two" (' in said
    assert f'    [tools.other]\n    fs_read = ["{data}/one"]\nmcpwrap: and' in said
    assert "restart the server in your client" in said


def test_a_server_that_only_looks_is_explained_too() -> None:
    """`stat` of what is not in the view is a plain ENOENT that no one trapped."""
    place = bench("relay-lookup", "echo secret > out/file")
    hidden = str(place.work / "out" / "file")
    with reader(place) as session:
        session.initialize()
        answer = session.call("other", {"path": hidden, "how": "stat"})
        assert failed(answer)
        assert "refused by mcpwrap" in text(answer)
        assert hidden in text(answer)


def test_what_another_rule_grants_and_is_not_there_was_not_refused() -> None:
    """The argument lies outside of `within` and binds nothing; the file is simply not there."""
    place = bench("relay-missing", "mkdir out/granted")
    grant = GRANT.replace('fs_read = ["$arg:path"]', 'fs_read = ["$arg:path", "{W}/out/granted"]')
    with reader(place, grant=grant) as session:
        session.initialize()
        answer = session.call("read", {"path": str(place.work / "out" / "granted" / "missing")})
        assert failed(answer)
        assert "No such file" in text(answer) and "refused by mcpwrap" not in text(answer)
    assert "mcpwrap: refused" not in session.stderr()


def test_the_audit_of_a_call_is_on_disk_before_its_answer_arrives() -> None:
    place = bench("relay-audit", "echo one > data/one")
    with reader(place) as session:
        session.initialize()
        session.call("read", {"path": str(place.work / "data" / "one")})
        kinds = [record["kind"] for record in place.audit()]
        assert kinds[0] == "run"
        assert "protections" in kinds
        assert kinds.index("opened") < kinds.index("closed")
        opened = next(record for record in place.audit() if record["kind"] == "opened")
        assert opened["arguments"] == {"path": f"string of {len(str(place.work / 'data' / 'one'))}"}
        assert opened["bound"][0]["path"] == str(place.work / "data" / "one")
        session.process.kill()
    assert [record["kind"] for record in place.audit()][-1] != "exit"
    with reader(place, "--audit-arguments") as session:
        session.initialize()
        session.call("read", {"path": str(place.work / "data" / "one")})
    opened = [record for record in place.audit() if record["kind"] == "opened"][-1]
    assert opened["arguments"] == {"path": str(place.work / "data" / "one")}
    assert place.audit()[-1]["kind"] == "exit"
    printed = run(place, "audit").stdout.decode()
    assert "read" in printed
    assert "exit 0" in printed


def test_a_disk_that_is_full_refuses_calls_and_says_so() -> None:
    place = bench("relay-full", "echo one > data/one")
    file = place.work / "grant.toml"
    file.write_text(GRANT.replace("{W}", str(place.work)))
    # A limit on the size of files (4.3 MB) stands in for the disk: the audit is the only file that grows.
    limited = ["/bin/sh", "-c", 'ulimit -f 8400; exec "$@"', "sh", *mcpwrap(), "--audit-arguments"]
    limited += ["--grant", str(file)]
    command = [*limited, "--", *python(place, READER)]
    stderr = place.work / "stderr"
    with Session(command, env=place.env, cwd=place.work / "data", stderr=stderr) as session:
        session.initialize()
        arguments = {"path": str(place.work / "data" / "one"), "padding": "x" * 60_000}
        answers = [session.call("read", arguments) for _ in range(90)]
        assert text(answers[0]) == "one\n"
        assert failed(answers[-1])
        assert "audit" in text(answers[-1])
        assert session.close() == 0
    # The last record may be cut short; every call that was answered is in it before.
    written = next((place.work / "state").rglob("*.jsonl")).read_text()
    assert written.count('"kind":"opened"') >= sum(not failed(answer) for answer in answers)


def test_what_is_wider_than_in_the_last_run_is_said_and_a_change_during_a_run_too() -> None:
    place = bench("relay-wider", "echo one > data/one")
    with reader(place) as session:
        session.initialize()
    assert "wider than" not in session.stderr()
    wide = GRANT.replace('["{W}/data/fixed"]', '["{W}/data/fixed", "{W}/data/one"]')
    with reader(place, grant=wide) as session:
        session.initialize()
        (place.work / "grant.toml").write_text("schema = 1\n")
        session.call("nothing", {"path": str(place.work / "data" / "one")})
    said = session.stderr()
    assert "the grant is wider than in the last run (if you did not edit it, look): " in said
    assert "data/one" in said
    assert "has changed since this server started" in said


def test_a_call_sent_first_of_all_is_answered_without_initialize() -> None:
    place = bench("relay-first", "echo one > data/one")
    with reader(place) as session:
        answer = session.answer(session.request("server/discover"))
        assert "result" in answer
        assert text(session.call("read", {"path": str(place.work / "data" / "one")})) == "one\n"


def test_the_environment_is_a_safe_list_and_what_was_asked_for() -> None:
    place = bench("relay-env")
    done = subprocess.run(
        [*mcpwrap(), "--env", "ASKED", "--", "/usr/bin/env"],
        # Through a shell, whose own start environment says nothing of what was added.
        env={**place.env, "ASKED": "1", "SECRET_KEY": "2"},
        cwd=place.work / "data",
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    seen = done.stderr.decode()
    assert "ASKED=1" in seen
    assert "HOME=" in seen
