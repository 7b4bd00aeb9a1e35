"""The seccomp listener: one notification at a time, each answered exactly once.

Kernel documentation: `Documentation/userspace-api/seccomp_filter.rst`, "Userspace Notification".
"""

from __future__ import annotations

import errno
import os
import signal
from typing import TYPE_CHECKING

from mcpwrap.kernel import process, seccomp

if TYPE_CHECKING:
    from collections.abc import Callable

PARKED_CALLS = 64
"""Calls that may block (an open of a FIFO, a connect on a full queue) at one time."""


class Listener:
    """Receives notifications and answers them; calls that block are parked in processes of their own.

    Processes, not threads: who has unshared its pid namespace may start no thread. They live in the
    server's pid namespace, so they end with it.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        seccomp.set_sync_wake_up(fd)
        self.parked: dict[int, int] = {}

    def receive(self) -> seccomp.Notification | None:
        """Return the next notification; None if its caller died before it was read."""
        return seccomp.receive(self.fd)

    def alive(self, notification_id: int) -> bool:
        """Whether the caller still waits, so that what was read of it is its own."""
        return seccomp.alive(self.fd, notification_id)

    def refuse(self, notification_id: int, error: int) -> None:
        """Let the call fail with `error`; a caller that is gone is no matter."""
        seccomp.respond(self.fd, notification_id, error=error)

    def answer(self, notification_id: int, value: int) -> None:
        """Let the call return `value` without being executed."""
        seccomp.respond(self.fd, notification_id, value=value)

    def proceed(self, notification_id: int) -> None:
        """Let the kernel execute the call: only for calls whose pointers are not trusted or harmless."""
        seccomp.respond(self.fd, notification_id, flags=seccomp.CONTINUE)

    def give(self, notification_id: int, fd: int, *, cloexec: bool) -> None:
        """Install a copy of `fd` in the caller as the result of its call, in one step."""
        try:
            seccomp.add_fd_send(self.fd, notification_id, fd, cloexec)
        except OSError as error:
            self.refuse(notification_id, error.errno or errno.EIO)

    def park(self, notification_id: int, act: Callable[[], None]) -> int:
        """Let a process of its own run `act`, which blocks and then answers; its OSError is the answer too.

        Returns its pid. Refused with EAGAIN (then 0) when `PARKED_CALLS` are blocked already.
        """
        self.reap()
        if len(self.parked) >= PARKED_CALLS:
            self.refuse(notification_id, errno.EAGAIN)
            return 0
        pid = os.fork()
        if pid:
            self.parked[pid] = notification_id
            return pid
        try:
            # In a pid namespace it would end with that; the host's has no such end.
            process.set_parent_death_signal(signal.SIGKILL)
            act()
        except Exception as error:
            # Whatever it was: a call without an answer would wait for ever.
            self.refuse(notification_id, getattr(error, "errno", None) or errno.EIO)
        finally:
            os._exit(0)

    def reap(self) -> None:
        """Bury parked processes that are done, and end those whose caller is gone."""
        for pid, notification_id in list(self.parked.items()):
            if not self.alive(notification_id):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                del self.parked[pid]
