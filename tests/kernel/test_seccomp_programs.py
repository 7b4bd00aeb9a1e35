"""Real programs work under the list: only what would be brokered is allowed without a broker here."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

START = """
import os, sys
from mcpwrap.kernel import process, seccomp
from mcpwrap.sandbox.seccomp import program
process.set_no_new_privs()
seccomp.load(program(False), listener=False)
os.execvp(sys.argv[1], sys.argv[1:])
"""

pytestmark = pytest.mark.needs("seccomp")


def run(tmp_path: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START, *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "PYTHONPATH": str(ROOT),
            "GIT_AUTHOR_NAME": "A",
            "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "A",
            "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_CONFIG_NOSYSTEM": "1",
        },
    )
    assert done.returncode == 0, done
    return done.stdout


@pytest.mark.needs("node")
def test_node_has_files_children_threads_interfaces_sockets_and_names(tmp_path: Path) -> None:
    script = """
    const fs = require("fs"), net = require("net"), said = [];
    const end = n => { said.push(n); if (said.length == 6) console.log(said.sort().join(" ")) };
    fs.writeFileSync("a", "x"); fs.watch(".").close();
    if (fs.readFileSync("a", "utf8") == "x") end("file");
    if (require("os").networkInterfaces().lo) end("interfaces");
    if (`${require("child_process").execSync("echo sub")}` == "sub\\n") end("child");
    new (require("worker_threads").Worker)("1", {eval: true}).on("exit", () => end("thread"));
    const server = net.createServer(s => s.end("hi")).listen(0, "127.0.0.1", () =>
        net.connect(server.address().port, "127.0.0.1").on("data", () => { end("socket"); server.close() }));
    require("dns").lookup("localhost", e => { if (!e) end("name") });
    """
    assert run(tmp_path, "node", "-e", script).split() == "child file interfaces name socket thread".split()


@pytest.mark.needs("npm")
def test_npm_starts(tmp_path: Path) -> None:
    assert run(tmp_path, "npm", "--version")


@pytest.mark.needs("git")
def test_git_commits_packs_clones_and_fetches(tmp_path: Path) -> None:
    commands = (
        "git init -q a && cd a && echo 1 >f && git add f && git commit -qm one && git gc -q && git clone -q . ../b "
        "&& echo 2 >f && git commit -qam two && cd ../b && git pull -q && git diff HEAD~1 | grep -c '^+2' && "
        "git stash -q; git status --short"
    )
    assert run(tmp_path, "sh", "-c", commands).split()[0] == "1"


def test_python_has_children_pools_loops_databases_and_sockets(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("""
import asyncio, multiprocessing, shutil, socket, sqlite3, subprocess, threading
if __name__ == "__main__":
    assert subprocess.check_output(["echo", "x"]) == b"x\\n"
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(abs, [-1]) == [1]
    async def child():
        process = await asyncio.create_subprocess_exec("true")
        return await process.wait()
    assert asyncio.run(child()) == 0
    base = sqlite3.connect("db")
    base.execute("pragma journal_mode=wal")
    base.execute("create table t(a)")
    base.commit()
    assert socket.getaddrinfo("localhost", 80)
    thread = threading.Thread(target=shutil.copy2, args=("program.py", "copy"))
    thread.start(); thread.join()
    left, right = socket.socketpair()
    left.sendmsg([b"x"]); assert right.recv(1) == b"x"
    print("all")
""")
    with suppress(OSError):  # not every file system has any
        os.setxattr(tmp_path / "program.py", "user.a", b"1")
    assert run(tmp_path, sys.executable, "-P", "program.py") == "all\n"


def test_files_with_attributes_are_listed_copied_moved_and_packed(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").touch()
    with suppress(OSError):  # not every file system has any
        os.setxattr(tmp_path / "d", "user.a", b"1")
        os.setxattr(tmp_path / "d" / "f", "user.a", b"1")
    commands = "ls -l d; cp -a d e; install -p d/f g; mv e h; tar cf x.tar d; tar xpf x.tar; ls h g"
    assert run(tmp_path, "sh", "-ec", commands).split()[-3:] == ["g", "h:", "f"]


def test_a_shell_and_the_usual_tools_work(tmp_path: Path) -> None:
    commands = (
        "echo hi | cat >a; (sleep 0.01 &); wait; cp -a a b; mv b c; chmod 600 c; touch -d '2001-01-01' c; ln -s c d; "
        "tar cf x.tar a c d; tar tf x.tar | wc -l; rm -r c d; mkfifo p; (echo q >p &); cat p; find . -type f | sort; "
        "ls -l /dev/null >/dev/null; id -u >/dev/null; date >/dev/null; dd if=/dev/zero of=o bs=1 count=1 2>/dev/null"
    )
    assert run(tmp_path, "sh", "-c", commands).split() == ["3", "q", "./a", "./x.tar"]


@pytest.mark.needs("rg")
def test_ripgrep_searches(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("needle\n")
    assert run(tmp_path, "rg", "--no-config", "-c", "needle", ".") == "./a:1\n"
