"""The server's process, from the fork to its exec: puts on the last layers and becomes the program."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcpwrap import limits
from mcpwrap.errors import EXIT_CANNOT_CONFINE, CannotConfine, CommandNotFound, Error, Lacking
from mcpwrap.kernel import landlock as kernel_landlock
from mcpwrap.kernel import process, sockets
from mcpwrap.kernel import seccomp as kernel_seccomp
from mcpwrap.sandbox import landlock, report, seccomp
from mcpwrap.sandbox.inherited import close_others
from mcpwrap.sandbox.plan import Plan
from mcpwrap.sandbox.syscalls import Group

_CONFINED = b"confined"
"""Told to the stem when the filter is on, with the listener if it has one; anything else is a failure."""

_MESSAGE = 65_536
"""Bytes of the longest message to the stem: a failure, with two paths in it."""

_INHERITED_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
"""Python ignores these, and exec would hand that on."""


class Program(NamedTuple):
    """What is executed: `argv`, `environ`, and the ends of the pipes that become 0, 1 and 2."""

    argv: list[str]
    environ: Mapping[str, str]
    stdin: int
    stdout: int
    stderr: int


class Dress(NamedTuple):
    """What differs from tier to tier in the last layers.

    `processes`: the limit, as the kernel counts. `overlay`: groups of calls that are judged otherwise than on
    the list. `listener`: whether trapped calls are handed over. `network`: whether Landlock lets TCP pass.
    """

    processes: int
    overlay: tuple[Group, ...] = ()
    listener: bool = True
    network: bool = True

    def assemble(self) -> bytes:
        """Return the filter of system calls; it is kept, so asked for ahead of the fork it costs nothing there."""
        return seccomp.program(self.listener, overlay=self.overlay)


def channel() -> tuple[int, int]:
    """Return (the stem's end, the server's end) of what the two tell each other by until exec."""
    return sockets.pair(sockets.SEQPACKET)


def fork(plan: Plan, program: Program, tell: int, dress: Dress) -> int:
    """Start the server's process and return its pid; `tell` is the second end of `channel`, which is closed."""
    pid = os.fork()
    if not pid:
        try:
            _become(plan, program, tell, dress)
        finally:
            os._exit(EXIT_CANNOT_CONFINE)
    os.close(tell)
    return pid


def confined(said: int) -> int:
    """Wait until the server's process is confined; return its listener, -1 if it has none.

    It comes as a message, because taking it out of another process is refused where containers filter
    system calls. Raises Error, as the process told it.
    """
    data, passed = _hear(said)
    if data == _CONFINED:
        return passed[0] if passed else -1
    if not data:
        raise CannotConfine("the server's process died before it was confined")
    raise report.decode(data)


def failure(said: int) -> Error | None:
    """Return why there was no exec, None if there was one; call it when the process is gone."""
    data, _ = _hear(said)
    return report.decode(data) if data else None


def _hear(said: int) -> tuple[bytes, Sequence[int]]:
    poll = select.poll()
    poll.register(said, select.POLLIN)
    poll.poll()
    return sockets.receive_with(said, _MESSAGE)


def _become(plan: Plan, program: Program, tell: int, dress: Dress) -> None:
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
                resource.RLIMIT_NPROC: dress.processes,
                resource.RLIMIT_SIGPENDING: process.queued_signals() + limits.SIGNALS,
                resource.RLIMIT_NOFILE: plan.limits.descriptors,
                resource.RLIMIT_DATA: plan.limits.data,
                resource.RLIMIT_CORE: 0,
            }
        )
        step = "a nested Landlock domain"
        landlock.nested(abi=kernel_landlock.abi(), network=dress.network)
        # Until exec this image is the stem's, and the broker must read what it executes.
        process.set_dumpable(True)
        step = "the system call filter"
        listener = kernel_seccomp.load(dress.assemble(), listener=dress.listener)
        sockets.send_with(tell, _CONFINED, listener)
        step = "exec"
        os.execve(plan.program, program.argv, program.environ)
    except OSError as error:
        told = _failure(step, plan, error)
        sockets.send_with(tell, report.encode(told))
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
        return Lacking(
            "per call",
            "the kernel refuses a second supervisor of system calls (seccomp listener): EBUSY",
            "start mcpwrap outside of the other sandbox (on WSL2: with Linux 6.6 or newer)",
        )
    return CannotConfine(f"cannot set up {step} for the server: {error.strerror}")
