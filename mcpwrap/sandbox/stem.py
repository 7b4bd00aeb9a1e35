"""The stem: forked from the relay, makes the sandbox, starts pid 1 and the server, and stays as broker."""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import signal
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.errors import EXIT_FAILED, CannotConfine, Error
from mcpwrap.kernel import landlock as kernel_landlock
from mcpwrap.kernel import process, sockets
from mcpwrap.sandbox import child, init, landlock, mounts, namespaces, report
from mcpwrap.sandbox.inherited import close_others, occupy_standard
from mcpwrap.sandbox.memory import OomScore
from mcpwrap.sandbox.plan import Plan, Rights

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy


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


class _Ends(NamedTuple):
    """The stem's ends of the same pipes, and of the channel."""

    stdin: int
    stdout: int
    stderr: int
    records: int
    status: int
    life: int
    freeze: int
    network: int


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
    occupy_standard()
    stdin, to_stdin = os.pipe()
    stdout, to_stdout = os.pipe()
    stderr, to_stderr = os.pipe()
    records, to_records = os.pipe()
    status, to_status = os.pipe()
    life, keep_alive = os.pipe()
    freeze, to_freeze = os.pipe() if plan.frozen else (-1, -1)
    network, of_relay = sockets.pair(sockets.SEQPACKET) if policy.egress else (-1, -1)
    ends = _Ends(stdin, to_stdout, to_stderr, to_records, to_status, life, freeze, network)
    pid = os.fork()
    if not pid:
        own = EXIT_FAILED
        try:
            program = child.Program(list(command), environment, ends.stdin, ends.stdout, ends.stderr)
            own = _Stem(plan, policy, page_fd, activity, program, ends).run()
        finally:
            os._exit(own)
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
        ends: _Ends,
    ) -> None:
        self.plan = plan
        self.policy = policy
        self.page_fd = page_fd
        self.activity = activity
        self.program = program
        self.ends = ends
        self.init = 0
        self._names: tuple[int, int] | None = None
        self._built = -1
        self.abi = kernel_landlock.abi()

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
            # Takes the whole pid namespace along.
            if self.init:
                os.kill(self.init, signal.SIGKILL)

    def _run(self) -> None:
        ends = self.ends
        os.setsid()
        gc.disable()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        close_others(*(fd for fd in ends if fd >= 0), self.page_fd)
        occupy_standard()
        volunteer = OomScore()
        host = self._begin()
        # What the broker needs is imported while pid 1 builds the view, and before the view, which does
        # not hold mcpwrap, is entered.
        from mcpwrap.broker.loop import Ended, serve
        from mcpwrap.policy.page import SIZE, PageReader

        if ends.network >= 0:
            from mcpwrap.broker.network import Ends
        if self.plan.nested:
            importlib.import_module("mcpwrap.broker.inner")

        page = PageReader(memoryview(mmap.mmap(self.page_fd, SIZE, prot=mmap.PROT_READ)))
        os.close(self.page_fd)
        child.assemble(self.plan)
        self._enter(host)
        with volunteer:
            server, said = child.fork(self.plan, self.program)
        for fd in (ends.stdin, ends.stdout, ends.stderr):
            os.close(fd)
        pidfd = process.pidfd_open(server)
        listener = process.pidfd_getfd(pidfd, child.listener(said))
        report.started(ends.status, server, self._protections())
        # What is there now stays: never to be looked through again, which would also copy shared pages.
        gc.freeze()
        gc.enable()
        out = Ends(ends.network, *self._names) if self._names is not None else None
        reason = ""
        try:
            status = serve(
                listener,
                policy=self.policy,
                page=page,
                activity=self.activity,
                records=ends.records,
                life=ends.life,
                server=server,
                server_pidfd=pidfd,
                host_proc=host.proc,
                host_root=host.root,
                network=out,
            )
        except Ended as ended:
            reason = str(ended)
        except Exception as fault:
            reason = f"a fault of the broker: {type(fault).__name__}: {fault}"
        if reason:
            report.ended(ends.status, reason)
            process.pidfd_send_signal(pidfd, signal.SIGKILL)
            status = os.waitpid(server, 0)[1]
        not_executed = child.failure(said)
        if not_executed is not None:
            report.failed(ends.status, not_executed)
        report.exited(ends.status, status)

    def _begin(self) -> mounts.Host:
        """Leave the host's namespaces, and let pid 1 of the new one build the view."""
        if self.abi < landlock.NEEDED_ABI:
            raise CannotConfine(
                f"this kernel has {f'only Landlock ABI {self.abi}' if self.abi else 'no Landlock'}",
                "Linux 5.19 or newer with CONFIG_SECURITY_LANDLOCK, booted with landlock in the list of lsm=",
            )
        namespaces.enter(nested=self.plan.nested)
        if self.ends.network >= 0:
            from mcpwrap.sandbox import netns

            self._names = netns.furnish()
        try:
            host = mounts.stage()
        except OSError as error:
            raise namespaces.refused("a file system in a new mount namespace", error) from error
        self.init, self._built = init.fork(self.plan, self.ends.life, self.ends.status, self.ends.freeze)
        if self.plan.frozen:
            os.close(self.ends.freeze)
        return host

    def _enter(self, host: mounts.Host) -> None:
        """Enter the view when it is built; give up all privileges; the Landlock floor. The server inherits it."""
        init.wait(self._built)
        try:
            mounts.enter(self.plan)
            process.set_no_new_privs()
            # Before the capabilities go: a server may have closed directories of its own ground to this user.
            self._landlock(host)
            process.drop_capabilities()
            # The last change of credentials is made: what follows stays.
            process.set_dumpable(False)
            process.set_child_subreaper()
            process.set_parent_death_signal(signal.SIGKILL)
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            raise namespaces.refused(f"a step of the sandbox{where}", error) from error

    def _landlock(self, host: mounts.Host) -> None:
        def places(*rights: Rights) -> list[landlock.Place]:
            return [each.path for each in self.plan.access if each.rights in rights]

        landlock.floor(
            reads=[*places("read"), host.proc],
            writes=places("write"),
            private=places("private"),
            executables=places("execute"),
            devices=places("device"),
            abi=self.abi,
        )

    def _protections(self) -> dict[str, str]:
        lacking = landlock.lacking(self.abi)
        return {
            "files": "active",
            "landlock": f"degraded: {'; '.join(lacking)}" if lacking else "active",
            "network": "active",
            "processes": "active",
            "system calls": "active",
            "per call": "active",
            "memory": "degraded: no cgroup of its own; the tree is looked at every 250 ms",
        }
