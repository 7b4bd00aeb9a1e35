"""How a server is confined in namespaces of its own (tiers B and B-): a view, a network, processes of its own."""

from __future__ import annotations

import os
import signal

from mcpwrap.kernel import process
from mcpwrap.sandbox import child, init, landlock, mounts, namespaces, netns
from mcpwrap.sandbox.child import Dress, Program
from mcpwrap.sandbox.ends import Ends
from mcpwrap.sandbox.memory import OomScore
from mcpwrap.sandbox.plan import Plan


class Namespaced:
    """The steps of the stem, in this order: `begin`, `enter`, `fork`, `wait`, `end`.

    `copies`, `keeper`, `stub_port`, `names`: as `broker.loop.serve` takes them; no `names` without a broker.
    """

    copies = True
    keeper = 0
    stub_port = 0

    def __init__(self, plan: Plan, ends: Ends, abi: int) -> None:
        self.plan = plan
        self.names: tuple[int, int] | None = None
        self._ends = ends
        self._abi = abi
        self._init = 0
        self._built = -1
        self._server = 0
        self._volunteer = OomScore()
        self._host = mounts.Host(-1, -1)

    def begin(self) -> mounts.Host:
        """Leave the host's namespaces, and let pid 1 of the new one build the view."""
        namespaces.enter(nested=self.plan.nested)
        if self.plan.tier == "B":
            self.names = netns.name_service()
            if self._ends.network >= 0:
                netns.open_for_brokered_connections()
        try:
            self._host = mounts.stage()
        except OSError as error:
            raise namespaces.refused("a file system in a new mount namespace", error) from error
        self._init, self._built = init.fork(self.plan, self._ends.life, self._ends.status, self._ends.freeze)
        if self.plan.frozen:
            os.close(self._ends.freeze)
        self._dress().assemble()
        return self._host

    def enter(self) -> None:
        """Enter the view when it is built; give up all privileges; the Landlock floor. The server inherits it."""
        init.wait(self._built)
        try:
            mounts.enter(self.plan)
            process.set_no_new_privs()
            # Before the capabilities go: a server may have closed directories of its own ground to this user.
            landlock.floor_of(self.plan, self._host.proc, self._abi)
            process.drop_capabilities()
            # The last change of credentials is made: what follows stays.
            process.set_dumpable(False)
            process.set_child_subreaper()
            process.set_parent_death_signal(signal.SIGKILL)
        except OSError as error:
            where = f" at {error.filename}" if error.filename else ""
            raise namespaces.refused(f"a step of the sandbox{where}", error) from error

    def fork(self, program: Program) -> tuple[int, int]:
        """Start the server; return its pid and the stem's end of its `child.channel`."""
        said, tell = child.channel()
        with self._volunteer:
            self._server = child.fork(self.plan, program, tell, self._dress())
        return self._server, said

    def wait(self) -> int:
        """Return the server's wait status."""
        return os.waitpid(self._server, 0)[1]

    def end(self) -> None:
        """End all that is left: pid 1 takes the whole pid namespace along."""
        if self._init:
            os.kill(self._init, signal.SIGKILL)

    def protections(self) -> dict[str, str]:
        """Return layer → state, as told to the audit."""
        per_call = "active" if self.plan.tier == "B" else "unavailable: no supervisor of system calls"
        return {"files": "active", "network": "active", "processes": "active", "per call": per_call}

    def _dress(self) -> Dress:
        processes = self.plan.limits.processes
        if self.plan.nested:
            from mcpwrap.sandbox.nested_calls import GROUPS  # a browser's, and nobody else's

            return Dress(processes, GROUPS)
        if self.plan.tier == "B":
            return Dress(processes)
        from mcpwrap.sandbox.bare_calls import UNWATCHED  # only needed without a broker

        return Dress(processes, UNWATCHED, listener=False)
