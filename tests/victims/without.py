"""mcpwrap with some of its layers taken out: `python -I without.py LAYER[,LAYER] OPTIONS... -- CMD...`.

It exists to prove that tests see each layer: a layer whose loss turns nothing red is either not tested or
not there. Each entry below replaces functions of the package in this process, before the server's tree is
forked from it; the package itself has no switch.
"""

import sys

from mcpwrap.kernel import mounts as kernel_mounts
from mcpwrap.kernel import process
from mcpwrap.operation import Decision, Need
from mcpwrap.policy import inforce
from mcpwrap.policy.effective import Effective
from mcpwrap.sandbox import child, landlock, mounts, namespaces, netns, seccomp

YES = Decision(allowed=True, rule="taken-out")


def nothing(*_, **__):
    return None


def broker():
    """The broker says yes to every read and write."""
    decide = Effective.decide

    def always(self, need, path, **more):
        return YES if need in (Need.READ, Need.WRITE) else decide(self, need, path, **more)

    Effective.decide = always
    Effective.untouchable = nothing


def exec_gate():
    """The broker says yes to every execution."""
    decide = Effective.decide

    def always(self, need, path, **more):
        return YES if need is Need.EXEC else decide(self, need, path, **more)

    Effective.decide = always


def own_filters():
    """Who has a filter or a root of its own executes as anybody."""
    from mcpwrap.broker.inner import Inner

    Inner.require_plain = nothing


def windows():
    """A grant once in force stays in force."""
    from mcpwrap.policy.page import PageWriter

    publish, kept = PageWriter.publish, {}

    def keep(self, active):
        kept.update({window.id: window for window in active.windows})
        return publish(self, active._replace(windows=tuple(kept.values())))

    PageWriter.publish = keep


def private():
    """Private names are names like others."""
    inforce.InForce.withheld = lambda *_, **__: False


def protected():
    """Write-protected names are names like others."""
    inforce.InForce.guarded = lambda *_, **__: False


def inodes():
    """A private file is one only under its own name."""
    inforce.InForce.forbidden_inode = nothing


def tree_walk():
    """What is below a renamed directory is not looked at."""
    from mcpwrap.broker import rename

    rename._require_tree = nothing


def view():
    """A file that nobody granted is in sight."""
    from mcpwrap import run
    from mcpwrap.sandbox.steps import Bind

    plan = run.plan

    def wider(floor, facts, options):
        planned = plan(floor, facts, options)
        more = Bind("/etc/hostname", "/etc/hostname", directory=False)
        return planned._replace(steps=(*planned.steps, more))

    run.plan = wider


def links():
    """A symlink may lead anywhere."""
    from mcpwrap.broker import mutate, rename

    mutate.require_target = nothing
    rename.require_target = nothing


def verification():
    """Nobody looks what an execution has become."""
    from mcpwrap.broker.exec import Executions

    Executions.verify = lambda self, caller: self.pending.pop(caller.pid)


def procfs():
    """All of /proc is to be read."""
    from mcpwrap.broker import procfs as rules

    rules.decide = lambda *_: YES
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("mcpwrap.broker") and hasattr(module, "procfs"):
            module.procfs.decide = rules.decide


def system_calls():
    """Three calls of those that are denied are let through."""
    verdicts = seccomp.verdicts

    def wider(*arguments, **more):
        from mcpwrap.sandbox.arguments import ALLOW

        return verdicts(*arguments, **more) | dict.fromkeys(("keyctl", "io_uring_setup", "ptrace"), ALLOW)

    seccomp.verdicts = wider


def network():
    """The host's network."""
    namespaces.FLAGS &= ~process.CLONE_NEWNET
    namespaces.network.bring_loopback_up = nothing
    # There port 53 is not the user's: the name service takes any, which nobody asks.
    netns._NAME_SERVICE = b"\x02\x00" + bytes(2) + bytes((127, 0, 0, 1)) + bytes(8)


def hosts():
    """The broker, and who dials, say yes to every host; the place of an address counts for nothing."""
    from mcpwrap.policy.guard import Guard

    Guard.connect = lambda *_: YES
    Guard.dial = lambda *_: YES


def address_guard():
    """A granted name may lead anywhere."""
    from mcpwrap.policy.guard import Guard

    Guard.dial = lambda self, peer, _: self.connect(peer)


