"""The keeper of a server without a pid namespace: the parent of its tree, and the end of it.

It stands between the stem and the server. Whatever the tree leaves behind (double forks, new sessions)
comes to it, a subreaper; and when the relay or the stem is gone, killed or not, or the tree holds too
much memory, it ends every process below it. If the keeper itself is killed, the stem, a subreaper too,
does that. The server reaches neither: both are outside of its Landlock domain.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import NamedTuple

from mcpwrap.errors import EXIT_FAILED
from mcpwrap.kernel import process
from mcpwrap.limits import MEMORY_CHECK_SECONDS
from mcpwrap.sandbox import child, report, tree
from mcpwrap.sandbox.child import Dress, Program
from mcpwrap.sandbox.inherited import close_others
from mcpwrap.sandbox.memory import Watcher
from mcpwrap.sandbox.plan import Plan

KEEPER_SECONDS = 0.5
"""What stem and keeper give each other for their part of the end."""
NUMBER_BYTES = 16
"""Of a process number, or of a wait status, as text on the pipe to the stem."""


class Kept(NamedTuple):
    """What the stem holds: the keeper's pid, the server's, and the pipe that tells its wait status."""

    keeper: int
    server: int
    ended: int

    def status(self) -> int:
        """Wait for the server to end; return its wait status, that of SIGKILL if the keeper is gone."""
        poll = select.poll()
        poll.register(self.ended, select.POLLIN)
        # It may be stopped; then the stem ends it with all the rest.
        said = os.read(self.ended, NUMBER_BYTES) if poll.poll(KEEPER_SECONDS * 1000) else b""
        return int(said) if said else signal.SIGKILL


def fork(plan: Plan, program: Program, ends: tuple[int, int], dress: Dress, life: int, status: int) -> Kept:
    """Start the keeper, and by it the server; `ends` are those of `child.channel`, the second is used up.

    Raises ChildProcessError if the keeper died.
    """
    said, tell = ends
    ended, tell_end = os.pipe()
    stem = os.getpid()
    pid = os.fork()
    if not pid:
        try:
            os.close(said)
            os.close(ended)
            _keep(plan, program, tell, tell_end, dress, life, status, stem)
        finally:
            os._exit(EXIT_FAILED)
    os.close(tell_end)
    os.close(tell)
    number = os.read(ended, NUMBER_BYTES)
    if not number:
        raise ChildProcessError("the keeper of the server's processes died")
    return Kept(pid, int(number), ended)


def _keep(
    plan: Plan, program: Program, tell: int, tell_end: int, dress: Dress, life: int, status: int, stem: int
) -> None:
    close_others(0, 1, 2, program.stdin, program.stdout, program.stderr, tell, tell_end, life, status)
    process.set_child_subreaper()
    stem_end = process.pidfd_open(stem)
    if os.getppid() != stem:
        return
    server = child.fork(plan, program, tell, dress)
    close_others(0, 1, 2, tell_end, life, status, stem_end)
    os.write(tell_end, str(server).encode())
    own = os.getpid()
    outcome = _watch(plan, own, server, (life, stem_end), status)
    if outcome is not None:
        _say(tell_end, outcome)
    else:
        # Once it has ended the broker answers nobody, and no process is born any more.
        with suppress(ProcessLookupError):
            os.kill(server, signal.SIGKILL)
    buried = tree.end(own)
    if outcome is None:
        _say(tell_end, buried.get(server, signal.SIGKILL))
    _await_stem(life, stem_end)
    os._exit(0)


def _await_stem(life: int, stem_end: int) -> None:
    """Kill the stem if it does not end although the relay is gone: it is stopped, or hangs."""
    poll = select.poll()
    poll.register(life, select.POLLIN)
    if poll.poll(0):
        poll.unregister(life)
        poll.register(stem_end, select.POLLIN)
        if not poll.poll(KEEPER_SECONDS * 1000):
            process.pidfd_send_signal(stem_end, signal.SIGKILL)


def _watch(plan: Plan, own: int, server: int, ends: tuple[int, int], status: int) -> int | None:
    """Return the wait status of the server once it has ended by itself, None when all must end."""
    server_end = process.pidfd_open(server)
    poll = select.poll()
    for fd in (*ends, server_end):
        poll.register(fd, select.POLLIN)
    watcher = Watcher(plan.limits.memory, lambda: [str(pid) for pid in tree.members(own)])
    while True:
        ready = {fd for fd, _ in poll.poll(MEMORY_CHECK_SECONDS * 1000)}
        buried, _ = tree.bury()
        if server in buried:
            return buried[server]
        if ready.intersection(ends):
            return None
        reason = watcher.check() if not ready else None
        if reason is not None:
            report.ended(status, reason)
            return None


def _say(tell_end: int, status: int) -> None:
    try:
        os.write(tell_end, str(status).encode())
    except BrokenPipeError:
        pass  # the stem is gone; nobody asks any more
