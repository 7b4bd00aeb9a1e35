"""Wires one run up to the fork; `session` wires what comes after it.

Order is for speed: the stem is forked as soon as the policy is compiled, and what only the relay needs is
imported while the server starts.
"""

from __future__ import annotations

import mmap
import os
import signal
from typing import TYPE_CHECKING

from mcpwrap.errors import CannotConfine
from mcpwrap.policy.page import SIZE
from mcpwrap.prepare import prepare
from mcpwrap.sandbox import identity, report, stem, tiers
from mcpwrap.sandbox.namespaces import NAMESPACES
from mcpwrap.sandbox.plan import Limits, Wanted, plan

if TYPE_CHECKING:
    from mcpwrap.errors import Lacking
    from mcpwrap.options import Options
    from mcpwrap.prepare import Prepared
    from mcpwrap.sandbox.plan import Tier

READ_BYTES = 65_536


def run(options: Options) -> int:
    """Run one server to its end; return the exit status: its own, 128+N for signal N, or one of ours.

    Raises `Error` for what is wrong before it was started.
    """
    # Until the relay listens for signals, each of them ends this process, and with it the tree.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    page = os.memfd_create("mcpwrap-page", os.MFD_CLOEXEC)
    os.ftruncate(page, SIZE)
    activity = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:8]
    began = _Attempt(options, "B", page, activity)
    from mcpwrap.session import Session

    told = began.told()
    if began.lacking is not None:
        began.give_up()
        began, told = _weaker(options, began.lacking, page, activity)
    return Session(options, began.prepared, began.child, page, activity, told, began.tier, began.why).run()


class _Attempt:
    """One start at one tier. The real thing is tried, and nothing asked before: a tier B that is to be had
    costs no further process, and what a probe finds may be different a moment later."""

    def __init__(self, options: Options, tier: Tier, page: int, activity: memoryview, why: str = "") -> None:
        self.tier: Tier = tier
        self.why = why
        self.lacking: Lacking | None = None
        self.prepared = prepared = prepare(options, bare=tier == "C")
        if tier == "C":
            _require_no_namespaces(prepared, why)
        if prepared.replicas:
            from mcpwrap.sandbox.replica import copy

            copy(prepared.replicas)  # what holds them in use is open until this process ends
        make = plan
        if tier == "C":
            from mcpwrap.sandbox.hostplan import host_plan  # only needed without namespaces

            make = host_plan
        program = prepared.installation.program
        wanted = Wanted(
            program,
            _limits(options),
            identity.users(),
            apart=prepared.apart,
            tier=tier,
            sockets=tuple(rule.path for rule in prepared.policy.sockets),
            nested=prepared.grant.nested_sandbox and tier == "B",
            replicas=prepared.replicas,
        )
        self.child = stem.start(
            make(prepared.policy.floor, prepared.facts, wanted),
            prepared.policy,
            page,
            activity,
            (program, *prepared.command[1:]),
            prepared.environment,
        )

    def told(self) -> bytes:
        """Wait until the server is confined, or is not; return what has been told, and set `lacking`."""
        said = b""
        while b"\n" not in said:
            data = os.read(self.child.status, READ_BYTES)
            if not data:
                return said
            said += data
        self.lacking = report.lacking(said.split(b"\n", 1)[0])
        return said

    def give_up(self) -> None:
        """Close what was begun, and wait for the stem's end."""
        for fd in self.child[1:]:
            if fd >= 0:
                os.close(fd)
        os.waitpid(self.child.pid, 0)


def _require_no_namespaces(prepared: Prepared, why: str) -> None:
    """Raise CannotConfine for a grant that needs what tier C lacks: without it the server would not work."""
    grant = prepared.grant
    nouns = (("nested_sandbox", grant.nested_sandbox), ("install_write", bool(grant.install_write)))
    for noun, said in nouns:
        if said:
            raise CannotConfine(
                f"the grant says {noun}, which needs namespaces (tier B): {why}",
                f"take the line {noun} out of {prepared.grant_file}; `mcpwrap doctor` says what tier B needs here",
            )


def _weaker(options: Options, lacking: Lacking, page: int, activity: memoryview) -> tuple[_Attempt, bytes]:
    """Start at the best tier that is left without what is lacking; return it and what it told.

    Raises CannotConfine where there is none, or none that the options allow.
    """
    tier: Tier = "C" if lacking.layer == NAMESPACES else "B-"
    tiers.require(tier, options.require, lacking.what, lacking.way_out)
    if tier == "B-" and tiers.PER_CALL not in options.allow_degraded:
        raise CannotConfine(
            lacking.what,
            f"{lacking.way_out}\nor --allow-degraded {tiers.PER_CALL}: {'; '.join(tiers.TIERS[tier].weaker)}",
        )
    if tier == "B-":
        _require_holdable(options)
    attempt = _Attempt(options, tier, page, activity, lacking.what)
    told = attempt.told()
    if attempt.lacking is not None:
        raise CannotConfine(
            f"nothing here can hold a server (tier D): {lacking.what}; and {attempt.lacking.what}",
            f"{lacking.way_out}\n{attempt.lacking.way_out}",
        )
    return attempt, told


def _require_holdable(options: Options) -> None:
    """Raise CannotConfine for rules that only a broker can hold."""
    blocks = prepare(options).grant.blocks
    denied = next((rule for block in blocks for rule in block.paths if rule.noun == "fs_deny"), None)
    if denied is not None:
        raise CannotConfine(
            f"the grant has `fs_deny` ({denied.id}), which cannot be held at tier B-",
            "take the rule out, or what it denies out of the rules that grant it",
        )


def _limits(options: Options) -> Limits:
    default = Limits()
    return Limits(
        processes=options.limit_processes or default.processes,
        descriptors=options.limit_files or default.descriptors,
        data=default.data,
        memory=options.limit_memory or default.memory,
    )
