"""Both directions of one run: what is read from whom, in which order, and when it is not.

The server's bytes are read first, then the broker's records: a record is written before the system call
it is about returns, so whatever led to these bytes is in the pipe by then. Only then are they judged.

The two directions wait for each other nowhere: each stops reading its source when its own sink is full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mcpwrap.relay.effects import Effects
from mcpwrap.relay.pumps import BROKEN, READABLE, WRITABLE, Pumps

if TYPE_CHECKING:
    from mcpwrap.operation import Event
    from mcpwrap.protocol.interposer import Interposer
    from mcpwrap.relay.calls import OpenCalls
    from mcpwrap.relay.client import Client
    from mcpwrap.relay.journal import Journal
    from mcpwrap.relay.server import Server
    from mcpwrap.relay.shutdown import Shutdown
    from mcpwrap.relay.startup import StartupWatch
    from mcpwrap.relay.stderr import ErrorOutput
    from mcpwrap.relay.wayout import WayOut

HIGH_WATER: Final = 1024 * 1024
"""A direction's source is not read while so many bytes wait for its sink."""
REPLY_LIMIT: Final = 64 * 1024 * 1024
"""A client that does not read, and sends what mcpwrap itself answers, is no longer read beyond this.
The server's own answers stay far below: reading them stops at `HIGH_WATER`."""


