"""Pid 1 of the server's pid namespace: builds the view, lets the dead go, and ends all when it must end.

It must when the relay is gone, and when the tree holds too much memory. That is watched here because
the server can keep the broker as busy as it likes, and this process not at all. It is also who makes
`$CACHE` read-only when start-up has ended, see `freeze`.
"""

from __future__ import annotations

import os
import select
import signal

from mcpwrap.errors import CannotConfine, Error
from mcpwrap.kernel import process
from mcpwrap.limits import MEMORY_CHECK_SECONDS
from mcpwrap.sandbox import mounts, report
from mcpwrap.sandbox.freeze import Freezer
from mcpwrap.sandbox.inherited import close_others
from mcpwrap.sandbox.memory import Watcher
from mcpwrap.sandbox.plan import Plan


def fork(plan: Plan, life: int, status: int, freeze: int = -1) -> tuple[int, int]:
    """Start pid 1, which builds the view meanwhile; returns its pid and what `wait` takes.

    `freeze` is the pipe on which the relay asks for `plan.frozen` to become read-only, -1 for a plan without.
    Call it after `mounts.stage`, in a process whose next child is pid 1.
    """
    ready, tell = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            _be_init(plan, life, status, tell, freeze)
        finally:
            os._exit(1)
    os.close(tell)
    return pid, ready


def wait(ready: int) -> None:
    """Return when the view is built. Raises Error, as pid 1 told it."""
    with open(ready, "rb", buffering=0) as pipe:
        said = pipe.read()
    if not said:
        raise CannotConfine("the sandbox's pid 1 died while it was made")
    if said != _READY:
        raise report.decode(said)


_READY = b"ready"


def _be_init(plan: Plan, life: int, status: int, tell: int, freeze: int) -> None:
    close_others(0, 1, 2, life, status, tell, *([freeze] if plan.frozen else []))
    freezer: Freezer | None = None
    try:
        mounts.build(plan)
        if plan.frozen:
            freezer = Freezer(mounts.mount_of(plan.frozen), freeze)
        process.set_no_new_privs()
        process.drop_capabilities(keep=process.CAP_SYS_ADMIN if freezer else None)
        # The last change of credentials is made: what follows stays.
        process.set_dumpable(False)
        process.set_parent_death_signal(signal.SIGKILL)
    except (Error, OSError) as error:
        os.write(tell, report.encode(error))
        return
    # The kernel buries children of a process that ignores their death: no loop of waits needed.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(tell, _READY)
    os.close(tell)
    _watch(plan, life, status, freezer)


def _watch(plan: Plan, life: int, status: int, freezer: Freezer | None) -> None:
    """Return when all must end: with pid 1 ends every process of its namespace, stopped stem or not."""
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if freezer is not None:
        poll.register(freezer.asked, select.POLLIN)
    watcher: Watcher | None = None
    while True:
        ready = dict(poll.poll(MEMORY_CHECK_SECONDS * 1000))
        if life in ready:
            return None
        if freezer is not None and freezer.asked in ready:
            if freezer.answer(status):
                poll.unregister(freezer.asked)
        elif watcher is not None:
            reason = watcher.check()
            if reason is not None:
                return report.ended(status, reason)
        elif os.readlink("/proc/self") == "1":  # the view has been entered
            watcher = Watcher(plan.limits.memory)
