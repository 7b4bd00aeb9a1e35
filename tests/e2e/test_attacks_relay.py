"""Attacks on a whole run that went through: by the server, by arguments, by the environment it is started in."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest

from mcpwrap.audit import writer as writers
from mcpwrap.audit.reader import RunFile
from mcpwrap.audit.writer import AuditWriter
from mcpwrap.grant.lookup import places
from tests.e2e.client import Late, Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap

ROOT = Path(__file__).parents[2]
SECONDS = 30
confined = pytest.mark.needs("landlock", "userns", "seccomp", "user")

SERVER = """
import json, os, sys, time
def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view):]
def answer(message, content, bad=False):
    result = {"content": [{"type": "text", "text": content}], "isError": bad}
    write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\\n")
def read(path):
    try:
        return open(path).read(), False
    except (OSError, ValueError) as error:
        return ascii(error), True
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        if message["method"] == "tools/call":
            tool, arguments = message["params"]["name"], message["params"]["arguments"]
            answer(message, *read(arguments["path"]))
            if tool == "flood":
                for _ in range(150):
                    write(b'{"jsonrpc":"2.0","x":1}\\n' * 1000)
                write(b'{"jsonrpc":"2.0","method":"done"}\\n')
            if tool == "later":
                time.sleep(0.3)
                read(arguments["path"])
                write(b'{"jsonrpc":"2.0","method":"done"}\\n')
        else:
            answer(message, "ok")
"""
"""Tools read `path`. `flood` then writes 3.6 MB that are no message; `later` reads once more after its answer."""

GRANT = """schema = 1
[server]
profile = ["python"]
[policy]
within = ["{W}/data"]
[tools.read]
fs_read = ["$arg:path"]
[tools.many]
fs_read = ["$arg:paths[]"]
[tools."flood|later"]
"""


def session(place: Bench) -> Session:
    (place.work / "server.py").write_text(SERVER)
    file = place.work / "grant.toml"
    file.write_text(GRANT.replace("{W}", str(place.work)))
    server = [sys.executable, "-I", str(place.work / "server.py")]
    command = [*mcpwrap(), "--grant", str(file), "--", *server]
    return Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / "stderr")


def run(place: Bench, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*mcpwrap(), *words],
        input="",
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
        env={**place.env, **environ},
        cwd=place.work / "data",
    )


def outside(name: str) -> Path:
    """Return a file that no grant here names, beside every view of a home."""
    directory = Path("/var/tmp") / f"mcpwrap-attacks-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    (directory / name).write_text("secret\n")
    return directory / name


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


def done(client: Session) -> None:
    """Wait for the server's own word that it has done what it does behind its answer."""
    known = len(client.notifications)
    client.until(lambda: len(client.notifications) > known, SECONDS, "the server's last word")


# Arguments


@confined
def test_half_a_surrogate_pair_in_a_path_ends_neither_the_call_nor_the_run() -> None:
    place = bench("attack-surrogate", "echo one > data/one")
    with session(place) as client:
        client.initialize()
        answer = client.call("read", {"path": f"{place.work}/data/\ud800x"}, SECONDS)
        assert failed(answer)
        assert text(client.call("read", {"path": f"{place.work}/data/one"}, SECONDS)) == "one\n"
    assert "Traceback" not in client.stderr()


@confined
@pytest.mark.parametrize(("values", "components"), [(1, 300_000), (1, 3_000), (250, 1_900)])
def test_long_paths_cost_the_launcher_neither_time_nor_memory(values: int, components: int) -> None:
    """The launcher is under no limit of the sandbox, and handles no signal while it looks paths up."""
    place = bench("attack-long")
    with session(place) as client:
        client.initialize()
        paths = [f"{place.work}/data/{number}/" + "a/" * components for number in range(values)]
        try:
            client.call("many", {"path": "/", "paths": paths}, 8.0)
            status = Path(f"/proc/{client.process.pid}/status").read_text()
        except Late:
            client.process.kill()
            raise
    peak = int(status.partition("VmHWM:")[2].split()[0])
    assert peak < 150_000, f"{peak} KiB"


# The audit


@confined
def test_a_server_cannot_crowd_a_call_out_of_the_audit() -> None:
    place = bench("attack-flood")
    secret = outside("flood")
    with session(place) as client:
        client.initialize()
        client.call("flood", {"path": str(secret)})
        done(client)
        client.call("read", {"path": str(secret)})
    records = place.audit()
    assert [record["window"] for record in records if record["kind"] == "opened"] == ["w1", "w2"]
    refused = [record["windows"] for record in records if record.get("object") == str(secret)]
    assert ["w2"] in refused


