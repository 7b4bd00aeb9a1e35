"""Answering trapped calls: what the caller gets, and what becomes of a caller that died."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpwrap.kernel import process, seccomp
from mcpwrap.kernel.numbers import NR
from mcpwrap.sandbox.seccomp import program
from mcpwrap.sandbox.syscalls import GROUPS

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("seccomp")

VICTIM = """
import ctypes, os, sys
from mcpwrap.kernel import bpf, process, seccomp
from mcpwrap.kernel.numbers import AUDIT_ARCH, NR
libc = ctypes.CDLL(None, use_errno=True)
trapped = dict.fromkeys((NR["getppid"], NR["getpgid"]), seccomp.RET_USER_NOTIF)
process.set_no_new_privs()
print(seccomp.load(bpf.assemble(AUDIT_ARCH, trapped, seccomp.RET_ALLOW), listener=True), flush=True)
for line in sys.stdin:
    number, argument = map(int, line.split())
    result = libc.syscall(ctypes.c_long(number), ctypes.c_long(argument))
    print(result, ctypes.get_errno() if result == -1 else 0, flush=True)
"""


class Victim:
    """A process under a filter that traps getppid and getpgid, and our copy of its listener."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", VICTIM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdin
        assert self.process.stdout
        self.input, self.output = self.process.stdin, self.process.stdout
        number = int(self.output.readline())
        pidfd = process.pidfd_open(self.process.pid)
        try:
            self.listener = process.pidfd_getfd(pidfd, number)
        finally:
            os.close(pidfd)

    def call(self, name: str, argument: int = 0) -> seccomp.Notification:
        self.input.write(f"{NR[name]} {argument}\n")
        self.input.flush()
        notification = seccomp.receive(self.listener)
        assert notification
        return notification

    def result(self) -> tuple[int, int]:
        value, error = self.output.readline().split()
        return int(value), int(error)


@contextmanager
def victim() -> Iterator[Victim]:
    it = Victim()
    try:
        yield it
    finally:
        it.process.kill()
        it.process.wait(10)
        it.input.close()
        it.output.close()
        os.close(it.listener)


def test_a_notification_tells_who_called_what_with_what() -> None:
    with victim() as it:
        notification = it.call("getpgid", 0x123456789ABCDEF)
        assert (notification.pid, notification.nr) == (it.process.pid, NR["getpgid"])
        assert len(notification.args) == 6
        assert notification.args[0] == 0x123456789ABCDEF
        assert seccomp.respond(it.listener, notification.id, value=7)
        assert it.result() == (7, 0)


def test_a_refused_call_fails_with_the_errno() -> None:
    with victim() as it:
        assert seccomp.respond(it.listener, it.call("getppid").id, error=errno.EACCES)
        assert it.result() == (-1, errno.EACCES)


def test_a_continued_call_is_made() -> None:
    with victim() as it:
        assert seccomp.respond(it.listener, it.call("getppid").id, flags=seccomp.CONTINUE)
        assert it.result() == (os.getpid(), 0)


