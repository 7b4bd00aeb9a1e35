"""What the handlers of one broker share, and the answers to names that are not in the server's view."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from mcpwrap.broker.hostsockets import Held
from mcpwrap.broker.request import Caller
from mcpwrap.broker.resolve import Entry, Found, Resolver, failure
from mcpwrap.broker.verdict import refused_with
from mcpwrap.kernel import files
from mcpwrap.operation import Decision, Need
from mcpwrap.policy.decide import OWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.broker.inner import Inner
    from mcpwrap.broker.listener import Listener
    from mcpwrap.broker.network import Network
    from mcpwrap.broker.place import Place
    from mcpwrap.broker.stub import Stub
    from mcpwrap.broker.terrain import Terrain
    from mcpwrap.broker.verdict import Verdicts
    from mcpwrap.policy.facts import Facts

OWN_GROUND = OWN - {"device"}
"""Rules of places that are the server's own: files it made, on mounts of this sandbox's own."""

VIEW_DECIDES = ("/tmp", "/dev", "/proc", "/sys")
"""Places that are the sandbox's own: what is not there is absent, whatever the host has."""


class Session:
    """One broker: its listener, its verdicts, its eyes.

    `host_proc` is the host's procfs, `host_root` an O_PATH fd on the host's root, only ever used to ask
    whether a name exists, and to connect to a path socket that was granted. `current` is the id of the
    notification being answered. `place` is where the server's sockets are, `stub` the name service there,
    `network` the way out; None if the grant has none. `inner`: sandboxes inside, None if there may be none.
    `copies`: descriptors can be copied out of the server; where not, `held` has its sockets.
    """

    def __init__(
        self,
        listener: Listener,
        verdicts: Verdicts,
        terrain: Terrain,
        host_proc: int,
        host_root: int,
        facts: Facts,
        place: Place,
        stub: Stub,
        network: Network | None,
        *,
        copies: bool = True,
    ) -> None:
        self.listener = listener
        self.verdicts = verdicts
        self.terrain = terrain
        self.resolver = Resolver(terrain)
        self.host_proc = host_proc
        self.host_root = host_root
        self.facts = facts
        self.place = place
        self.stub = stub
        self.network = network
        self.current = 0
        self.inner: Inner | None = None
        self.held = Held()
        self.copies = copies
        self._helpers: dict[int, str] = {}

    def require(
        self,
        caller: Caller,
        act: str,
        need: Need,
        target: Found | Entry,
        *,
        written: str = "",
        regular: bool = True,
    ) -> Decision:
        """Return the decision on `need` on the real path of `target`, recorded; OSError EACCES if refused.

        Without a view of its own, dotfiles of the user's home that are not granted are answered as a view does.
        """
        unseen = need is Need.READ and self.terrain.bare and self.facts.is_dotfile(target.path)
        error = errno.ENOENT if unseen else errno.EACCES
        decision = self.verdicts.decide(
            act,
            need,
            target.path,
            written=written,
            identity=target.identity,
            creating=target.stat is None,
            regular=regular,
            errno=error,
            pid=caller.pid,
            dotfile=unseen,
        )
        if not decision.allowed:
            raise failure(refused_with(decision, need, error))
        self.require_place(caller, act, need, target, decision)
        if need is Need.WRITE and not self.verdicts.unchanged():
            # The relay has published since: what is done now is decided by the grant of now.
            self.verdicts.refresh()
            return self.require(caller, act, need, target, written=written, regular=regular)
        return decision

    def require_place(
        self, caller: Caller, act: str, need: Need, target: Found | Entry, decision: Decision
    ) -> None:
        """Raise OSError unless an allowed `target` is where its path says, and the caller is who asked."""
        if decision.rule in OWN_GROUND and not self.terrain.is_own(target.anchor):
            raise self.refuse(caller, act, need, target.path, Decision(False, "moved"))
        if need is Need.WRITE and not self.listener.alive(self.current):
            # The caller died, and its number may name another process by now: what was read is not its own.
            raise failure(errno.ESRCH)

    def require_readable(self, caller: Caller, found: Found, written: bytes) -> None:
        """Raise OSError EACCES unless `found` may be read; of /proc nothing is."""
        if found.stat.st_dev == self.terrain.proc_device:
            raise failure(errno.EACCES)
        regular = not stat.S_ISDIR(found.stat.st_mode)
        self.require(caller, "read", Need.READ, found, written=os.fsdecode(written), regular=regular)

    def copy(self, caller: Caller, fd: int) -> int:
        """Return a copy of the caller's socket `fd`: the same open file."""
        return caller.duplicate(fd) if self.copies else self.held.copy(caller, fd)

    def require_as_written(self, caller: Caller, dirfd: int, path: bytes, found: Found) -> None:
        """Raise OSError EACCES if a name on the way to what is written is write-protected or denied.

        A link `.mcp.json -> conf.json` makes of `conf.json` what a client reads as its configuration.
        """
        written = os.path.normpath(self.absolute(caller, dirfd, path))
        if written == found.path or found.stat.st_dev == self.resolver.proc_device:
            return
        rule = self.verdicts.effective.untouchable(
            written, found.identity, regular=stat.S_ISREG(found.stat.st_mode)
        )
        if rule is not None:
            raise self.refuse(caller, "write", Need.WRITE, written, Decision(False, rule))

    def park(self, act: Callable[[], None]) -> None:
        """Let `act`, which blocks and then answers the current notification, run beside the broker."""

        def beside() -> None:
            enter_descriptors(self.host_proc)
            act()

        pid = self.listener.park(self.current, beside)
        if pid:
            self._helpers[pid] = Caller(pid, self.host_proc).inner_ids()[0]

    def is_helper(self, process: str) -> bool:
        """Whether `process` (its number in the server's pid namespace) is a parked one: a part of mcpwrap."""
        self._helpers = {pid: inner for pid, inner in self._helpers.items() if pid in self.listener.parked}
        return process in self._helpers.values()

    def refuse(
        self,
        caller: Caller,
        act: str,
        need: Need,
        path: str,
        decision: Decision,
        *,
        error: int = errno.EACCES,
    ) -> OSError:
        """Record a refusal that is not the policy's own and return the error to raise."""
        self.verdicts.record(act, need, path, decision, errno=error, pid=caller.pid)
        return failure(error)

    def absent(
        self, caller: Caller, dirfd: int, path: bytes, act: str, need: Need, *, creating: bool
    ) -> OSError:
        """Return the error for a name that is not in the view: forbidden if the host has it, else ENOENT.

        Of dotfiles the view decides (git ends on a forbidden ~/.gitconfig, and goes on without one): that
        is told to the audit only, unless a private path was meant.
        """
        if not path:
            return failure(errno.ENOENT)
        written = self.absolute(caller, dirfd, path)
        real = self._real_on_host(written, creating=creating)
        if real is None or _below(real, VIEW_DECIDES):
            return failure(errno.ENOENT)
        decision = self.verdicts.effective.decide(need, real, creating=creating, host=True)
        dotfile = self.facts.is_dotfile(real)
        rule = decision.rule if not decision.allowed else "not-in-view"
        quiet = decision.quiet or (dotfile and not rule.startswith("private"))
        error = errno.ENOENT if dotfile else errno.EACCES
        return self.refuse(caller, act, need, real, Decision(False, rule, quiet=quiet), error=error)

    def absolute(self, caller: Caller, dirfd: int, path: bytes) -> str:
        """Return the path as the caller wrote it, from the root; not normalized, links not followed."""
        text = os.fsdecode(path)
        if text.startswith("/"):
            return text
        base = caller.directory(dirfd)
        try:
            return os.readlink(str(base)) + "/" + text
        finally:
            os.close(base)

    def on_host(self, path: str) -> int:
        """Return an O_PATH descriptor of what the host has at `path`, links followed; -1 if it has nothing."""
        try:
            return files.openat2(
                self.host_root,
                os.fsencode(path.lstrip("/") or "."),
                os.O_PATH | os.O_CLOEXEC,
                resolve=files.RESOLVE_IN_ROOT | files.RESOLVE_NO_MAGICLINKS,
            )
        except OSError:
            return -1

    def _real_on_host(self, path: str, *, creating: bool) -> str | None:
        """Return the real host path of an existing object (for creations: existing parent, and the name)."""
        name = ""
        if creating:
            path, _, name = path.rstrip("/").rpartition("/")
        fd = self.on_host(path)
        if fd < 0:
            return None
        try:
            if creating and not stat.S_ISDIR(os.fstat(fd).st_mode):
                return None
            real = os.readlink(str(fd))
        finally:
            os.close(fd)
        return real if not name else real.rstrip("/") + "/" + name


def enter_descriptors(host_proc: int) -> None:
    """Make the directory of this process's own descriptors the working directory.

    There the name of a descriptor is its number, the shortest way from an O_PATH descriptor to its
    path or to a new opening of it.
    """
    os.fchdir(host_proc)
    os.chdir("self/fd")


def _below(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)