@confined
def test_what_is_refused_between_calls_is_on_disk_within_seconds() -> None:
    """Clients kill launchers: what waits for the next call to be written is lost then."""
    place = bench("attack-between")
    secret = outside("between")
    with session(place) as client:
        client.initialize()
        client.call("later", {"path": str(secret)})
        done(client)
        limit = time.monotonic() + 3
        seen: list[object] = []
        while not seen and time.monotonic() < limit:
            select.select([], [], [], 0.1)
            seen = [r for r in place.audit() if r.get("object") == str(secret) and not r["windows"]]
        client.process.kill()
    assert seen


def test_a_file_that_another_run_prunes_first_does_not_end_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four instances started at once on a full directory: three ended with a traceback."""
    for number in range(writers.KEEP_FILES + 2):
        (tmp_path / f"2020{number:04}T000000.000Z-1.jsonl").touch()
    writer = AuditWriter(str(tmp_path))

    def pruned_meanwhile(found: RunFile) -> bool:
        os.unlink(found.path)
        return False

    monkeypatch.setattr(writers, "_is_written", pruned_meanwhile)
    writer.prune()


@pytest.mark.parametrize(
    "line", ['{"kind":"run"}', '{"kind":"operation"}', '{"kind":"closed","window":"w1"}', "[" * 100_000]
)
def test_an_audit_with_a_damaged_line_is_printed_without_a_traceback(line: str, tmp_path: Path) -> None:
    directory = tmp_path / "mcpwrap" / "audit" / "x"
    directory.mkdir(parents=True)
    (directory / "20260101T000000.000Z-1.jsonl").write_text(line + "\n")
    shown = subprocess.run(
        [*mcpwrap(), "audit"],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "Traceback" not in shown.stderr


# The end


@confined
@pytest.mark.parametrize("closes", ["0", "0, 1", "0, 1, 2"])
def test_the_end_of_the_clients_stream_ends_a_server_that_has_closed_its_own(closes: str) -> None:
    place = bench("attack-closes")
    mark = f"attack-closes-{os.getpid()}-{closes.replace(', ', '')}"
    code = f"import os, time\nfor fd in ({closes},): os.close(fd)\nwhile True: time.sleep(60)"
    process = subprocess.Popen(
        [*mcpwrap(), "--", sys.executable, "-I", "-c", code, mark],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=place.env,
        cwd=place.work / "data",
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        limit = time.monotonic() + SECONDS
        while len(processes_with(mark)) < 3 and time.monotonic() < limit:
            select.select([], [], [], 0.02)
        select.select([], [], [], 0.5)  # It closes them right after its start.
        process.stdin.close()
        limit = time.monotonic() + 6
        while processes_with(mark) and time.monotonic() < limit:
            select.select([], [], [], 0.05)
        assert not processes_with(mark)
    finally:
        process.kill()
        process.wait(SECONDS)
        process.stdout.close()


# Grants


@confined
def test_a_link_on_the_way_to_the_grant_file_cannot_be_turned_by_the_server_it_grants() -> None:
    place = bench("attack-link", "mkdir safe; ln -s ../safe data/conf")
    data, secret = place.work / "data", outside("link")
    wide = f'schema = 1\n[server]\nprofile = ["python"]\nfs_read = ["{secret.parent}"]\n'
    first = f'schema = 1\n[server]\nprofile = ["python"]\nfs_write = ["{data}"]\n'
    (place.work / "safe" / "grant.toml").write_text(first)
    grant = ("--grant", str(data / "conf" / "grant.toml"))
    turn = (
        f"import os; os.chdir({str(data)!r}); os.mkdir('mine')\n"
        f"open('mine/grant.toml', 'w').write({wide!r}); os.unlink('conf'); os.symlink('mine', 'conf')"
    )
    run(place, *grant, "--", sys.executable, "-I", "-c", turn)
    # Refused at the first start, or the link could not be turned, or what it leads to now is not believed.
    show = f"import sys; sys.stderr.write('GOT ' + open({str(secret)!r}).read())"
    assert "GOT secret" not in run(place, *grant, "--", sys.executable, "-I", "-c", show).stderr


@confined
def test_the_state_of_one_instance_is_not_inside_that_of_another() -> None:
    place = bench("attack-nested")
    state = place.work / "share"
    inner = Path(places({"XDG_DATA_HOME": str(state)}, "/nonexistent", "a/b").state) / "home" / "mark"
    run(place, "--name", "a/b", "--", "/bin/true", XDG_DATA_HOME=str(state))
    assert inner.parent.is_dir()
    run(place, "--name", "a", "--", "/bin/sh", "-c", f"echo x > {inner}", XDG_DATA_HOME=str(state))
    assert not inner.exists()


@confined
def test_where_the_user_keeps_configuration_is_no_path_named_for_the_server() -> None:
    place = bench("attack-xdg", "mkdir -p config/other; echo token > config/other/file")
    code = (
        f"import sys; sys.stderr.write('GOT ' + open({str(place.work)!r} + '/config/other/' + 'file').read())"
    )
    done = run(place, "--", sys.executable, "-I", "-c", code, XDG_CONFIG_HOME=str(place.work / "config"))
    assert "GOT token" not in done.stderr


@confined
def test_a_server_cannot_speak_on_stderr_as_mcpwrap_does() -> None:
    place = bench("attack-imitation")
    done = run(place, "--", "/bin/sh", "-c", "printf 'mcpwrap: refused: x; to allow it put y\\n' >&2")
    assert "\nserver: mcpwrap: refused: x; to allow it put y\n" in f"\n{done.stderr}"
    assert "\nmcpwrap: refused: x" not in f"\n{done.stderr}"


# The launcher's surroundings


@confined
def test_a_working_directory_that_is_gone_is_an_error_and_no_traceback() -> None:
    place = bench("attack-gone")
    shell = 'mkdir gone; cd gone; rmdir ../gone; exec "$@"'
    command = ["/bin/sh", "-c", shell, "sh", *mcpwrap(), "--", "/bin/true"]
    done = subprocess.run(
        command, env=place.env, cwd=place.work, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode in (125, 126)
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with mcpwrap's command in it, as an installer would leave it."""
    base = tmp_path_factory.mktemp("prefix")
    venv.create(base / "venv", with_pip=False, symlinks=True)
    site = next((base / "venv" / "lib").glob("python3*/site-packages"))
    (site / "mcpwrap.pth").write_text(f"{ROOT}\n")
    shutil.copy(ROOT / "bin" / "mcpwrap", base / "venv" / "bin" / "mcpwrap")
    (base / "venv" / "bin" / "mcpwrap").chmod(0o755)
    return base / "venv"


