"""The hot path: one need on one real path, decided by what is in force now, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Decision, Need
from mcpwrap.policy import decide as on
from mcpwrap.policy.decide import NO_PATH, OWN
from mcpwrap.policy.ground import REMEMBERED
from mcpwrap.policy.inforce import InForce

if TYPE_CHECKING:
    from mcpwrap.policy.active import Active
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.guard import Guard
    from mcpwrap.policy.hosts import Peer
    from mcpwrap.policy.places import Identity

_READ, _WRITE, _EXEC = Need.READ, Need.WRITE, Need.EXEC

_GROUND: Final = OWN - {"device"}
_ELSEWHERE: Final = Decision(False, "atomic-name")
_NOT_THE_HOSTS: Final = ("home", "temporary", "view")


class Effective:
    """What may be done while one set of windows is open.

    `windows` are the ids events are attributed to. Built for each publication, so building is cheap:
    the tables of tools are merged once per set of tools, only bound paths are added here.
    """

    def __init__(self, policy: Policy, active: Active) -> None:
        self.windows = tuple(window.id for window in active.windows)
        self._active = active
        self._guard: Guard | None = None
        self._grounds = policy.grounds
        self._force = InForce(policy, active)
        self._rules = self._force.rules
        denied = self._rules.deny_identities
        self._inodes = policy.inodes | denied if denied else policy.inodes
        self._decided: dict[Need, dict[str, Decision]] = {need: {} for need in Need}
        self._reads, self._writes = self._decided[_READ], self._decided[_WRITE]
        self._others: dict[tuple[Need, str], Decision] = {}

    def decide(
        self,
        need: Need,
        path: str,
        *,
        identity: Identity | None = None,
        creating: bool = False,
        regular: bool = True,
        host: bool = False,
    ) -> Decision:
        """Return the decision on `need` for the real `path`.

        `identity`: (st_dev, st_ino) of the object there, if there is one. `creating`: nothing is there
        and it is going to be made exclusively. `regular`: it is, or will be, a regular file. `host`:
        the user's object at that path is meant, not what the server's private HOME or /tmp has there.
        Total: anything strange is refused.
        """
        if identity is not None and identity in self._inodes:
            return self._by_inode(need, path, identity, creating, regular, host)
        if regular and not creating and not host:
            cache = self._reads if need is _READ else self._writes if need is _WRITE else self._decided[need]
            decision = cache.get(path)
            if decision is None:
                decision = self._decide(need, path, False, True, False)
                if len(cache) >= REMEMBERED:
                    cache.clear()
                cache[path] = decision
            return decision
        if creating or host:
            return self._decide(need, path, creating, regular, host)
        decision = self._others.get((need, path))
        if decision is None:
            decision = self._decide(need, path, False, False, False)
            if len(self._others) >= REMEMBERED:
                self._others.clear()
            self._others[need, path] = decision
        return decision

    def connect(self, peer: Peer) -> Decision:
        """Return whether `peer` may be reached, by what is in force now. A literal needs a rule of addresses."""
        return (self._guard or self._make_guard()).connect(peer)

    def asks(self, name: str) -> Decision:
        """Return whether something about `name` may be asked outside now: whether any port of it may be reached."""
        return (self._guard or self._make_guard()).asks(name)

    def dial(self, peer: Peer, address: str) -> Decision:
        """Return whether `address`, which `peer` resolved to, may be dialled for it.

        A public one may. One on a private network may if the name is listed literally, or a rule of addresses
        holds for it; any other (loopback, link-local, metadata, …, wrapped in IPv6 or not) only by such a rule.
        The refusal's rule is `address-guard:` and the kind of place. A peer that may not be reached is refused.
        """
        return (self._guard or self._make_guard()).dial(peer, address)

    def socket(self, path: str, written: str = "") -> Decision:
        """Return whether the user's socket at the real `path` may be connected to, asked for as `written`.

        What a rule names may be a link by now, or have been one when the run began: that counts only where no
        server can have put anything else in its place. What the server makes in its private HOME and /tmp is
        no matter of rules.
        """
        hosts = self._rules.hosts
        rule = None
        if hosts is not None:
            rule = hosts.sockets.get(path)
            for link in (path, written):
                if rule is None and link and not self._grounds.of(link).writable:
                    rule = hosts.written.get(link) or hosts.sockets.get(link)
        if rule is None or any(self._rules.denied(each) is not None for each in (path, written) if each):
            return self.decide(Need.CONNECT, path, host=True)
        return Decision(True, rule)

    def listen(self, port: int, *, everywhere: bool) -> Decision:
        """Return whether the server's own TCP `port` may be reached from this host, or from `everywhere`."""
        hosts = self._rules.hosts
        rule = hosts.listens.get((port, everywhere)) if hosts is not None else None
        return Decision(True, rule) if rule is not None else Decision(False, "no-grant")

    def _make_guard(self) -> Guard:
        from mcpwrap.policy.guard import Guard  # here only: most servers never connect to anything

        guard = Guard(self._rules.hosts, self._force.policy.quiet.hosts, self._active.windows)
        self._guard = guard
        return guard

    def decide_rename(
        self,
        old: str,
        new: str,
        *,
        moved: tuple[bool, ...] = (True,),
        present: tuple[bool, ...] = (),
        identity: Identity | None = None,
        replaced: Identity | None = None,
        exchange: bool = False,
    ) -> tuple[tuple[str, Decision], ...]:
        """Return the decisions on both ends of a rename, as (path, decision).

        `identity`: of the object at `old`; `replaced`: of what is at `new`, None if nothing is. `moved` and
        `present` say as what the two count, each as `regular` of `decide`: a symlink counts as both, since it
        may stand for a file and for a directory. An end must be allowed for all that is or comes there. A
        temporary name that is granted only as an atomic writer's may be renamed onto its file and nowhere
        else, and nothing onto it.
        """
        source = self._decide_kinds(old, identity, moved + (present if exchange else ()), creating=False)
        target = self._decide_kinds(new, replaced, moved + present, creating=replaced is None)
        if source.allowed and self._is_temporary(old) and (exchange or new not in self._force.beside(old)):
            source = _ELSEWHERE
        if target.allowed and self._is_temporary(new):
            target = _ELSEWHERE
        return (old, self._in_place(old, source)), (new, self._in_place(new, target))

    def _in_place(self, path: str, decision: Decision) -> Decision:
        """Return `decision`, or the refusal for a directory by whose name something else than itself is found."""
        policy, owner = self._force.policy, self._grounds.of(path).owner
        if decision.allowed and owner == "host" and path in policy.socket_places:
            return self._force.refused(_WRITE, path, "socket-place")
        if decision.allowed and not self._force.startup and owner == "home":
            return self._force.refused(_WRITE, path, "loaded") if policy.loaded.leads(path) else decision
        return decision

    def _decide_kinds(
        self, path: str, identity: Identity | None, kinds: tuple[bool, ...], *, creating: bool
    ) -> Decision:
        decisions = [
            self.decide(_WRITE, path, identity=identity, creating=creating, regular=regular)
            for regular in dict.fromkeys(kinds)
        ]
        return next((each for each in decisions if not each.allowed), decisions[0])

    def interpreter(self, script: str, interpreter: str, *, identity: Identity | None = None) -> Decision:
        """Return whether the kernel may run `interpreter` for the `#!` line of `script`.

        Allowed iff the script is, by the script's rule, for that execution only; never a loader or a
        file the server could have written. `identity` is the script's.
        """
        decision = self.decide(_EXEC, script, identity=identity)
        return on.interpret(self._force, interpreter, decision) if decision.allowed else decision

    def owns(self, path: str) -> bool:
        """Whether `path` is the server's own ground: private HOME, /tmp, $STATE, $CACHE."""
        return self._grounds.of(path).owner in _GROUND

    def changeable(self, path: str) -> bool:
        """Whether some tool's grant, or the server's own ground, lets it turn the name `path` to another file."""
        ground = self._grounds.of(path)
        if on.is_frozen(self._force, ground) and on.exec_rule(self._force, path):
            return False
        return on.is_writable(ground) and not self._rules.any_writable

    def is_loaded(self, path: str) -> bool:
        """Whether what the private HOME has of what is run by itself lies there, or is found that way."""
        loaded = self._force.policy.loaded
        return self._grounds.of(path).owner == "home" and (loaded.holds(path) or loaded.leads(path))

    def is_hook(self, path: str) -> bool:
        """Whether `path` lies where git keeps the programs it runs by itself."""
        protected = self._grounds.of(path).protected
        return protected is not None and protected.id.endswith("/hooks")

    def created(self, path: str, *, directory: bool = True) -> None:
        """Note that the tree made `path` (mkdir, or a regular file with `directory=False`).

        While one of the windows open now stays open, write-protected *names* may be made and written
        in that directory (`git init` makes `.git`, then `.git/config`), and a file that is an atomic
        writer's temporary name may be written and removed. The broker tells it after the act succeeded.
        """
        if self._force.bear(path, directory=directory):
            self._forget()

    def removed(self, path: str, *, moved: bool = False) -> None:
        """Note that `path` is gone (rmdir, unlink, renamed away): what comes there next is not born of it."""
        if self._force.vacate(path, moved=moved):
            self._forget()

    def untouchable(self, path: str, identity: Identity | None = None, *, regular: bool = True) -> str | None:
        """Return the id of the deny, private or write-protected rule that holds for `path`, else None.

        For the walk through a directory before it is renamed: asked for every entry at both places.
        """
        force, ground = self._force, self._grounds.of(path)
        if not ground.well_formed:
            return NO_PATH.rule
        denied = self._rules.denied(path)
        if denied is not None:
            return denied
        if ground.owner in OWN:
            return None
        if ground.private and force.withheld(ground.private, path, _WRITE, regular=regular):
            return ground.private.id
        if ground.protected and force.guarded(ground.protected, path, regular=regular):
            return ground.protected.id
        return force.forbidden_inode(identity, ground, write=True) if identity in self._inodes else None

    def _decide(self, need: Need, path: str, creating: bool, regular: bool, host: bool) -> Decision:
        ground = self._grounds.of(path)
        if not ground.well_formed:
            return NO_PATH
        denied = self._rules.denied(path)
        if denied is not None:
            return self._force.refused(need, path, denied)
        # Without a view of its own the server's places are nowhere but where the host has them.
        elsewhere = host and not self._force.policy.facts.bare
        owner = "none" if elsewhere and ground.owner in _NOT_THE_HOSTS else ground.owner
        if need is _READ:
            return on.read(self._force, path, ground, owner, creating=creating, regular=regular)
        if need is _WRITE:
            return on.write(self._force, path, ground, owner, creating=creating, regular=regular)
        if need is _EXEC:
            return on.execute(self._force, path, ground)
        return on.connect(self._force, path, ground, owner)

    def _by_inode(
        self, need: Need, path: str, identity: Identity, creating: bool, regular: bool, host: bool
    ) -> Decision:
        decision = self._decide(need, path, creating, regular, host)
        if not decision.allowed:
            return decision
        rule = self._force.forbidden_inode(identity, self._grounds.of(path), write=need is _WRITE)
        return self._force.refused(need, path, rule) if rule is not None else decision

    def _is_temporary(self, path: str) -> bool:
        """Whether `path` is granted as an atomic writer's temporary name and in no other way."""
        if self._grounds.of(path).owner in OWN or self._force.write_rule(path, regular=True) is not None:
            return False
        return bool(self._force.beside(path))

    def _forget(self) -> None:
        self._reads.clear()
        self._writes.clear()
        self._others.clear()
