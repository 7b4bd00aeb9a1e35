"""The stem: forked from the relay, makes the sandbox, starts pid 1 and the server, and stays as broker."""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import select
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.errors import EXIT_FAILED, CannotConfine, Error
from mcpwrap.kernel import landlock as kernel_landlock
from mcpwrap.kernel import process, sockets
from mcpwrap.sandbox import child, homelinks, landlock, report
from mcpwrap.sandbox.ends import Ends as StemEnds
from mcpwrap.sandbox.inherited import close_others, occupy_standard
from mcpwrap.sandbox.namespaced import Namespaced
from mcpwrap.sandbox.plan import Plan

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy
    from mcpwrap.sandbox.bare import Bare


class Child(NamedTuple):
    """The relay's ends. `pid` and `pidfd` are the stem's.

    `stdin`, `stdout`, `stderr`: the server's. `records`: the broker's events, JSON lines. `status`:
    see `sandbox.report`. `life`: closing it, or dying, ends the whole tree. `freeze`: a byte written there
    asks for `$CACHE` to become read-only, -1 where it never is. `network`: the channel to the broker of
    `mcpwrap.broker.channel`, -1 if nothing leads out of the sandbox. All are close-on-exec.
    """

    pid: int
    pidfd: int
    stdin: int
    stdout: int
    stderr: int
    records: int
    status: int
    life: int
    freeze: int = -1
    network: int = -1


def start(
    plan: Plan,
    policy: Policy,
    page_fd: int,
    activity: memoryview,
    command: Sequence[str],
    environment: Mapping[str, str],
) -> Child:
    """Fork the stem and return at once; what becomes of it is told on `Child.status`.

    `command` is the argument vector, executed as `plan.program`. Call it with one thread, and
    before anything heavy is imported: the stem's memory is a copy of the caller's.

    Raises CannotConfine if the directories of the plan cannot be made.
    """
    for path in plan.create:
        _make(path)
    held = -1
    if plan.temporary:
        from mcpwrap.sandbox.temporary import hold  # only needed without a view

        held = hold(plan.temporary)
    if plan.links:
        arrange = homelinks.renew if plan.tier == "C" else homelinks.clear
        arrange(plan.home, plan.links, plan.homes)
    occupy_standard()
    stdin, to_stdin = os.pipe()
    stdout, to_stdout = os.pipe()
    stderr, to_stderr = os.pipe()
    records, to_records = os.pipe()
    status, to_status = os.pipe()
    life, keep_alive = os.pipe()
    freeze, to_freeze = os.pipe() if plan.frozen else (-1, -1)
    network, of_relay = sockets.pair(sockets.SEQPACKET) if policy.egress else (-1, -1)
    ends = StemEnds(stdin, to_stdout, to_stderr, to_records, to_status, life, freeze, network)
    pid = os.fork()
    if not pid:
        own = EXIT_FAILED
        try:
            program = child.Program(list(command), environment, ends.stdin, ends.stdout, ends.stderr)
            own = _Stem(plan, policy, page_fd, activity, program, ends, held).run()
        finally:
            os._exit(own)
    if held >= 0:
        os.close(held)
    for fd in filter(lambda fd: fd >= 0, ends):
        os.close(fd)
    pidfd = process.pidfd_open(pid)
    return Child(pid, pidfd, to_stdin, stdout, stderr, records, status, keep_alive, to_freeze, of_relay)


def _make(path: str) -> None:
    try:
        os.makedirs(path, 0o700, exist_ok=True)
        # The server may have closed its own ground to everybody, this user's next run included.
        os.chmod(path, 0o700, follow_symlinks=True)
    except OSError as error:
        raise CannotConfine(
            f"cannot make the directory {path}: {error.strerror}",
            "XDG_DATA_HOME and XDG_CACHE_HOME say where mcpwrap keeps what belongs to a server",
        ) from error


