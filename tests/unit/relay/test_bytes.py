"""Bytes pass both ways as they are, whatever their size, timing and the kind of the streams."""

from __future__ import annotations

import json
import os
import pty
import socket
import subprocess
import threading
from pathlib import Path

import pytest

from mcpwrap.limits import UNPARSABLE_LINES
from tests.unit.relay.wrapped import ECHO, INITIALIZE, SECONDS, Wrapped, call, request

MIB = 1 << 20

SCRIPT = """
import sys
sys.stdin.buffer.readline()
sys.stdout.buffer.write({data!r})
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""

COPY = """
import os, sys
while data := os.read(0, 65536):
    os.write(2, data)
"""

BIG_ANSWER = """
import sys
for line in sys.stdin.buffer:
    sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":1,"result":"' + b"x" * (%d) + b'"}\\n')
    sys.stdout.buffer.flush()
"""


def test_what_the_server_writes_arrives_byte_for_byte() -> None:
    data = (
        b'{"jsonrpc": "2.0", "id" : 0,"result":{"z":1.0,"a":NaN,"u":"\\u00e9\\u2028"}}\n'
        b'{"jsonrpc":"2.0","method":"notifications/x","params":{"text":"\xe2\x80\xa8\xc3\xa9"}}\r\n'
    )
    with Wrapped(SCRIPT.format(data=data)) as run:
        run.send(INITIALIZE)
        run.end()
        assert run.rest() == data


def test_what_the_client_writes_arrives_byte_for_byte() -> None:
    data = b'{"jsonrpc":"2.0",  "id":"\\u00e9","method":"x/y","params":{"k":1.0,"n":1e400}}\n' + request(
        2, "ping"
    )
    with Wrapped(COPY) as run:
        run.send(data)
        run.end()
        assert run.errors().encode() == data


def test_a_line_of_sixteen_mebibytes_passes_to_the_server_and_back() -> None:
    text = "x" * (15 * MIB)
    with Wrapped(ECHO) as run:
        writer = threading.Thread(target=run.send, args=(call(1, text=text),))
        writer.start()
        answer = run.message()
        writer.join(SECONDS)
        assert json.loads(answer["result"]["content"][0]["text"])["arguments"]["text"] == text


def test_a_line_that_arrives_byte_by_byte_is_one_message() -> None:
    with Wrapped(ECHO) as run:
        for byte in call(1, a="b"):
            run.send(bytes([byte]))
        assert run.message()["id"] == 1


def test_both_sides_may_write_at_once_without_reading() -> None:
    """The server answers megabytes before it reads on; the client writes megabytes before it reads."""
    server = """
import os, threading
def write():
    note = b'{"jsonrpc":"2.0","method":"notifications/m","params":{"d":"' + b"s" * 100000 + b'"}}\\n'
    for _ in range(80):
        data = note
        while data: data = data[os.write(1, data):]
thread = threading.Thread(target=write)
thread.start()
thread.join()
total = 0
while data := os.read(0, 1 << 20): total += len(data)
os.write(1, b'{"jsonrpc":"2.0","method":"notifications/total","params":%d}\\n' % total)
"""
    note = b'{"jsonrpc":"2.0","method":"notifications/c","params":{"d":"' + b"c" * 100_000 + b'"}}\n'
    with Wrapped(server) as run:
        writer = threading.Thread(target=run.send_all, args=([note] * 80,))
        writer.start()
        # Nothing is read until all of this is written or stuck: 8 MB against buffers of about 2.
        writer.join(0.5)
        received = run.rest()
        writer.join(SECONDS)
        assert received.count(b"\n") == 81
        assert json.loads(received.splitlines()[-1])["params"] == 80 * len(note)


def test_a_client_that_does_not_read_stops_the_server_and_not_the_memory() -> None:
    server = """
import sys
note = b'{"jsonrpc":"2.0","method":"notifications/m","params":{"d":"' + b"s" * 100000 + b'"}}\\n'
for n in range(2000):
    sys.stdout.buffer.write(note)
    sys.stderr.write(f"{n}\\n")
