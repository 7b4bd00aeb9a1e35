"""What a connection costs: made and used inside a private internet, bare and behind mcpwrap."""

from __future__ import annotations

import json
import socket
import sys
import time
from pathlib import Path

from bench.measures import Figures, in_turns
from tests.e2e.client import Session, text
from tests.e2e.corpus import Bench, mcpwrap
from tests.e2e.internet import PUBLIC, Internet

SERVER = Path(__file__).resolve().parents[1] / "tests" / "e2e" / "fetcher.py"
GRANT = f"""schema = 1
[tools.use]
net = ["*.example.com:1000", "*.example.com:2000", "*.example.com:3000", "{PUBLIC}:1000"]
"""
NUMBERED = "h{}.example.com"
NAMES = 1000
BULK_BYTES = 512 * 1024 * 1024
LINK_BYTES = 1_250_000_000
"""A second: a link of 10 Gbit/s. Without one, the memory of this machine is what is measured."""


def handshakes(place: Bench, rounds: int, count: int) -> Figures:
    """Milliseconds of connect(2) alone."""
    return _measure(place, rounds, do="handshakes", host=PUBLIC, port=1000, count=count)


def first_connects(place: Bench, rounds: int, count: int) -> Figures:
    """Milliseconds from a look-up to the host's first byte, each time by a name that was not used before."""
    return _measure(place, rounds, do="connects", host=NUMBERED, port=1000, count=count)


def connects(place: Bench, rounds: int, count: int) -> Figures:
    """The same by one name, one connection after the other."""
    return _measure(place, rounds, do="connects", host=NUMBERED.format(0), port=1000, count=count)


def bulk(place: Bench, rounds: int) -> Figures:
    """MB/s from a host to the server over one connection."""
    return _measure(place, rounds, do="speed", host=NUMBERED.format(0), port=2000)


def paced(place: Bench, rounds: int) -> Figures:
    """The same from a host behind a link of `LINK_BYTES` a second."""
    return _measure(place, rounds, do="speed", host=NUMBERED.format(0), port=3000)


def _measure(place: Bench, rounds: int, **arguments: object) -> Figures:
    grant = place.work / "network.toml"
    grant.write_text(GRANT)
    grant.chmod(0o600)
    command = [sys.executable, "-I", "-B", str(SERVER), json.dumps(["use"])]
    with Internet({NUMBERED.format(number): [PUBLIC] for number in range(NAMES)}) as internet:
        internet.serve(PUBLIC, 1000, _greet)
        internet.serve(PUBLIC, 2000, _pour)
        internet.serve(PUBLIC, 3000, _pour_paced)
        commands = {
            "bare": internet.command(*command),
            "mcpwrap": internet.command(*mcpwrap(), "--grant", str(grant), "--", *command),
        }

        def once(command: list[str]) -> float:
            with Session(command, env=place.env, cwd=place.work / "data") as session:
                session.initialize()
                session.answer(session.request("tools/list"))
                return float(text(session.call("use", dict(arguments))))

        return in_turns(commands, rounds, once)


def _greet(connection: socket.socket) -> None:
    connection.sendall(b".")
    connection.recv(1)


def _pour(connection: socket.socket) -> None:
    piece = bytes(1 << 20)
    for _ in range(BULK_BYTES // len(piece)):
        connection.sendall(piece)


def _pour_paced(connection: socket.socket) -> None:
    piece = bytes(256 * 1024)
    begin = time.monotonic()
    for number in range(BULK_BYTES // len(piece)):
        ahead = begin + number * len(piece) / LINK_BYTES - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        connection.sendall(piece)