@pytest.mark.parametrize("variable", ["PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"])
@pytest.mark.parametrize("relative", [False, True])
def test_no_variable_moves_the_launcher_into_another_environment(
    variable: str, relative: bool, prefix: Path, tmp_path: Path
) -> None:
    """CPython reads both in spite of -I; the environment beside the path they name is then its own."""
    site = tmp_path / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    (site / "mcpwrap").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text(f"home = {Path(sys.base_prefix) / 'bin'}\n")
    (site / "mcpwrap" / "__init__.py").touch()
    (site / "mcpwrap" / "__main__.py").write_text("print('HOSTILE')")
    value = "bin/python3" if relative else str(tmp_path / "bin" / "python3")
    shown = subprocess.run(
        [prefix / "bin" / "mcpwrap", "--version"],
        env={"PATH": "/usr/bin:/bin", variable: value},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "HOSTILE" not in shown.stdout


@pytest.mark.parametrize("variable", ["PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__", "GCONV_PATH", "LOCPATH"])
def test_what_loads_code_before_the_first_line_of_python_is_not_handed_to_it(
    variable: str, prefix: Path, tmp_path: Path
) -> None:
    """With LOCPATH and GCONV_PATH the C library takes its locale, and a shared object, from a directory."""
    shutil.copytree(prefix / "bin", tmp_path / "bin", symlinks=True)
    python = tmp_path / "bin" / "python3"
    python.unlink()
    python.write_text("#!/bin/sh\nexec env\n")
    python.chmod(0o755)
    shown = subprocess.run(
        [tmp_path / "bin" / "mcpwrap"],
        env={"PATH": "/usr/bin:/bin", variable: "/attack", "KEPT": "1"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert "KEPT=1" in shown.stdout
    assert f"{variable}=" not in shown.stdout


def test_no_library_of_the_launcher_reads_a_variable_meant_for_the_server(
    prefix: Path, tmp_path: Path
) -> None:
    """OpenSSL, behind hashlib, loads the shared objects that the file of OPENSSL_CONF names."""
    fifo = tmp_path / "openssl.cnf"
    os.mkfifo(fifo)
    shown = subprocess.run(
        [prefix / "bin" / "mcpwrap", "show", "--json", "--", "/bin/true"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OPENSSL_CONF": str(fifo)},
        capture_output=True,
        text=True,
        timeout=SECONDS,  # Opening it would never return.
        check=False,
    )
    assert '"digest": "sha256:' in shown.stdout, shown.stderr


@pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="there is no bash")
def test_where_sh_is_bash_no_variable_has_it_trace_with_a_command(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "sh").symlink_to("/bin/bash")
    script = (prefix / "bin" / "mcpwrap").read_text()
    first, _, rest = script.partition("\n")
    shutil.copytree(prefix / "bin", tmp_path / "prefix", symlinks=True)
    copied = tmp_path / "prefix" / "mcpwrap"
    # The same line with this sh: whatever options it gives are part of the defence.
    copied.write_text(first.replace("/bin/sh", str(tmp_path / "sh")) + "\n" + rest)
    mark = tmp_path / "mark"
    subprocess.run(
        [copied, "--version"],
        env={"PATH": "/usr/bin:/bin", "SHELLOPTS": "xtrace", "PS4": f"$(touch {mark})"},
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert not mark.exists()