"""
    with Wrapped(server, stderr=subprocess.DEVNULL) as run:
        run.read(1)
        threading.Event().wait(1.0)
        held = int(Path(f"/proc/{run.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert held < 100 * MIB
        assert len(run.rest()) > 190 * MIB


def test_noise_on_stdout_goes_to_stderr_and_nothing_else_to_stdout() -> None:
    data = b'Welcome!\n{"jsonrpc":"2.0","id":0,"result":{}}\n42\n\x00\x00noise\n'
    with Wrapped(SCRIPT.format(data=data)) as run:
        run.send(INITIALIZE)
        run.end()
        assert run.rest() == b'{"jsonrpc":"2.0","id":0,"result":{}}\n'
        said = run.errors()
        assert "Welcome!\n" in said
        assert "42\n" in said
        assert "\x00\x00noise\n" in said


def test_a_line_without_end_is_a_named_error_and_what_came_before_is_delivered() -> None:
    with Wrapped(ECHO, "--max-line", "10000") as run:
        run.send(call(1, a="b") + b'{"x":"' + b"y" * 20_000)
        assert run.message()["id"] == 1
        assert run.wait() == 125
        assert "10000 bytes" in run.errors()


def test_a_flood_of_what_is_no_json_is_a_named_error_and_what_came_before_is_delivered() -> None:
    with Wrapped(ECHO) as run:
        run.send(call(1, a="b") + b"x\n" * 100_000)
        messages = [json.loads(line) for line in run.rest().splitlines()]
        assert sum("error" in message for message in messages) == UNPARSABLE_LINES + 1
        assert [message["id"] for message in messages if "result" in message] == [1]
        assert run.wait() == 125
        assert "lines in a row that are not JSON" in run.errors()


def test_a_line_without_end_from_the_server_ends_it() -> None:
    server = 'import os\nos.write(1, b\'{"jsonrpc":"2.0","method":"a"}\\n\')\nwhile True: os.write(1, b\'x\' * 65536)'
    with Wrapped(server, "--max-line", "100000") as run:
        assert run.rest() == b'{"jsonrpc":"2.0","method":"a"}\n'
        assert run.wait() == 125
        assert "the server sent a line" in run.errors()


def test_sockets_serve_as_the_client_streams_and_stay_blocking() -> None:
    ours_in, theirs_in = socket.socketpair()
    ours_out, theirs_out = socket.socketpair()
    with ours_in, ours_out, Wrapped(ECHO, stdin=theirs_in.fileno(), stdout=theirs_out.fileno()) as run:
        ours_out.settimeout(SECONDS)
        ours_in.sendall(call(1, a="x" * 300_000))
        received = b""
        while not received.endswith(b"\n"):
            received += ours_out.recv(1 << 20)
        assert json.loads(received)["id"] == 1
        assert os.get_blocking(theirs_in.fileno())
        assert os.get_blocking(theirs_out.fileno())
        theirs_in.close()
        theirs_out.close()
        ours_in.shutdown(socket.SHUT_WR)
        assert run.wait() == 0
        assert ours_out.recv(1) == b""


def test_pipes_of_the_client_stay_blocking() -> None:
    reader, writer = os.pipe()
    out_reader, out_writer = os.pipe()
    with Wrapped(ECHO, stdin=reader, stdout=out_writer) as run:
        os.write(writer, call(1))
        assert json.loads(os.read(out_reader, 65536))["id"] == 1
        assert os.get_blocking(reader)
        assert os.get_blocking(out_writer)
        for fd in (writer, out_writer):
            os.close(fd)
        assert run.wait() == 0
    for fd in (reader, out_reader):
        os.close(fd)


def test_files_serve_as_the_client_streams(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(call(1, a="b") + call(2, a="x" * 200_000))
    source, sink = (tmp_path / "in").open("rb"), (tmp_path / "out").open("wb")
    with source, sink, Wrapped(ECHO, stdin=source, stdout=sink) as run:
        assert run.wait() == 0
    assert [json.loads(line)["id"] for line in (tmp_path / "out").read_bytes().splitlines()] == [1, 2]


def test_a_named_fifo_whose_writer_has_left_is_an_end_of_input(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in")
    writer = os.open(tmp_path / "in", os.O_RDWR)
    reader = os.open(tmp_path / "in", os.O_RDONLY)
    os.close(writer)
    with Wrapped(ECHO, stdin=reader) as run:
        os.close(reader)
        assert run.wait() == 0


def test_a_terminal_serves_as_the_client_stream() -> None:
    ours, theirs = pty.openpty()
    with Wrapped(ECHO, stdin=theirs) as run:
        os.write(ours, call(1))
        assert run.message()["id"] == 1
        assert os.get_blocking(theirs)
        os.write(ours, b"\x04")
        assert run.wait() == 0
    os.close(ours)
    os.close(theirs)


def test_stderr_is_live() -> None:
    server = "import sys\nsys.stderr.write('hello\\n')\nsys.stdin.read()"
    with Wrapped(server) as run:
        assert run.process.stderr is not None
        assert run.process.stderr.readline() == b"hello\n"
        run.end()
        assert run.wait() == 0


def test_a_client_that_does_not_read_stderr_does_not_stop_the_server() -> None:
    server = "import sys\nsys.stderr.write(('x' * 999 + '\\n') * 5_000)\n" + ECHO
    with Wrapped(server) as run:
        run.send(call(1))
        assert run.message()["id"] == 1
        run.end()
        assert "bytes of stderr were not read in time" in run.errors()
        assert run.wait() == 0


@pytest.mark.parametrize("count", [3_000])
def test_a_flood_of_calls_is_answered_in_full_and_in_order(count: int) -> None:
    with Wrapped(ECHO) as run:
        writer = threading.Thread(target=run.send_all, args=([call(n) for n in range(count)],))
        writer.start()
        ids = [json.loads(line)["id"] for line in run.rest().splitlines()]
        writer.join(SECONDS)
        assert ids == list(range(count))
