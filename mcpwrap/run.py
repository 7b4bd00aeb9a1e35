"""Wires one run up to the fork; `session` wires what comes after it.

Order is for speed: the stem is forked as soon as the policy is compiled, and what only the relay needs is
imported while the server starts.
"""

from __future__ import annotations

import mmap
import os
import signal
from typing import TYPE_CHECKING

from mcpwrap.policy.page import SIZE
from mcpwrap.prepare import prepare
from mcpwrap.sandbox import identity, stem
from mcpwrap.sandbox.plan import Limits, plan
from mcpwrap.sandbox.plan import Options as PlanOptions

if TYPE_CHECKING:
    from mcpwrap.options import Options


def run(options: Options) -> int:
    """Run one server to its end; return the exit status: its own, 128+N for signal N, or one of ours.

    Raises `Error` for what is wrong before it was started.
    """
    # Until the relay listens for signals, each of them ends this process, and with it the tree.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    prepared = prepare(options)
    policy = prepared.policy
    page = os.memfd_create("mcpwrap-page", os.MFD_CLOEXEC)
    os.ftruncate(page, SIZE)
    activity = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:8]
    limits = _limits(options)
    child = stem.start(
        plan(
            policy.floor,
            prepared.facts,
            PlanOptions(
                prepared.installation.program,
                limits,
                identity.users(),
                apart=prepared.apart,
                egress=policy.egress,
                nested=prepared.grant.nested_sandbox,
            ),
        ),
        policy,
        page,
        activity,
        (prepared.installation.program, *prepared.command[1:]),
        prepared.environment,
    )
    from mcpwrap.session import Session

    return Session(options, prepared, child, page, activity).run()


def _limits(options: Options) -> Limits:
    default = Limits()
    return Limits(
        processes=options.limit_processes or default.processes,
        descriptors=options.limit_files or default.descriptors,
        data=default.data,
        memory=options.limit_memory or default.memory,
    )