class Traffic:
    """Everything that flows. `answered`: the server said something on stdout. `fault`: what cannot go on."""

    def __init__(
        self,
        interposer: Interposer,
        calls: OpenCalls,
        client: Client,
        server: Server,
        startup: StartupWatch,
        shutdown: Shutdown,
        journal: Journal,
        output: ErrorOutput,
        *,
        decode: Callable[[bytes], Event],
        clock: Callable[[], float],
    ) -> None:
        self.pumps = Pumps()
        self.way_out: WayOut | None = None
        self.answered = False
        self.fault = ""
        self._interposer = interposer
        self._calls = calls
        self._client = client
        self._server = server
        self._shutdown = shutdown
        self._output = output
        self._decode = decode
        self._clock = clock
        self._hearing_client = False
        self._input_ending = False
        self._client_lost = False
        self._waited = (0, 0, 0)
        self.effects = Effects(
            interposer,
            calls,
            startup,
            journal,
            output,
            forward=server.send,
            reply=client.send,
            end_input=self._end_input,
            failed=self._failed,
        )

    def begin(self) -> None:
        """Watch every stream."""
        pumps, client, server = self.pumps, self._client, self._server
        pumps.add(server.errors.fd, READABLE, self._on_stderr, rank=1)
        pumps.add(server.records.fd, READABLE, self._on_records, rank=2)
        pumps.add(server.output.fd, READABLE, self._on_server, rank=3)
        pumps.add(server.input_fd, 0, self._on_input, rank=4)
        pumps.add(client.input_fd, READABLE, self._on_client, rank=4)
        pumps.add(client.output_fd, 0, self._on_output, rank=4)
        if self._output.fd is not None:
            pumps.add(self._output.fd, 0, self._on_own_stderr, rank=4)
        self._on_client(READABLE)  # A named FIFO whose writer has left already is never reported.

    def turn(self, seconds: float | None) -> None:
        """Write what is to be written, wait for what happens next, at most `seconds`, and handle it."""
        client, server = self._client, self._server
        self.write()
        if not client.open and server.reading and not self._client_lost:
            self._client_lost = True
            self.pumps.drop(client.output_fd)
            self._shutdown.client_gone(self._clock())
            return  # There is a deadline now that `seconds` does not know of.
        waiting = (server.waiting, client.waiting, self._output.waiting)
        if waiting != self._waited:
            self._waited = waiting
            self._look_at_room(*waiting)
        self.pumps.turn(seconds)

    def write(self) -> None:
        """Write what waits for either side, as far as it is taken now.

        The last thing before each wait, and only then: whoever is woken by it runs on this very processor,
        which is warm and just becoming idle. While we went on, another one would be woken for it (50 µs).
        """
        client, server = self._client, self._server
        if server.waiting and not server.flush():
            self._server_closed_input()
        if self._input_ending and not server.waiting:
            self._input_ending = False
            self.close_input()
        if client.waiting:
            client.flush()
        if not server.reading:
            self._close_client_if_done()

    def _look_at_room(self, to_server: int, to_client: int, to_stderr: int) -> None:
        """Watch each stream for what can be done with it now, given the bytes that wait for each sink."""
        pumps, client, server = self.pumps, self._client, self._server
        room = to_server < HIGH_WATER and to_client < REPLY_LIMIT
        pumps.want(client.input_fd, READABLE if room else 0)
        pumps.want(server.output.fd, READABLE if to_client < HIGH_WATER else 0)
        pumps.want(server.input_fd, WRITABLE if to_server else 0)
        pumps.want(client.output_fd, WRITABLE if to_client else 0)
        if self._output.fd is not None:
            pumps.want(self._output.fd, WRITABLE if to_stderr else 0)

    @property
    def undelivered(self) -> int:
        """Bytes that wait to be taken by the client or by whoever reads our stderr."""
        return self._client.waiting + self._output.waiting

    def drain_records(self) -> None:
        """Take in every record that has been written by now, and every connection that was made."""
        for line in self._server.records.lines():
            self._calls.event(self._decode(line))
        if self.way_out is not None:
            self.way_out.hear()

    def drain_stderr(self) -> None:
        """Take in what is left of the server's stderr, as far as it is there now."""
        while data := self._server.errors.read():
            self._output.server(data)

    def stop_reading_client(self) -> None:
        self._client.reading = False
        self.pumps.drop(self._client.input_fd)

    def close_input(self) -> None:
        """Give the server the end of its input now, whatever it does not take at once."""
        self.pumps.drop(self._server.input_fd)
        self._server.close_input(read=self._server.flush())

    def fail(self, text: str, now: float) -> None:
        """Say why the run cannot go on, and end it."""
        self.fault = text
        self._output.say(text)
        self._stop_reading_server()
        self._shutdown.fail(text, now)

    # What became readable or writable.

    def _on_client(self, _events: int) -> None:
        data = self._client.read()
        if data is None:
            return
        now = self._clock()
        self._hearing_client = True
        if data and self._server.input_open:
            self.effects.perform(self._interposer.from_client(data, now), now)
        else:
            self._client_ended(now)
            if data:
                # The server reads no more: the client finds out as it would without us, and is done.
                self._client.close_input()
        self._hearing_client = False

    def _on_server(self, _events: int) -> None:
        data = self._server.output.read()
        if data is None:
            return
        self.drain_records()
        now = self._clock()
        if data:
            self.answered = True
            self.effects.perform(self._interposer.from_server(data, now), now)
            return
        self._stop_reading_server()
        self.effects.perform(self._interposer.server_eof(now), now)

    def _on_records(self, _events: int) -> None:
        self.drain_records()
        if not self._server.records.open:
            self.pumps.drop(self._server.records.fd)

    def _on_stderr(self, _events: int) -> None:
        data = self._server.errors.read()
        if data:
            self._output.server(data)
        elif data is not None:
            self.pumps.drop(self._server.errors.fd)

    def _on_input(self, events: int) -> None:
        if events & BROKEN:
            self._server_closed_input()

    def _on_output(self, events: int) -> None:
        if events & BROKEN:
            self._client.gone()

    def _on_own_stderr(self, events: int) -> None:
        fd = self._output.fd
        self._output.flush()
        if fd is not None and (events & BROKEN or self._output.fd is None):
            self.pumps.drop(fd)

    # What follows from it.

    def _client_ended(self, now: float) -> None:
        self.stop_reading_client()
        self._shutdown.client_eof(now)
        self.effects.perform(self._interposer.client_eof(now), now)

    def _failed(self, text: str, now: float) -> None:
        if self._hearing_client:
            self.fault = text
            self._output.say(text)
            # What came before is still delivered, and answered.
            self._client_ended(now)
        else:
            self.fail(text, now)

    def _end_input(self) -> None:
        self._input_ending = True

    def _server_closed_input(self) -> None:
        # The client is still watched: its end ends the run, whatever the server has closed.
        self.pumps.drop(self._server.input_fd)
        self._server.close_input(read=False)

    def _stop_reading_server(self) -> None:
        self._server.reading = False
        self.pumps.drop(self._server.output.fd)

    def _close_client_if_done(self) -> None:
        if not self._server.reading and not self._client.waiting and self._client.open:
            self.pumps.drop(self._client.output_fd)
            self._client.close_output()
