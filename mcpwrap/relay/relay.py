"""One run from the started stem to the end of its tree: traffic, time, signals.

A window's grant is published before its request is forwarded, and withdrawn, with its audit on disk,
before its answer leaves; see `traffic` for the order of reading and `shutdown` for the end.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpwrap.relay.pumps import READABLE
from mcpwrap.relay.shutdown import Shutdown, Step
from mcpwrap.relay.traffic import Traffic

if TYPE_CHECKING:
    from mcpwrap.operation import Event
    from mcpwrap.protocol.interposer import Interposer
    from mcpwrap.relay.calls import OpenCalls
    from mcpwrap.relay.client import Client
    from mcpwrap.relay.journal import Journal
    from mcpwrap.relay.server import Server
    from mcpwrap.relay.startup import StartupWatch
    from mcpwrap.relay.stderr import ErrorOutput

LAST_BYTES_SECONDS: Final = 1.0
"""At the end: without progress for so long, what is left to write is given up."""
STEM_SECONDS: Final = 1.0
"""From closing the life pipe of a tree that said it has ended, to killing what is left of it."""

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Relay:
    """The one loop. Call `run` once; `shutdown.reason` and `traffic` then tell how it went."""

    def __init__(
        self,
        interposer: Interposer,
        calls: OpenCalls,
        client: Client,
        server: Server,
        startup: StartupWatch,
        journal: Journal,
        output: ErrorOutput,
        *,
        decode: Callable[[bytes], Event],
        started: Callable[[], None],
        settled: Callable[[], None] = lambda: None,
        wake: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`decode` reads one record of the broker; `started` is called once the server was started,
        `settled` once start-up has ended.

        `wake` is the read end of the pipe that `signal.set_wakeup_fd` writes signal numbers to.
        """
        self.shutdown = Shutdown()
        self.traffic = Traffic(
            interposer,
            calls,
            client,
            server,
            startup,
            self.shutdown,
            journal,
            output,
            decode=decode,
            clock=clock,
        )
        self._interposer = interposer
        self._calls = calls
        self._server = server
        self._startup = startup
        self._started = started
        self._settled = settled
        self._wake = wake
        self._clock = clock

    def run(self) -> None:
        """Move bytes until the server has exited or was ended, and everything it said is delivered."""
        pumps, server, way_out = self.traffic.pumps, self._server, self.traffic.way_out
        pumps.add(server.status.fd, READABLE, self._on_status)
        pumps.add(self._wake, READABLE, self._on_signal)
        self.traffic.begin()
        self._on_status(READABLE)  # what was told before this loop
        while server.told.exit_status is None and server.status.open:
            deadline = self._interposer.deadline()
            if way_out is not None and deadline is None:
                deadline = way_out.deadline()
            if deadline is None and self._startup.over and not self.shutdown.begun:
                # The ordinary state: nothing but bytes can make anything happen.
                self.traffic.turn(None)
            else:
                self.traffic.turn(self._wait(self._clock()))
                self._on_time(self._clock())
        self._finish()

    def _on_status(self, _events: int) -> None:
        before = self._server.told.pid
        self._server.read_status()
        if self._server.told.pid and not before:
            self._started()
        if self._server.told.frozen is not None:
            self._startup.froze(self._server.told.frozen, self._clock())
            self._server.told.frozen = None
        if not self._server.status.open:
            self.traffic.pumps.drop(self._server.status.fd)

    def _on_signal(self, _events: int) -> None:
        for number in os.read(self._wake, 64):
            if number in SIGNALS:
                self.shutdown.signalled(number, self._clock())

    def _wait(self, now: float) -> float | None:
        way_out = self.traffic.way_out
        due = (
            self._interposer.deadline(),
            self._startup.deadline(now),
            self.shutdown.deadline(now),
            way_out.deadline() if way_out is not None else None,
        )
        waits = [moment - now for moment in due if moment is not None]
        return max(0.0, min(waits)) if waits else None

    def _on_time(self, now: float) -> None:
        if self._startup.ended(now):
            self.traffic.drain_records()
            self._calls.end_startup()
            self._settled()
            self.traffic.effects.perform(self._interposer.startup_quiet(now), now)
        if self._startup.failed and not self.shutdown.begun:
            self.traffic.fail(self._startup.failed, now)
        if self.traffic.way_out is not None:
            self.traffic.way_out.tick(now)
        deadline = self._interposer.deadline()
        if deadline is not None and deadline <= now:
            self.traffic.drain_records()
            self.traffic.effects.perform(self._interposer.tick(now), now)
        if self.shutdown.begun:
            steps = self.shutdown.due(
                now,
                undelivered=self._server.input_open,
                unread=not self.traffic.answered and self._server.unread(),
                working=self._calls.open > 0,
            )
            for step in steps:
                self._take(step)

    def _take(self, step: Step) -> None:
        match step:
            case Step.CLOSE_INPUT:
                self.traffic.stop_reading_client()
                self.traffic.close_input()
            case Step.INTERRUPT:
                self._server.signal(signal.SIGINT)
            case Step.TERMINATE:
                self._server.signal(signal.SIGTERM)
            case Step.END_TREE:
                self._server.end_tree()
            case Step.KILL_STEM:
                self._server.kill_stem()

    def _finish(self) -> None:
        """Deliver what the dead tree left in the pipes; bounded, whatever the client does."""
        traffic, server = self.traffic, self._server
        server.end_tree()
        if not server.stem_gone(STEM_SECONDS):
            server.kill_stem()
            server.stem_gone(STEM_SECONDS)
        traffic.stop_reading_client()
        traffic.close_input()
        traffic.write()
        last = self._clock()
        while (server.reading or traffic.undelivered) and self._clock() - last < LAST_BYTES_SECONDS:
            before = (traffic.undelivered, server.reading)
            traffic.turn(LAST_BYTES_SECONDS / 10)
            traffic.write()
            if (traffic.undelivered, server.reading) != before and not self.shutdown.hurried:
                last = self._clock()
        traffic.drain_records()
        traffic.drain_stderr()
