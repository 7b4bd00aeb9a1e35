"""Runs the real relay, with a stand-in for the sandbox and for the policy, as a process of its own.

`python driver.py [OPTIONS] -- COMMAND…` behaves as `mcpwrap -- COMMAND…` does on its three streams.
`--log FILE`: what the calls object was told, one JSON array a line. `--startup`: calls are held until
start-up is over. `--refuse TOOL`: its windows cannot be opened. `--full TOOL`: the disk is full when its
window closes.
"""

from __future__ import annotations

import argparse
import errno
import json
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

from mcpwrap.broker.verdict import decode
from mcpwrap.operation import Denial, Event
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.protocol.terms import Terms
from mcpwrap.protocol.window import Window
from mcpwrap.relay.client import Client
from mcpwrap.relay.relay import SIGNALS, Relay
from mcpwrap.relay.server import Server
from mcpwrap.relay.startup import StartupWatch
from mcpwrap.relay.stderr import ErrorOutput
from mcpwrap.relay.streams import client_sink

STEM = Path(__file__).with_name("stem.py")


class Child:
    def __init__(self, command: list[str]) -> None:
        (i0, i1), (o0, o1), (e0, e1), (r0, r1), (s0, s1), (l0, l1) = (os.pipe() for _ in range(6))
        theirs = [i0, o1, e1, r1, s1, l0]
        stem = subprocess.Popen(
            [sys.executable, "-I", str(STEM), *map(str, theirs), "--", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=theirs,
            start_new_session=True,
        )
        for fd in theirs:
            os.close(fd)
        self.process = stem
        self.freeze = -1
        self.network = -1
        self.pid = stem.pid
        self.pidfd = os.pidfd_open(stem.pid)
        self.stdin, self.stdout, self.stderr, self.records, self.status, self.life = i1, o0, e0, r0, s0, l1


class Calls:
    def __init__(self, log: str, refuse: str, full: str) -> None:
        self._log = open(log, "ab", buffering=0) if log else None  # noqa: SIM115
        self._refuse, self._full = refuse, full
        self.interposer: Interposer
        self.windows: set[str] = set()

    @property
    def open(self) -> int:
        return len(self.windows)

    def log(self, *words: object) -> None:
        if self._log:
            self._log.write(json.dumps(words).encode() + b"\n")

    def open_window(self, window: Window) -> str:
        self.log("opened", window.id, window.tool)
        if window.tool == self._refuse:
            return "no room on the page"
        self.windows.add(window.id)
        return ""

    def close_window(self, window: Window, how: str, denials: tuple[Denial, ...], now: float) -> None:
        self.windows.discard(window.id)
        self.log("closed", window.id, how, [each.object for each in denials], now >= window.opened)
        if window.tool == self._full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end_startup(self) -> None:
        self.log("startup ended")

    def event(self, event: Event) -> None:
        self.log("event", event.operation.object, event.windows)
        if not event.decision.allowed:
            operation = event.operation
            denial = Denial(
                operation.act, operation.object, event.decision.rule, ("t",), f"refused {operation.object}"
            )
            self.interposer.denied(event.windows, denial)


class Journal:
    def note(self, kind: str, text: str, fields: object) -> None:
        pass


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--log", default="")
    parser.add_argument("--refuse", default="")
    parser.add_argument("--full", default="")
    parser.add_argument("--startup", action="store_true")
    parser.add_argument("--max-line", type=int, default=16 << 20)
    parser.add_argument("command", nargs="*")
    options = parser.parse_args()
    child = Child(options.command)
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for number in SIGNALS:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    calls = Calls(options.log, options.refuse, options.full)
    interposer = Interposer(
        overlap="auto",
        terms=Terms(unknown="allow"),
        lookups=lambda _: (),
        max_line=options.max_line,
        startup=options.startup,
    )
    calls.interposer = interposer
    server = Server(child)
    output = ErrorOutput(client_sink(2))
    relay = Relay(
        interposer,
        calls,  # type: ignore[arg-type]
        Client(),
        server,
        StartupWatch(memoryview(mmap.mmap(-1, 8))),
        Journal(),  # type: ignore[arg-type]
        output,
        decode=decode,
        started=lambda: calls.log("started"),
        wake=reader,
    )
    relay.run()
    calls.log("ended", relay.shutdown.reason, server.told.exit_status)
    child.process.returncode = 0
    if relay.traffic.fault:
        return 125
    return 125 if server.told.exit_status is None else server.told.exit_status


if __name__ == "__main__":
    sys.exit(main())
