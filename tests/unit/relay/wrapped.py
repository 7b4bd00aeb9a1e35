"""A server behind the real relay (see driver.py), with raw pipes to it; every wait is bounded."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Self

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("driver.py")
SECONDS = 30.0
RUN = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
del sys.argv[:2]
runpy.run_path(sys.argv[0], run_name="__main__")
"""

ECHO = """
import json, sys
for line in sys.stdin.buffer:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = {"content": [{"type": "text", "text": json.dumps(message.get("params"))}]}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\\n")
        sys.stdout.buffer.flush()
"""
"""Answers every request with its params."""


def request(id: object, method: str = "tools/call", **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def call(id: object, tool: str = "t", **arguments: Any) -> bytes:
    return request(id, name=tool, arguments=arguments)


INITIALIZE = request(0, "initialize")


class Wrapped:
    """One run. `stdin`, `stdout`: descriptors or files to use instead of pipes."""

    def __init__(
        self,
        server: str | list[str],
        *options: str,
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] = subprocess.PIPE,
        mode: str = "normal",
        tmp: Path | None = None,
    ) -> None:
        command = [sys.executable, "-I", "-u", "-c", server] if isinstance(server, str) else server
        self.log = tmp / "log" if tmp else None
        if self.log:
            options = ("--log", str(self.log), *options)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-c", RUN, str(ROOT), str(DRIVER), *options, "--", *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env={**os.environ, "MODE": mode},
        )
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass

    def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send_all(self, lines: list[bytes]) -> None:
        """Send every line, then the end."""
        for line in lines:
            self.send(line)
        self.end()

    def end(self) -> None:
        """Close the client's end of stdin."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def read(self, size: int) -> bytes:
        """Return what is there, at most `size` bytes; nothing at the end. Fails after `SECONDS`."""
        assert self.process.stdout is not None
        fd = self.process.stdout.fileno()
        ready, _, _ = select.select([fd], [], [], SECONDS)
        assert ready, "the relay wrote nothing in time"
        return os.read(fd, size)

    def line(self) -> bytes:
        """Return the next line, or what is left before the end."""
        while b"\n" not in self._buffer:
            data = self.read(1 << 20)
            if not data:
                rest, self._buffer = self._buffer, b""
                return rest
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def message(self) -> Any:
        return json.loads(self.line())

    def rest(self) -> bytes:
        """Return everything up to the end."""
        parts = [self._buffer]
        while data := self.read(1 << 20):
            parts.append(data)
        return b"".join(parts)

    def errors(self) -> str:
        """Return all of stderr; the run must be ending."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def wait(self, seconds: float = SECONDS) -> int:
        return self.process.wait(seconds)

    def told(self) -> list[list[Any]]:
        assert self.log is not None
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def until_told(self, word: str) -> list[Any]:
        """Wait until the calls object was told `word`, and return the entry."""
        limit = time.monotonic() + SECONDS
        while time.monotonic() < limit:
            for entry in self.told():
                if entry[0] == word:
                    return entry
            select.select([], [], [], 0.01)
        raise AssertionError(f"never told {word!r}")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False


def gone_within(pid: int, seconds: float) -> bool:
    limit = time.monotonic() + seconds
    while alive(pid):
        if time.monotonic() > limit:
            return False
        select.select([], [], [], 0.01)
    return True
