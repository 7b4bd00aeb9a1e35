"""What this machine lets mcpwrap do, found by doing it in a forked process that is thrown away.

Asking is not enough: on Ubuntu 24.04 unshare succeeds, and the user map or the first mount then fails.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mcpwrap.errors import CannotConfine, Error
from mcpwrap.kernel import landlock as kernel_landlock
from mcpwrap.kernel import process, seccomp
from mcpwrap.kernel.numbers import AUDIT_ARCH, MACHINE
from mcpwrap.sandbox import init, landlock, mounts, namespaces, tiers
from mcpwrap.sandbox.plan import Limits, Plan
from mcpwrap.sandbox.steps import Proc

NEWEST_REVIEWED = "6.18"
"""The Linux version whose Landlock and system call tables were reviewed."""

State = Literal["active", "degraded", "unavailable"]


@dataclass(frozen=True, slots=True)
class Protection:
    """One layer: what it holds, whether it is to be had here, and if not wholly: why, and what to do."""

    name: str
    holds: str
    state: State
    reason: str = ""
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `tier` is one of `tiers.ORDER`, or empty (D) if nothing can hold a server; `line` says it
    in one sentence; `weaker` what is weaker than at tier B."""

    tier: str
    line: str
    weaker: tuple[str, ...]
    kernel: str
    machine: str
    protections: tuple[Protection, ...]

    def require(self, tier: str) -> None:
        """Raise CannotConfine, with the first reason and its way out, if only a weaker tier is to be had."""
        missing = next((each for each in self.protections if each.state == "unavailable"), None)
        if missing is None:
            return
        if not self.tier:
            raise CannotConfine(f"{self.line}: {missing.reason}", missing.fix)
        tiers.require(self.tier, tier, missing.reason, missing.fix)


_HOLDS = {
    "namespaces": "no process, network, host name or message queue of the machine is in reach",
    "view": "only granted files exist",
    "landlock": "what a call may do to files is bounded a second time, in the kernel's file code",
    "system calls": "only reviewed system calls work",
    "per call": "each call has its own grant",
    "memory": "a server that grows without end is stopped before the machine suffers",
}

_EMPTY_PLAN = Plan("", "/", (), (Proc("/proc", ("sys",)),), ("/",), (), (), Limits())


def probe() -> Report:
    """Try every layer. Takes about 10 ms; needs a process with one thread, and changes nothing."""
    found = {each["name"]: Protection(**each) for each in _attempt_in_child()}
    protections = tuple(
        found.get(name)
        or Protection(name, _HOLDS[name], "unavailable", "not tried: an earlier layer is missing")
        for name in _HOLDS
    )
    return Report(*_tier(protections), os.uname().release, os.uname().machine, protections)


def _tier(protections: tuple[Protection, ...]) -> tuple[str, str, tuple[str, ...]]:
    missing = {each.name for each in protections if each.state == "unavailable"}
    if not missing:
        tier = "B"
    elif missing <= {"namespaces", "view"}:
        tier = "C"
    elif missing == {"per call"}:
        tier = "B-"
    else:
        return "", "tier D: nothing here can hold a server", ()
    found = tiers.TIERS[tier]
    needs = f" (with --allow-degraded {tiers.PER_CALL})" if tier == "B-" else ""
    return tier, f"tier {tier}{needs}: {found.holds}", found.weaker


def _attempt_in_child() -> list[dict[str, Any]]:
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(reader)
            for each in _attempt():
                os.write(writer, json.dumps(asdict(each)).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(pid, 0)
    return [json.loads(line) for line in lines]


def _attempt() -> Iterator[Protection]:
    calls = _system_calls()
    yield calls
    if calls.state == "unavailable":
        return
    # Landlock and seccomp before the namespaces: they say which other tier this machine could have.
    yield _landlock()
    yield _try("per call", _in_child(_load_listener))
    spaces = _try("namespaces", namespaces.enter)
    yield spaces
    if spaces.state == "active":
        yield _try("view", _view)
    yield Protection(
        "memory",
        _HOLDS["memory"],
        "degraded",
        "no cgroup of its own: the tree is looked at every 250 ms, each process is bounded by RLIMIT_DATA",
    )


def _try(name: str, act: Callable[[], None]) -> Protection:
    try:
        act()
    except Error as error:
        return Protection(name, _HOLDS[name], "unavailable", error.what, error.way_out)
    except OSError as error:
        refused = namespaces.refused(f"the layer `{name}`", error)
        return Protection(name, _HOLDS[name], "unavailable", refused.what, refused.way_out)
    return Protection(name, _HOLDS[name], "active")


def _view() -> None:
    mounts.stage()
    life, keep = os.pipe()
    init.wait(init.fork(_EMPTY_PLAN, life, keep)[1])
    mounts.enter(_EMPTY_PLAN)
    os.close(keep)


def _landlock() -> Protection:
    abi = kernel_landlock.abi()
    if abi < landlock.NEEDED_ABI:
        fix = "Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK; boot with landlock in the list of lsm="
        reason = (
            f"Landlock ABI {abi}, {landlock.NEEDED_ABI} is needed" if abi else "this kernel has no Landlock"
        )
        return Protection("landlock", _HOLDS["landlock"], "unavailable", reason, fix)
    lacks = landlock.lacking(abi)
    if lacks:
        fix = f"Linux {NEWEST_REVIEWED}; the other layers hold it meanwhile"
        return Protection("landlock", _HOLDS["landlock"], "degraded", "; ".join(lacks), fix)
    return Protection("landlock", _HOLDS["landlock"], "active", f"ABI {abi}")


def _system_calls() -> Protection:
    name, holds = "system calls", _HOLDS["system calls"]
    if AUDIT_ARCH:
        return Protection(name, holds, "active", f"table of {MACHINE}, Linux {NEWEST_REVIEWED}")
    return Protection(name, holds, "unavailable", f"no reviewed table for {MACHINE}", "x86_64 or aarch64")


def _load_listener() -> None:
    process.set_no_new_privs()
    seccomp.load(seccomp.INSTRUCTION.pack(0x06, 0, 0, seccomp.RET_ALLOW), listener=True)


def _in_child(act: Callable[[], None]) -> Callable[[], None]:
    """Return `act`, made in a process of its own: what it does to a process cannot be undone."""

    def made() -> None:
        pid = os.fork()
        if not pid:
            number = errno.EIO
            try:
                act()
                number = 0
            except OSError as error:
                number = error.errno or errno.EIO
            finally:
                os._exit(number if number < 256 else errno.EIO)
        number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if number == errno.EBUSY:
            raise CannotConfine(
                "another supervisor of system calls is above this process (EBUSY)",
                "start mcpwrap outside of the other sandbox; on WSL2 update to Linux 6.6 or newer",
            )
        if number == errno.EINVAL:
            raise CannotConfine("this kernel has no killable seccomp notification", "Linux 5.19 or newer")
        if number:
            raise OSError(number, os.strerror(number))

    return made