def server_name():
    """Nobody looks whom a TLS hello asks for."""
    from mcpwrap.egress.greeting import Greeting

    Greeting.look = lambda _: True


def parking():
    """A connection that was granted once is open as long as it lasts."""
    from mcpwrap.egress.stream import Stream

    def review(self):
        if self.parked and not self._over:
            self.parked = False
            self._resume()

    Stream.review = review


def conditions():
    """Arguments meet every condition."""
    from mcpwrap.policy import args

    args.check = nothing


def names():
    """Every name is answered."""
    from mcpwrap.policy.compile import Policy

    Policy.answers = lambda *_: YES


def path_sockets():
    """A socket of the host needs no rule."""
    Effective.socket = lambda *_: YES


def landlock_floor():
    """No Landlock domain at all."""
    landlock.floor = nothing
    landlock.nested = nothing


def noexec():
    """Writable mounts may hold programs."""
    kernel_mounts.MOUNT_ATTR_NOEXEC = 0
    mounts._MEMORY &= ~kernel_mounts.MS_NOEXEC


def limits():
    """No resource limits."""
    process.set_limits = nothing
    child.process.set_limits = nothing


def memory():
    """Nobody looks how much memory the tree holds."""
    from mcpwrap.sandbox.memory import Watcher

    Watcher.check = nothing


def processes():
    """The host's processes."""
    namespaces.FLAGS &= ~process.CLONE_NEWPID


def life():
    """Nobody watches whether the relay lives."""
    import os

    from mcpwrap.sandbox import stem

    process.set_parent_death_signal = nothing
    start = stem.start
    pipe = os.pipe

    def immortal(*arguments):
        made = []

        def keep():
            made.append(pipe())
            # The life pipe is the last of six; a second writer in the stem's own hands never ends it.
            if len(made) == 6:
                os.dup2(made[-1][1], 200, inheritable=True)
            return made[-1]

        os.pipe = keep
        from mcpwrap.sandbox import inherited

        close = inherited.close_others
        for module in (stem, sys.modules["mcpwrap.sandbox.init"], child):
            module.close_others = lambda *fds: close(*fds, 200)
        try:
            return start(*arguments)
        finally:
            os.pipe = pipe
            os.close(200)

    stem.start = immortal


def keeper():
    """Nobody ends what the server leaves behind."""
    from mcpwrap.sandbox import tree

    tree.end = lambda _: {}


def border():
    """A file may have a name on the server's own ground and one elsewhere."""
    from mcpwrap.broker.terrain import Host

    Host.require_one_ground = nothing


def numbers():
    """Whoever has a number is of the tree."""
    from mcpwrap.broker.terrain import Host

    Host.in_tree = lambda *_: True
    Host.in_group = lambda *_: True


def loopback():
    """The host's loopback is taken for one of the server's own."""
    from mcpwrap.broker.place import Place

    Place.is_inside = lambda self, target: target.loopback


def watching():
    """Whoever asks may watch a directory."""
    from mcpwrap.broker.session import Session

    Session.require_readable = nothing


def scopes():
    """Landlock as of version 5, which holds neither signals nor abstract sockets."""
    from mcpwrap.kernel import landlock as kernel

    found = kernel.abi
    kernel.abi = lambda: min(found(), 5)


LAYERS = {
    "broker": broker,
    "exec gate": exec_gate,
    "own filters": own_filters,
    "windows": windows,
    "private": private,
    "protected": protected,
    "inodes": inodes,
    "tree walk": tree_walk,
    "view": view,
    "links": links,
    "verification": verification,
    "procfs": procfs,
    "system calls": system_calls,
    "network": network,
    "hosts": hosts,
    "address guard": address_guard,
    "server name": server_name,
    "parking": parking,
    "conditions": conditions,
    "names": names,
    "path sockets": path_sockets,
    "landlock": landlock_floor,
    "noexec": noexec,
    "limits": limits,
    "memory": memory,
    "processes": processes,
    "life": life,
    "scopes": scopes,
    "keeper": keeper,
    "border": border,
    "numbers": numbers,
    "loopback": loopback,
    "watching": watching,
}

if __name__ == "__main__":
    for name in filter(None, sys.argv[1].split(",")):
        LAYERS[name]()
    from mcpwrap.cli.main import main

    sys.argv[1:] = sys.argv[2:]
    sys.exit(main(sys.argv[1:]))
