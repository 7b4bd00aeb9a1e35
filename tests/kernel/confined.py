"""Runs Python code in the sandbox alone: a real plan, real namespaces, mounts, Landlock and filter, and a
broker that lets every trapped call pass. What holds here is held by the sandbox, whatever a broker decides.

As a module it is used by the tests; as a script it is the relay of one run, in a process of its own.
"""

from __future__ import annotations

import json
import mmap
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # as a script it is run with -I

from mcpwrap.kernel import process

PROJECT = Path(__file__).parents[2]
ORDINARY = 1500
"""The user id runs are made with when the tests are run by root; it needs no password entry."""
SECONDS = 30
BURIAL_MS = 20

PYTHON = os.path.realpath(sys.executable)


@dataclass
class Result:
    """What the server wrote, and the stem's status lines by their only key."""

    out: str
    err: str
    status: dict[str, Any]

    def value(self) -> Any:
        """Return what the code printed, as JSON."""
        assert self.out, self
        return json.loads(self.out)


@dataclass
class Place:
    """A directory of its own outside /root, that the run's user owns; `home` is that user's home in it."""

    root: Path
    home: Path
    options: dict[str, Any] = field(default_factory=dict)

    def make(self, name: str, content: str | None = None) -> str:
        """Make a directory (or with `content` a file) below the root; returns its path."""
        path = self.root / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        self.own()
        return str(path)

    def own(self) -> None:
        """Give everything to the run's user."""
        if os.geteuid() == 0:
            subprocess.run(
                ["chown", "-hR", f"{ORDINARY}:{ORDINARY}", str(self.root)], check=True, timeout=SECONDS
            )

    def command(self, code: str | list[str], **options: Any) -> list[str]:
        """Return the command line of one run of this file as a script."""
        self.own()
        argv = [PYTHON, "-I", "-S", "-c", code] if isinstance(code, str) else code
        spec = {"argv": argv, "home": str(self.home), "cwd": str(self.home), **self.options, **options}
        return [sys.executable, "-I", __file__, json.dumps(spec)]

    def run(self, code: str | list[str], **options: Any) -> Result:
        """Run `code` confined, to its end."""
        command = self.command(code, **options)
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False, **as_user())
        assert not done.returncode, done.stderr.decode()
        return Result(**json.loads(done.stdout))

    @contextmanager
    def running(self, code: str, **options: Any) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, int]]]:
        """Run `code` confined until the block ends; gives the relay's process and the pids it told."""
        command = self.command(code, hold=True, **options)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **as_user()) as relay:
            assert relay.stdout is not None
            try:
                readable, _, _ = select.select([relay.stdout], [], [], SECONDS)
                assert readable, "nothing was started"
                yield relay, json.loads(relay.stdout.readline())
            finally:
                relay.kill()


@contextmanager
def place() -> Iterator[Place]:
    """Give a `Place` that is removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="mcpwrap-test-"))
    root.chmod(0o755)
    home = root / "home"
    home.mkdir()
    try:
        yield Place(root, home)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def as_user() -> dict[str, Any]:
    """Return what makes `subprocess` run as an ordinary user."""
    return {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if os.geteuid() == 0 else {}


class Tree:
    """Processes that are to end. Their orphans come to this process meanwhile, which buries them at once:
    a pid 1 that waits for the burial of a dead one is not gone, and not every machine's init is quick."""

    def __init__(self, pids: list[int]) -> None:
        process.set_child_subreaper()
        self._pidfds = {process.pidfd_open(pid): pid for pid in pids}

    def gone(self, seconds: float) -> bool:
        """Whether all of them end within `seconds`."""
        end = time.monotonic() + seconds
        poll = select.poll()
        for fd in self._pidfds:
            poll.register(fd, select.POLLIN)
        left = set(self._pidfds)
        while left and time.monotonic() < end:
            for fd, _ in poll.poll(BURIAL_MS):
                poll.unregister(fd)
                left.discard(fd)
            for pid in self._pidfds.values():
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
        return not left


# The relay of one run.


