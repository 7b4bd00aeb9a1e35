"""The server's process, from the fork to its exec: puts on the last layers and becomes the program."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Mapping
from typing import NamedTuple

from mcpwrap.errors import EXIT_CANNOT_CONFINE, CannotConfine, CommandNotFound, Error
from mcpwrap.kernel import landlock as kernel_landlock
from mcpwrap.kernel import process
from mcpwrap.kernel import seccomp as kernel_seccomp
from mcpwrap.sandbox import landlock, report, seccomp
from mcpwrap.sandbox.inherited import close_others
from mcpwrap.sandbox.plan import Plan

_LISTENER = b"listener "
"""What precedes the listener's descriptor number on the pipe to the stem; anything else there is a failure."""

_MESSAGE = 65_536
"""Bytes of one message on that pipe: its capacity, so it never has two parts."""

_INHERITED_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these, and exec would hand that on."""


class Program(NamedTuple):
    """What is executed: `argv`, `environ`, and the ends of the pipes that become 0, 1 and 2."""

    argv: list[str]
    environ: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


def fork(plan: Plan, program: Program) -> tuple[int, int]:
    """Start the server's process; returns its pid and the read end of its pipe to the stem."""
    said, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _become(plan, program, tell)
        finally:
            os._exit(EXIT_CANNOT_CONFINE)
    os.close(tell)
    return pid, said


def assemble(plan: Plan) -> bytes:
    """Return the filter of system calls; it is kept, so asked for ahead of the fork it costs nothing there."""
    if plan.nested:
        from mcpwrap.sandbox.nested_calls import GROUPS

        return seccomp.program(True, overlay=GROUPS)
    return seccomp.program(True)


def listener(said: int) -> int:
    """Return the number the listener has in the server's process, which then waits for its first answer.

    Raises Error, as the process told it.
    """
    data = os.read(said, _MESSAGE)
    if data.startswith(_LISTENER):
        return int(data[len(_LISTENER) :])
    if not data:
        raise CannotConfine("the server's process died before it was confined")
    raise report.decode(data)


def failure(said: int) -> Error | None:
    """Return why there was no exec, None if there was one; call it when the process is gone."""
    data = os.read(said, _MESSAGE)
    return report.decode(data) if data else None


def _become(plan: Plan, program: Program, tell: int) -> None:
    step = "its descriptors"
    try:
        for source, target in ((program.stdin, 0), (program.stdout, 1), (program.stderr, 2)):
            os.dup2(source, target)
        close_others(0, 1, 2, tell)
        os.setsid()
        for each in _INHERITED_IGNORED:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        process.set_parent_death_signal(signal.SIGKILL)
        step = f"the working directory {plan.cwd}"
        os.chdir(plan.cwd)
        step = "limits"
        process.set_limits(
            {
                resource.RLIMIT_NPROC: plan.limits.processes,
                resource.RLIMIT_NOFILE: plan.limits.descriptors,
                resource.RLIMIT_DATA: plan.limits.data,
                resource.RLIMIT_CORE: 0,
            }
        )
        step = "a nested Landlock domain"
        landlock.nested(abi=kernel_landlock.abi())
        # Until exec this image is the stem's: the stem takes the listener out of it.
        process.set_dumpable(True)
        step = "the system call filter"
        fd = kernel_seccomp.load(assemble(plan), listener=True)
        os.write(tell, _LISTENER + str(fd).encode())
        step = "exec"
        os.execve(plan.program, program.argv, program.environ)
    except OSError as error:
        told = _failure(step, plan, error)
        os.write(tell, report.encode(told))
        os._exit(told.exit_status)


def _failure(step: str, plan: Plan, error: OSError) -> Error:
    if step == "exec":
        what = f"{plan.program} cannot be executed in the sandbox: {error.strerror}"
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return CommandNotFound(what, "the program, its interpreter or its loader is missing there")
        return CannotConfine(
            what, "mcpwrap show prints what may be executed; writable places never hold programs"
        )
    if error.errno == errno.EBUSY:
        return CannotConfine(
            "the kernel refuses a second supervisor of system calls (seccomp listener): EBUSY",
            "start mcpwrap outside of the other sandbox (on WSL2: with Linux 6.6 or newer)",
        )
    return CannotConfine(f"cannot set up {step} for the server: {error.strerror}")