class _Stem:
    """The forked process. Its only result is what it writes to the pipes, and its end."""

    def __init__(
        self,
        plan: Plan,
        policy: Policy,
        page_fd: int,
        activity: memoryview,
        program: child.Program,
        ends: StemEnds,
        held: int,
    ) -> None:
        self.plan = plan
        self.policy = policy
        self.page_fd = page_fd
        self.activity = activity
        self.program = program
        self.ends = ends
        self.held = held
        self.abi = kernel_landlock.abi()
        self.confinement: Namespaced | Bare | None = None

    def run(self) -> int:
        """Do everything; return the stem's own exit status. Never raises."""
        try:
            self._run()
            return 0
        except Error as error:
            report.failed(self.ends.status, error)
            return error.exit_status
        except BaseException as error:
            report.failed(self.ends.status, error)
            return EXIT_FAILED
        finally:
            if self.confinement is not None:
                self.confinement.end()

    def _run(self) -> None:
        ends = self.ends
        os.setsid()
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        close_others(*(fd for fd in (*ends, self.held) if fd >= 0), self.page_fd)
        occupy_standard()
        if self.abi < landlock.NEEDED_ABI:
            raise CannotConfine(
                f"this kernel has {f'only Landlock ABI {self.abi}' if self.abi else 'no Landlock'}",
                "Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, booted with landlock in the list of lsm=",
            )
        confinement = self.confinement = _confinement(self.plan, ends, self.abi)
        host = confinement.begin()
        # What the broker needs is imported while pid 1 builds the view, and before the view, which does
        # not hold mcpwrap, is entered.
        from mcpwrap.broker.loop import Ended, serve
        from mcpwrap.policy.page import SIZE, PageReader

        if ends.network >= 0:
            importlib.import_module("mcpwrap.broker.network")
        self.policy.load()
        if self.plan.nested:
            importlib.import_module("mcpwrap.broker.inner")

        page = PageReader(memoryview(mmap.mmap(self.page_fd, SIZE, prot=mmap.PROT_READ)))
        os.close(self.page_fd)
        confinement.enter()
        server, said = confinement.fork(self.program)
        for fd in (ends.stdin, ends.stdout, ends.stderr):
            os.close(fd)
        pidfd = process.pidfd_open(server)
        listener = child.confined(said)
        report.started(ends.status, server, self._protections(confinement))
        # What is there now stays: never to be looked through again, which would also copy shared pages.
        gc.freeze()
        gc.enable()
        reason = ""
        try:
            if listener < 0 or confinement.names is None:
                if _outlives(pidfd, ends.life):
                    raise Ended("mcpwrap is gone")
            else:
                serve(
                    listener,
                    policy=self.policy,
                    page=page,
                    activity=self.activity,
                    records=ends.records,
                    life=ends.life,
                    server_pidfd=pidfd,
                    host_proc=host.proc,
                    host_root=host.root,
                    names=confinement.names,
                    channel=ends.network,
                    keeper=confinement.keeper,
                    copies=confinement.copies,
                    stub_port=confinement.stub_port,
                )
        except Ended as ended:
            reason = str(ended)
        except Exception as fault:
            reason = f"a fault of the broker: {type(fault).__name__}: {fault}"
        if reason:
            report.ended(ends.status, reason)
            process.pidfd_send_signal(pidfd, signal.SIGKILL)
        status = confinement.wait()
        not_executed = child.failure(said)
        if not_executed is not None:
            report.failed(ends.status, not_executed)
        report.exited(ends.status, status)

    def _protections(self, confinement: Namespaced | Bare) -> dict[str, str]:
        lacking = landlock.lacking(self.abi)
        return confinement.protections() | {
            "landlock": f"degraded: {'; '.join(lacking)}" if lacking else "active",
            "system calls": "active",
            "memory": "degraded: no cgroup of its own; the tree is looked at every 250 ms",
        }


def _confinement(plan: Plan, ends: StemEnds, abi: int) -> Namespaced | Bare:
    if plan.tier != "C":
        return Namespaced(plan, ends, abi)
    from mcpwrap.sandbox.bare import Bare  # only needed without namespaces

    return Bare(plan, ends, abi)


def _outlives(server: int, life: int) -> bool:
    """Wait, where there is no broker; return whether the server (a pidfd) is still there when the relay is gone."""
    poll = select.poll()
    for fd in (server, life):
        poll.register(fd, select.POLLIN)
    return server not in {fd for fd, _ in poll.poll()}