def _relay(spec: dict[str, Any]) -> None:
    from types import SimpleNamespace

    from mcpwrap.broker import loop
    from mcpwrap.errors import Error
    from mcpwrap.policy.page import SIZE
    from mcpwrap.sandbox import plan as plans
    from mcpwrap.sandbox import stem, system

    loop.serve = _pass_everything
    home, state = spec["home"], spec.get("state", spec["home"] + "/.local/share/mcpwrap/test")
    argv = spec["argv"]
    program = os.path.realpath(argv[0])
    facts = SimpleNamespace(
        home=home,
        passwd_home=home,
        homes=(home,),
        cwd=spec["cwd"],
        state=state,
        cache=home + "/.cache/mcpwrap/test",
        system=system.readable(),
        installation=(sys.base_prefix, *spec.get("installation", ())),
        programs=(program,),
        loaders=system.loaders(program),
        real=os.path.realpath,
    )
    floor = SimpleNamespace(
        reads=spec.get("reads", ()),
        writes=spec.get("writes", ()),
        executables=spec.get("executables", ()),
        files=spec.get("files", ()),
        parents=spec.get("parents", ()),
        missing=spec.get("missing", ()),
        covers=spec.get("covers", ()),
        links=spec.get("links", ()),
        any_writable=spec.get("any_writable", False),
    )
    _prepare(spec.get("before", ""))
    limits = plans.Limits(**spec.get("limits", {}))
    page = os.memfd_create("page")
    os.truncate(page, SIZE)
    activity = memoryview(mmap.mmap(-1, 8))
    try:
        plan = plans.plan(floor, facts, plans.Wanted(argv[0], limits=limits))  # type: ignore[arg-type]
        nothing = SimpleNamespace(egress=False, load=lambda: None)
        child = stem.start(plan, nothing, page, activity, argv, {"PATH": "/usr/bin:/bin", "HOME": home})  # type: ignore[arg-type]
    except Error as error:
        failed = {"what": error.what, "way_out": error.way_out, "exit_status": error.exit_status}
        print(json.dumps({"out": "", "err": "", "status": {"failed": failed}}))
        return
    if spec.get("hold"):
        first = os.read(child.stdout, 4096)
        started = json.loads(os.read(child.status, 4096).splitlines()[0])["started"]
        print(json.dumps({"stem": child.pid, "server": started["pid"], "said": int(first)}), flush=True)
        sys.stdin.read()
        return
    os.write(child.stdin, spec.get("stdin", "").encode())
    os.close(child.stdin)
    texts = _drain([child.stdout, child.stderr, child.status])
    os.waitpid(child.pid, 0)
    status: dict[str, Any] = {}
    for line in texts[2].splitlines():
        status |= json.loads(line)
    print(json.dumps({"out": texts[0].decode(), "err": texts[1].decode(), "status": status}))


def _drain(fds: list[int]) -> list[bytes]:
    found = dict.fromkeys(fds, b"")
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    left = set(fds)
    while left:
        ready = poll.poll(SECONDS * 1000)
        if not ready:
            raise TimeoutError(found)
        for fd, _ in ready:
            data = os.read(fd, 65536)
            found[fd] += data
            if not data:
                poll.unregister(fd)
                left.discard(fd)
    return [found[fd] for fd in fds]


def _prepare(what: str) -> None:
    """Make a machine that lacks something, in this process only."""
    from mcpwrap.kernel import seccomp

    if what == "no user namespaces":
        uid, gid = os.getuid(), os.getgid()
        process.unshare(process.CLONE_NEWUSER)
        maps = (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1"))
        for name, text in (*maps, ("../sys/user/max_user_namespaces", "0")):
            with open(f"/proc/self/{name}" if ".." not in name else f"/proc/{name[3:]}", "w") as file:
                file.write(text)
    elif what == "a listener":
        process.set_no_new_privs()
        seccomp.load(seccomp.INSTRUCTION.pack(0x06, 0, 0, seccomp.RET_ALLOW), listener=True)


def _pass_everything(listener: int, *, life: int, server_pidfd: int, **_: object) -> None:
    from mcpwrap.broker.loop import Ended
    from mcpwrap.kernel import seccomp

    poll = select.poll()
    for fd in (listener, life, server_pidfd):
        poll.register(fd, select.POLLIN)
    while True:
        ready = dict(poll.poll())
        if life in ready:
            raise Ended("mcpwrap is gone")
        if ready.get(listener, 0) & select.POLLIN:
            call = seccomp.receive(listener)
            if call is not None:
                seccomp.respond(listener, call.id, flags=seccomp.CONTINUE)
        elif listener in ready:
            poll.unregister(listener)
        if server_pidfd in ready:
            return


if __name__ == "__main__":
    signal.alarm(SECONDS)
    _relay(json.loads(sys.argv[1]))
