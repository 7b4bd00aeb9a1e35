"""Each refused group, tried by raw calls in a process under the filter, and the same calls without it."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mcpwrap.kernel.numbers import NR
from mcpwrap.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_USER_NOTIF
from mcpwrap.sandbox.arguments import ABSENT, NOT_PERMITTED, NOT_SUPPORTED
from mcpwrap.sandbox.syscalls import GROUPS

ROOT = Path(__file__).parents[2]
VICTIM = ROOT / "tests/victims/raw_calls.py"

EPERM, EACCES, ENOSYS = errno.EPERM, errno.EACCES, errno.ENOSYS
BAD = "bad"
CLONE_FS_ALONE = 0x200 | 0x800
"""With CLONE_SIGHAND but without CLONE_VM, which the kernel answers with EINVAL, if it is asked."""
THREAD_ALONE = 0x10000
"""CLONE_THREAD without CLONE_FS; and without CLONE_SIGHAND, for the same reason."""

# (call, arguments, errno with the filter): without it each gets something else, as anybody.
CASES: list[tuple[str, list[int | str | list[int]], int]] = [
    ("ptrace", [0, 0, 0, 0], EPERM),
    ("process_vm_readv", [1, BAD, 1, BAD, 1, 7], EPERM),
    ("process_vm_writev", [1, BAD, 1, BAD, 1, 7], EPERM),
    ("pidfd_getfd", [-1, 0, 0], EPERM),
    ("process_madvise", [-1, 0, 0, 0, 7], EPERM),
    ("userfaultfd", [0x7FFF0001], EPERM),
    ("perf_event_open", [BAD, 0, 0, -1, 0], EPERM),
    ("keyctl", [0, -3, 0], EPERM),
    ("add_key", [BAD, BAD, 0, 0, 0], EPERM),
    ("request_key", [BAD, BAD, 0, 0], EPERM),
    ("mount", [BAD, BAD, BAD, 0, 0], EPERM),
    ("open_tree", [-1, BAD, 0], EPERM),
    ("setns", [-1, 0], EPERM),
    ("unshare", [0x200], EPERM),
    ("unshare", [0x10000000], EPERM),
    ("chroot", [BAD], EPERM),
    ("name_to_handle_at", [-1, BAD, BAD, BAD, 0], EPERM),
    ("fanotify_mark", [-1, 0, 0, -1, 0], EPERM),
    ("adjtimex", [BAD], EPERM),
    ("quotactl", [-1, BAD, 0, 0], EPERM),
    ("io_uring_setup", [1, BAD], ENOSYS),
    ("io_uring_enter", [-1, 0, 0, 0, 0, 0], ENOSYS),
    ("clone3", [BAD, 8], ENOSYS),
    ("openat2", [-100, BAD, BAD, 24], ENOSYS),
    ("seccomp", [2, 0, BAD], ENOSYS),
    ("landlock_create_ruleset", [0, 0, 1], ENOSYS),
    ("fchmodat2", [-1, BAD, 0, 0], ENOSYS),
    ("shmget", [0, 4096, 0o1600], ENOSYS),
    ("io_setup", [1, BAD], ENOSYS),
    ("memfd_secret", [0x7F], ENOSYS),
    ("get_mempolicy", [BAD, 0, 0, 0, 0], ENOSYS),
    ("socket", [1, 2, 0], EACCES),
    ("socket", [1, 3, 0], EACCES),
    ("socket", [16, 3, 15], errno.EPROTONOSUPPORT),
    ("socket", [2, 2, 136], errno.EPROTONOSUPPORT),
    ("socket", [2, 99, 0], EPERM),
    ("socket", [17, 3, 0], errno.EAFNOSUPPORT),
    ("socketpair", [1, 2, 0, BAD], EACCES),
    ("clone", [0x10000011], EPERM),
    ("clone", [0x8011], EPERM),
    ("clone", [CLONE_FS_ALONE], EPERM),
    ("clone", [THREAD_ALONE], EPERM),
    ("getxattr", [BAD, BAD, 0, 0], errno.EOPNOTSUPP),
    ("lgetxattr", [BAD, BAD, 0, 0], errno.EOPNOTSUPP),
    ("listxattr", [BAD, 0, 0], errno.EOPNOTSUPP),
    ("llistxattr", [BAD, 0, 0], errno.EOPNOTSUPP),
    ("memfd_create", [[109, 0], 1], EACCES),
    ("memfd_create", [[109, 0], 0x10], EACCES),
    ("ioctl", [-1, 0x5412, BAD], EPERM),
    ("ioctl", [-1, 0x5412 + (1 << 32), BAD], EPERM),
    ("ioctl", [-1, 0x541C, BAD], EPERM),
    ("ioctl", [-1, 0x40086602, BAD], EPERM),
    ("ioctl", [-1, 0x401C5820, BAD], EPERM),
    ("ioctl", [-1, 0x5000940F, BAD], errno.ENOTTY),
    ("prctl", [22, 2, BAD, 0, 0], errno.EINVAL),
    ("prctl", [4, 7, 0, 0, 0], 0),
    ("fcntl", [-1, 1024, 0], EACCES),
    ("personality", [0x0040000], EPERM),
    ("prlimit64", [-1, 7, 0, 0], EPERM),
]


@cache
def answers(how: str, cases: str) -> list[int]:
    done = subprocess.run(
        [sys.executable, str(VICTIM), how],
        input=cases,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    found: list[int] = json.loads(done.stdout)
    return found


def made(how: str) -> list[int]:
    return answers(how, json.dumps([(name, arguments) for name, arguments, _ in CASES if name in NR]))


PRESENT = [case for case in CASES if case[0] in NR]


@pytest.mark.needs("seccomp")
@pytest.mark.parametrize("at", range(len(PRESENT)), ids=[f"{case[0]}-{n}" for n, case in enumerate(PRESENT)])
def test_a_call_is_refused_under_the_filter_and_only_there(at: int) -> None:
    wanted = PRESENT[at][2]
    assert made("filtered")[at] == wanted
    without = made("bare")[at]
    if without == ENOSYS:
        pytest.skip("this kernel does not have the call")
    assert without != wanted, "the test would pass without the filter"


@pytest.mark.needs("seccomp")
@pytest.mark.parametrize("verdict", [NOT_PERMITTED, ABSENT, NOT_SUPPORTED])
def test_every_call_refused_by_name_is_refused(verdict: int) -> None:
    names = [n for g in GROUPS if g.verdict == verdict for n in g.calls.split() if n in NR]
    got = answers("filtered", json.dumps([(name, [-1, -1, -1, -1, -1, -1]) for name in names]))
    assert dict(zip(names, got, strict=True)) == dict.fromkeys(names, verdict & ~RET_ERRNO)


@pytest.mark.needs("seccomp")
def test_a_memory_file_that_can_never_be_run_is_allowed() -> None:
    case = json.dumps([("memfd_create", [[109, 0], 0x9])])
    assert answers("filtered", case) == answers("bare", case)


@pytest.mark.needs("seccomp")
@pytest.mark.parametrize("how", ["filtered", "tier C", "nested"])
def test_threads_share_their_working_directory_and_nobody_else_does(how: str) -> None:
    case = json.dumps([("clone", [CLONE_FS_ALONE]), ("clone", [THREAD_ALONE])])
    assert answers(how, case) == [EPERM, EPERM]
    assert answers("bare", case) == [errno.EINVAL, errno.EINVAL]


TRAPPING = {"thread pointer", "send to an address", "asking to execute", "asking to execute at"}
"""Groups of `Check`s that refuse nothing."""


def test_each_refusing_group_has_a_call_tried_here() -> None:
    tried = {name for name, _, _ in CASES}
    for group in GROUPS:
        if group.verdict not in (RET_ALLOW, RET_USER_NOTIF) and group.name not in TRAPPING:
            assert tried & set(group.calls.split()), group.name


@pytest.mark.needs("seccomp")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the ABIs of x86_64")
class TestOtherAbis:
    def test_a_call_through_x32_is_absent(self) -> None:
        numbers = [f"#{0x40000000 + n}" for n in (NR["getpid"], NR["read"], 520)]
        assert answers("filtered", json.dumps([(n, [0]) for n in numbers])) == [ENOSYS] * 3

    def test_a_call_through_the_32_bit_gate_ends_the_process(self) -> None:
        # mov eax, 20 (getpid); int 0x80; ret
        code = (
            "import ctypes, mmap\n"
            "from mcpwrap.kernel import process, seccomp\n"
            "from mcpwrap.sandbox.seccomp import program\n"
            "page = mmap.mmap(-1, 4096, prot=7)\n"
            "page.write(bytes.fromhex('b814000000cd80c3'))\n"
            "gate = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
            "print(gate(), flush=True)\n"
            "process.set_no_new_privs()\n"
            "seccomp.load(program(False), listener=False)\n"
            "print(gate(), flush=True)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert len(done.stdout.split()) == 1, done
        assert -done.returncode == 31, done