def test_a_descriptor_is_given_and_its_number_returned(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with victim() as it, (tmp_path / "file").open() as file:
        for cloexec in (True, False):
            number = seccomp.add_fd_send(it.listener, it.call("getppid").id, file.fileno(), cloexec)
            assert it.result() == (number, 0)
            given = Path(f"/proc/{it.process.pid}/fd/{number}")
            assert given.readlink() == tmp_path / "file"
            flags = Path(f"/proc/{it.process.pid}/fdinfo/{number}").read_text().split()[3]
            assert bool(int(flags, 8) & os.O_CLOEXEC) is cloexec


def test_a_caller_with_no_descriptor_left_is_still_waiting_after_emfile() -> None:
    with victim() as it:
        resource.prlimit(it.process.pid, resource.RLIMIT_NOFILE, (4, 4))
        notification = it.call("getppid")
        with pytest.raises(OSError, match=rf"Errno {errno.EMFILE}\b"):
            seccomp.add_fd_send(it.listener, notification.id, 0, True)
        assert seccomp.alive(it.listener, notification.id)
        assert seccomp.respond(it.listener, notification.id, error=errno.EMFILE)
        assert it.result() == (-1, errno.EMFILE)


def test_a_dead_caller_is_told_by_each_function() -> None:
    with victim() as it:
        notification = it.call("getppid")
        assert seccomp.alive(it.listener, notification.id)
        it.process.kill()
        it.process.wait(10)
        assert not seccomp.alive(it.listener, notification.id)
        assert not seccomp.respond(it.listener, notification.id, error=1)
        assert seccomp.add_fd_send(it.listener, notification.id, 0, True) == -1


def test_a_signal_that_does_not_kill_does_not_end_the_wait() -> None:
    with victim() as it:
        notification = it.call("getppid")
        it.process.send_signal(signal.SIGWINCH)
        it.process.send_signal(signal.SIGCHLD)
        assert seccomp.alive(it.listener, notification.id)
        assert seccomp.respond(it.listener, notification.id, value=3)
        assert it.result() == (3, 0)


def test_threads_may_answer_at_the_same_time() -> None:
    with victim() as first, victim() as second:
        wrong: list[object] = []

        def serve(it: Victim, value: int) -> None:
            for _ in range(200):
                seccomp.respond(it.listener, it.call("getppid").id, value=value)
                if it.result() != (value, 0):
                    wrong.append(it)

        threads = [threading.Thread(target=serve, args=each) for each in ((first, 11), (second, 22))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong


def test_callers_get_enosys_once_the_listener_is_closed() -> None:
    load = next(line for line in VICTIM.splitlines() if "seccomp.load(" in line)
    closing = load.replace("print(", "os.close(").replace(", flush=True)", ")")
    done = subprocess.run(
        [sys.executable, "-c", VICTIM.replace(load, closing)],
        input=f"{NR['getppid']} 0\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.split() == ["-1", str(errno.ENOSYS)]


def test_sync_wake_up_is_set_where_the_kernel_has_it() -> None:
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    with victim() as it:
        assert seccomp.set_sync_wake_up(it.listener) is (release >= (6, 6))


def test_the_sizes_are_those_the_kernel_says() -> None:
    assert seccomp.notification_sizes() == (80, 24, 64)


def test_every_trapped_call_of_the_list_arrives() -> None:
    """One child for each: it makes the call with its registers empty, and is asked about."""
    code = """
import ctypes, json, os, sys
from mcpwrap.kernel import process, seccomp
from mcpwrap.sandbox.seccomp import program
numbers = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
process.set_no_new_privs()
print(seccomp.load(program(True), listener=True), flush=True)
for number, first in numbers:
    libc.syscall(ctypes.c_long(number), ctypes.c_long(first), *[ctypes.c_long(0)] * 3, ctypes.c_long(16))
os.write(1, b"done")
os._exit(0)
"""
    names = [
        name for group in GROUPS if group.verdict == seccomp.RET_USER_NOTIF for name in group.calls.split()
    ]
    calls = [(NR[name], 0) for name in names if name in NR] + [(NR["sendto"], 3)]
    calls += [(NR["arch_prctl"], 0x1002)] if "arch_prctl" in NR else []
    child = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(calls)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert child.stdout
    try:
        number = int(child.stdout.readline())
        pidfd = process.pidfd_open(child.pid)
        listener = process.pidfd_getfd(pidfd, number)
        os.close(pidfd)
        for wanted, _ in calls:
            notification = seccomp.receive(listener)
            assert notification
            assert notification.nr == wanted
            seccomp.respond(listener, notification.id, error=errno.EACCES)
        # Writing to a pipe and exiting ask nobody.
        assert child.stdout.read() == b"done"
        assert child.wait(10) == 0
        os.close(listener)
    finally:
        child.kill()
        child.wait(10)
        child.stdout.close()


def test_the_filter_of_the_list_is_small() -> None:
    assert len(program(True)) // seccomp.INSTRUCTION.size < 400
