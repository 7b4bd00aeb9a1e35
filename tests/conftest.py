"""What the machine must have for a test: `@pytest.mark.needs("userns", "seccomp")`.

A test whose need is not met is skipped with the reason. With MCPWRAP_MUST_WORK=1 (CI) it fails
instead, with MCPWRAP_MUST_WORK=userns,git what needs one of these does: a machine that tests nothing
must not look green. The probes do the real thing, in a process of their own, and share no code with
the package: what they find is the oracle for what it claims.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

MUST_WORK = "MCPWRAP_MUST_WORK"
PROBE_SECONDS = 20

# landlock_create_ruleset has this number on every architecture; (NULL, 0, VERSION) answers the ABI.
LANDLOCK_ABI = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print(libc.syscall(444, None, 0, 1))
"""

# A filter that allows all (BPF_RET|BPF_K, SECCOMP_RET_ALLOW), asked for with a listener.
LISTENER = """
import ctypes, os, platform, struct, sys
number = {"x86_64": 317, "aarch64": 277}[platform.machine()]
SET_MODE_FILTER, NEW_LISTENER, WAIT_KILLABLE_RECV, NO_NEW_PRIVS = 1, 8, 32, 38
libc = ctypes.CDLL(None, use_errno=True)
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7FFF0000))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 1, ctypes.addressof(code)))
libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
if libc.syscall(number, SET_MODE_FILTER, NEW_LISTENER | WAIT_KILLABLE_RECV, program) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
"""


def _run(*command: str) -> tuple[str, str]:
    """Return (standard output, reason); the reason is empty if the command succeeded."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return "", str(problem)
    if done.returncode:
        return done.stdout, done.stderr.strip() or f"exit status {done.returncode}"
    return done.stdout, ""


@functools.cache
def landlock_abi() -> int:
    """Return the kernel's Landlock ABI, 0 if it has none."""
    out, _ = _run(sys.executable, "-I", "-c", LANDLOCK_ABI)
    return max(0, int(out or 0))


@functools.cache
def user_namespaces() -> str:
    """Return why an unprivileged user namespace cannot mount, or nothing."""
    namespaces = ("--user", "--map-root-user", "--mount", "--pid", "--net", "--fork")
    return _run("unshare", *namespaces, "mount", "-t", "tmpfs", "none", "/mnt")[1]


@functools.cache
def seccomp_listener() -> str:
    """Return why a seccomp listener (kernel 5.19, none installed already) is not to be had, or nothing."""
    return _run(sys.executable, "-I", "-c", LISTENER)[1]


def ordinary_user() -> str:
    """Return why this process is no ordinary user's, or nothing."""
    return "this is root" if os.geteuid() == 0 else ""


def root() -> str:
    """Return why this process is not root with all its rights, or nothing."""
    return _run("unshare", "--mount", "true")[1] if os.geteuid() == 0 else "this is an ordinary user"


def apparmor() -> str:
    """Return why nothing can be run under the AppArmor profile that grants all but namespaces, or nothing."""
    deprived = Path(__file__).parent / "victims" / "deprived.py"
    failed = _run(sys.executable, "-I", "-B", str(deprived), "apparmor", "/bin/true")[1]
    return failed and "the profile of the guests of `make vmtest` is not loaded here"


def hatchling() -> str:
    """Return why a wheel cannot be built without the network, or nothing."""
    return "" if importlib.util.find_spec("hatchling") else "hatchling is not installed in this environment"


def postgres() -> str:
    """Return why no PostgreSQL server can be run here, or nothing."""
    # Debian puts the server's programs where PATH does not lead.
    found = shutil.which("psql") and list(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return "" if found else "no PostgreSQL server and psql are installed"


def command(name: str) -> Callable[[], str]:
    """Return a probe for a command on PATH."""
    return lambda: "" if shutil.which(name) else f"no `{name}` on PATH"


PROBES: dict[str, Callable[[], str]] = {
    "userns": user_namespaces,
    "seccomp": seccomp_listener,
    "user": ordinary_user,
    "root": root,
    "apparmor": apparmor,
    "hatchling": hatchling,
    "postgres": postgres,
    **{
        name: command(name)
        for name in (
            "bwrap",
            "chromium",
            "curl",
            "gcc",
            "git",
            "node",
            "npm",
            "openssl",
            "redis-server",
            "rg",
            "strace",
        )
    },
}


def missing(need: str) -> str:
    """Return why `need` is not met here, or nothing. `landlock` is any ABI, `landlock6` ABI 6 or newer."""
    landlock = re.fullmatch(r"landlock(\d*)", need)
    if landlock:
        least = int(landlock[1] or 1)
        return "" if landlock_abi() >= least else f"Landlock ABI {landlock_abi()} < {least}"
    if need not in PROBES:
        raise pytest.UsageError(f"needs({need!r}): no such probe in tests/conftest.py")
    return PROBES[need]()


def must_work(need: str) -> bool:
    """Whether the run must not skip for want of this: `1` names what any machine can have, else they are named."""
    named = os.environ.get(MUST_WORK, "")
    return need in named.split(",") or (named == "1" and need != "apparmor")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or fail under MCPWRAP_MUST_WORK, a test whose needs are not met."""
    for mark in item.iter_markers("needs"):
        for need in mark.args:
            reason = missing(need)
            # Both cannot be had in one run; .ci/run has a second one for the tests that give root up.
            if reason and must_work(need) and not (need == "root" and os.geteuid()):
                pytest.fail(f"{MUST_WORK} is set, and there is no {need}: {reason}", pytrace=False)
            if reason:
                pytest.skip(f"needs {need}: {reason}")
