"""One started run: makes the relay and all it needs, and says how it went. Imported once the stem is forked."""

from __future__ import annotations

import gc
import mmap
import os
import signal
from typing import TYPE_CHECKING, Final

from mcpwrap.account import Account
from mcpwrap.audit.journal import Journal
from mcpwrap.audit.redact import mask_command
from mcpwrap.audit.writer import AuditWriter
from mcpwrap.broker.verdict import decode
from mcpwrap.errors import EXIT_FAILED, Error
from mcpwrap.grant.offer import place_of
from mcpwrap.grant.render import printable
from mcpwrap.kernel.memory import keep_freed
from mcpwrap.policy.page import SIZE, PageWriter
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.relay.calls import OpenCalls
from mcpwrap.relay.client import Client
from mcpwrap.relay.relay import SIGNALS, Relay
from mcpwrap.relay.server import Server
from mcpwrap.relay.startup import StartupWatch
from mcpwrap.relay.stderr import ErrorOutput
from mcpwrap.relay.streams import client_sink
from mcpwrap.relay.telling import Refusals
from mcpwrap.relay.terms import terms

if TYPE_CHECKING:
    from mcpwrap.operation import Denial
    from mcpwrap.options import Options
    from mcpwrap.prepare import Prepared
    from mcpwrap.protocol.window import Window
    from mcpwrap.relay.server import Child

STDERR: Final = 2
FREED_BYTES: Final = 2 * 1024 * 1024
"""Kept for the next large message. With half of it a megabyte takes 460 page faults, with this 7; by twice
as much nothing is gained."""


class Session:
    """Call `run` once."""

    def __init__(
        self,
        options: Options,
        prepared: Prepared,
        child: Child,
        page: int,
        activity: memoryview,
        told: bytes,
        tier: str,
        why: str,
    ) -> None:
        """`told` is what the stem has told already; `tier` how the server is held, `why` not at the best."""
        self._prepared = prepared
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for number in SIGNALS:
            signal.signal(number, _wake)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._output = ErrorOutput(client_sink(STDERR))
        self._refusals = Refusals(
            self._output,
            prepared.grant_file or prepared.grant_path,
            exists=bool(prepared.grant_file),
            keeps=prepared.keeps,
        )
        self._server = Server(child, told)
        audit = _open_audit(prepared.places.audit)
        account = self._account = Account(prepared, audit, self._output, tier, why)
        self._journal = Journal(audit, keep_arguments=options.audit_arguments)
        interposer = Interposer(
            overlap=prepared.policy.overlap,
            terms=terms(prepared.policy),
            lookups=self._lookups,
            max_line=options.max_line,
        )
        self._calls = OpenCalls(
            prepared.policy,
            PageWriter(memoryview(mmap.mmap(page, SIZE))),
            self._journal,
            tell=interposer.denied,
            say=self._refusals.say,
            keep=self._refusals.keep,
            home=prepared.facts.home,
            cwd=prepared.facts.cwd,
        )
        startup = StartupWatch(activity, self._server.freeze if self._server.freezes else None)
        self._relay = Relay(
            interposer,
            self._calls,
            Client(),
            self._server,
            startup,
            self._journal,
            self._output,
            decode=decode,
            started=lambda: account.started(self._server.told),
            settled=account.settled,
            wake=reader,
        )
        self._egress = None
        if child.network >= 0:
            # Here only: most grants have no rule of the network, and start-up is counted.
            from mcpwrap.network import open_way_out

            wired = (self._relay, startup, prepared.policy, self._calls, self._journal, self._output)
            self._egress = open_way_out(child.network, *wired, tier)

    def run(self) -> int:
        """Return the exit status of the run."""
        try:
            self._account.begin()
        except Error:
            self._server.end_tree()
            raise
        keep_freed(FREED_BYTES)
        # What lives to the end need not be looked through: a full collection costs some call 1.5 ms.
        gc.freeze()
        self._relay.run()
        if self._egress is not None:
            self._egress.close()
        status = self._status()
        relay, told = self._relay, self._server.told
        self._account.end(
            status,
            relay.shutdown.overdue
            or relay.traffic.fault
            or told.ended
            or relay.shutdown.reason
            or "the server ended",
            self._journal.counts_outside(),
            failed=told.failed,
        )
        return status

    def _lookups(self, window: Window) -> list[Denial]:
        return self._calls.lookups(window)

    def _status(self) -> int:
        told, relay = self._server.told, self._relay
        if told.failed is not None:
            failure = Error(str(told.failed["what"]), str(told.failed["way_out"]))
            self._output.say(failure.diagnostics().replace("mcpwrap: ", ""))
            return int(told.failed["exit_status"])
        if relay.shutdown.overdue:
            self._output.say(relay.shutdown.overdue)
        elif told.ended and not relay.traffic.fault:
            self._output.say(f"the server was ended: {told.ended}")
        if relay.traffic.fault:
            return EXIT_FAILED
        if told.exit_status is None:
            if not relay.shutdown.begun:
                self._output.say("the sandbox broke down; the server was ended")
                return EXIT_FAILED
            return 128 + signal.SIGKILL
        ended_itself = not relay.shutdown.hurried and (told.exit_status or not relay.shutdown.begun)
        if ended_itself and not relay.traffic.answered:
            self._output.say(self._early_death())
        return told.exit_status

    def _early_death(self) -> str:
        prepared = self._prepared
        return self._refusals.early_death(
            printable(" ".join(mask_command(prepared.command))),
            prepared.facts.home,
            prepared.installation.named,
            self._calls.reads,
            place_of(prepared.grant.lines, ("startup",), "fs_read"),
        )


def _wake(_number: int, _frame: object) -> None:
    """Nothing: the number has been written to the wake-up pipe already."""


def _open_audit(directory: str) -> AuditWriter:
    try:
        return AuditWriter(directory)
    except OSError as error:
        raise Error(
            f"the audit cannot be written in {printable(directory)}: {error.strerror}",
            "XDG_STATE_HOME says where audits are kept; no server runs without one",
        ) from None
