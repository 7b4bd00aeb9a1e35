"""However a run ends, it ends soon, with the right status, and leaves no process behind."""

from __future__ import annotations

import os
import select
import signal
import time
from pathlib import Path

import pytest

from tests.unit.relay.wrapped import ECHO, INITIALIZE, SECONDS, Wrapped, call, gone_within

STUBBORN = """
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
os.write(1, b'{"jsonrpc":"2.0","method":"up","params":%d}\\n' % os.getpid())
while True: time.sleep(60)
"""
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
signal.signal(signal.SIGINT, lambda *_: os._exit(8))
os.write(1, b'{"jsonrpc":"2.0","method":"up","params":%d}\\n' % os.getpid())
while True: time.sleep(60)
"""
"""Ignores the end of its input; leaves on a signal."""


def test_the_status_is_that_of_the_server() -> None:
    with Wrapped("raise SystemExit(42)") as run:
        assert run.wait() == 42


def test_a_server_killed_by_a_signal_gives_128_and_its_number() -> None:
    with Wrapped("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)") as run:
        assert run.wait() == 128 + signal.SIGSEGV


def test_what_a_dying_server_wrote_last_is_delivered() -> None:
    head, size = b'{"jsonrpc":"2.0","method":"last","params":"', 500_000
    server = (
        f"import os\ndata = {head!r} + b'x' * {size} + b'\"}}\\n'\n"
        "while data: data = data[os.write(1, data):]\nos._exit(3)"
    )
    note = head + b"x" * size + b'"}\n'
    with Wrapped(server) as run:
        assert run.rest() == note
        assert run.wait() == 3


def test_end_of_input_reaches_the_server() -> None:
    with Wrapped(ECHO) as run:
        run.send(call(1))
        run.message()
        run.end()
        assert run.wait(2) == 0


def test_a_server_that_ignores_the_end_of_input_is_sent_sigterm_after_two_seconds() -> None:
    with Wrapped(DEAF) as run:
        run.line()
        began = time.monotonic()
        run.end()
        assert run.wait() == 7
        assert 1.9 < time.monotonic() - began < 5


def test_a_server_that_ignores_everything_is_dead_within_five_seconds() -> None:
    with Wrapped(STUBBORN) as run:
        pid = run.message()["params"]
        began = time.monotonic()
        run.end()
        assert run.wait() == 128 + signal.SIGKILL
        assert time.monotonic() - began < 5
        assert gone_within(pid, 1)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 8), (signal.SIGTERM, 7), (signal.SIGHUP, 7)])
def test_a_signal_to_us_reaches_the_server(number: signal.Signals, status: int) -> None:
    with Wrapped(DEAF) as run:
        run.line()
        began = time.monotonic()
        run.process.send_signal(number)
        assert run.wait() == status
        # Sooner than what does not end by itself is sent the next signal.
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_us_kills_a_server_that_ignores_it(number: signal.Signals) -> None:
    with Wrapped(STUBBORN) as run:
        pid = run.message()["params"]
        began = time.monotonic()
        run.process.send_signal(number)
        assert run.wait() == 128 + signal.SIGKILL
        assert time.monotonic() - began < 3
        assert gone_within(pid, 1)


def test_the_way_claude_code_ends_a_server_leaves_nothing() -> None:
    """End of input, SIGINT after 50 ms, SIGTERM after 150, SIGKILL after 520: to the launcher only."""
    with Wrapped(STUBBORN) as run:
        pid = run.message()["params"]
        run.end()
        for wait, number in ((0.05, signal.SIGINT), (0.1, signal.SIGTERM), (0.37, signal.SIGKILL)):
            time.sleep(wait)
            run.process.send_signal(number)
        run.wait()
        assert gone_within(pid, 2)


def test_sigkill_of_the_relay_leaves_nothing() -> None:
    with Wrapped(STUBBORN) as run:
        pid = run.message()["params"]
        run.process.kill()
        assert gone_within(pid, 2)


def test_a_stem_that_does_not_listen_is_killed() -> None:
    with Wrapped(STUBBORN, mode="deaf") as run:
        pid = run.message()["params"]
        began = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 125
        assert time.monotonic() - began < 5
        os.kill(pid, signal.SIGKILL)  # The stand-in makes no pid namespace: nothing else ends this one.
        assert gone_within(pid, 2)


def test_a_client_that_is_gone_ends_the_run() -> None:
    with Wrapped(DEAF) as run:
        run.line()
        assert run.process.stdin is not None
        assert run.process.stdout is not None
        run.process.stdout.close()
        assert run.wait(5) == 7


def test_a_server_that_closes_its_stdout_gives_the_client_the_end() -> None:
    with Wrapped("import os, time\nos.close(1)\ntime.sleep(60)") as run:
        assert run.rest() == b""
        assert run.process.poll() is None
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM


def test_a_server_that_closes_its_stdin_makes_the_writes_of_the_client_fail() -> None:
    server = (
        'import os, time\nos.close(0)\nos.write(1, b\'{"jsonrpc":"2.0","method":"up"}\\n\')\ntime.sleep(60)'
    )
    with Wrapped(server) as run:
        run.line()
        with pytest.raises(BrokenPipeError):
            run.send_all([INITIALIZE] * 100_000)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("sent", [b"", INITIALIZE])
def test_the_end_of_the_client_ends_a_server_that_has_closed_its_own_input(sent: bytes) -> None:
    server = DEAF.replace("os.write(1, b'", "os.close(0); os.write(1, b'", 1)
    with Wrapped(server) as run:
        run.line()
        if sent:
            run.send(sent)
        run.end()
        assert run.wait(4) == 7


def test_input_that_a_server_closed_unread_is_not_waited_for() -> None:
    closing = "import select; select.select([0], [], []); os.close(0); os.write(2, b'"
    with Wrapped(DEAF.replace("os.write(1, b'", closing, 1)) as run:
        run.send(INITIALIZE)
        assert run.process.stderr is not None
        assert select.select([run.process.stderr], [], [], SECONDS)[0]
        run.end()
        assert run.wait(4) == 7


def test_a_server_that_is_slow_to_start_reads_what_was_sent_before_the_end_of_input() -> None:
    with Wrapped("import time\ntime.sleep(4)\n" + ECHO) as run:
        run.send(INITIALIZE)
        run.end()
        assert run.message()["id"] == 0
        assert run.wait() == 0


def test_a_client_that_stops_reading_does_not_hold_up_the_end() -> None:
    server = 'import os, time\nwhile True: os.write(1, b\'{"jsonrpc":"2.0","method":"m"}\\n\' * 1000)'
    with Wrapped(server) as run:
        run.read(10)
        began = time.monotonic()
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        assert time.monotonic() - began < 4


def test_the_reason_of_the_end_is_known(tmp_path: Path) -> None:
    with Wrapped(DEAF, tmp=tmp_path) as run:
        run.line()
        run.process.send_signal(signal.SIGTERM)
        run.wait()
        assert run.until_told("ended") == ["ended", "SIGTERM", 7]
