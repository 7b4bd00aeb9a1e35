"""How a server is confined without namespaces (tier C): Landlock and the broker in the host's own file system."""

from __future__ import annotations

import os
import struct

from mcpwrap.errors import CannotConfine
from mcpwrap.kernel import process, sockets
from mcpwrap.sandbox import bare_calls, child, keeper, landlock, mounts, tree
from mcpwrap.sandbox.child import Dress, Program
from mcpwrap.sandbox.ends import Ends
from mcpwrap.sandbox.memory import OomScore
from mcpwrap.sandbox.plan import Plan

_LOOPBACK = struct.pack("=H", sockets.AF_INET) + struct.pack(">H", 0) + bytes((127, 0, 0, 1)) + bytes(8)
"""127.0.0.1 at any port: struct sockaddr_in."""
_BACKLOG = 32
_PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class Bare:
    """The steps of the stem, in this order: `begin`, `enter`, `fork`, `wait`, `end`.

    `copies`, `keeper`, `stub_port`, `names`: as `broker.loop.serve` takes them.
    """

    def __init__(self, plan: Plan, ends: Ends, abi: int) -> None:
        self.plan = plan
        self.names: tuple[int, int] | None = None
        self.stub_port = 0
        self._ends = ends
        self._abi = abi
        self._volunteer = OomScore()
        self._host = mounts.Host(-1, -1)
        self._kept: keeper.Kept | None = None
        # The kernel counts the processes of the user, not those of the server.
        others = tree.threads_of_user()
        scoped = abi >= landlock.SCOPES_ABI
        self.copies = _can_take_descriptors()
        overlay = bare_calls.groups(scoped=scoped, copies=self.copies)
        self._dress = Dress(others + plan.limits.processes, overlay, network=False)

    @property
    def keeper(self) -> int:
        """The process whose descendants are the server's tree."""
        return self._kept.keeper if self._kept else 0

    def begin(self) -> mounts.Host:
        """Take hold of the host's root and its procfs."""
        self._host = mounts.Host(os.open("/", _PATH), os.open("/proc", _PATH))
        self._dress.assemble()
        # A name service of its own, at a port nobody else knows; no datagrams, for the server has none.
        listening = sockets.make(sockets.AF_INET, sockets.STREAM)
        sockets.bind(listening, _LOOPBACK)
        sockets.listen(listening, _BACKLOG)
        self.stub_port = struct.unpack_from(">H", sockets.own_name(listening), 2)[0]
        self.names = (-1, listening)
        return self._host

    def enter(self) -> None:
        """Give up all privileges; the Landlock floor. The server inherits it."""
        try:
            process.set_no_new_privs()
            landlock.floor_of(self.plan, self._host.proc, self._abi)
            process.drop_capabilities()
            # The last change of credentials is made: what follows stays.
            process.set_dumpable(False)
            process.set_child_subreaper()
            # No signal at the relay's death: that would end this process before it has ended the tree. The
            # life pipe tells it, and the keeper too, which kills this one if it is stopped.
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            raise CannotConfine(
                f"the kernel refuses a step of the sandbox{where}: {error.strerror}"
            ) from error

    def fork(self, program: Program) -> tuple[int, int]:
        """Start the keeper, and by it the server; return its pid and the stem's end of its `child.channel`."""
        ends = child.channel()
        with self._volunteer:
            self._kept = keeper.fork(
                self.plan, program, ends, self._dress, self._ends.life, self._ends.status
            )
        return self._kept.server, ends[0]

    def wait(self) -> int:
        """Return the server's wait status."""
        assert self._kept is not None
        return self._kept.status()

    def end(self) -> None:
        """End all that is left, the keeper too if it did not end by itself."""
        tree.end(os.getpid())

    def protections(self) -> dict[str, str]:
        """Return layer → state, as told to the audit."""
        return {
            "files": "degraded: no view of its own, names and attributes are seen",
            "network": "degraded: no network of its own, all sockets are made and connected by the broker",
            "processes": "degraded: no pid namespace, the tree is held by its keeper",
            "per call": "active",
        }


def _can_take_descriptors() -> bool:
    """Whether descriptors may be copied out of another process (Docker's default filter refuses it)."""
    try:
        own = process.pidfd_open(os.getpid())
    except OSError:
        return False
    try:
        os.close(process.pidfd_getfd(own, own))
    except OSError:
        return False
    finally:
        os.close(own)
    return True
