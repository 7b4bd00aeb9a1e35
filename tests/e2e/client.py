"""A small raw MCP client over stdio: newline-delimited JSON-RPC, one thread, every wait bounded.

It shares nothing with mcpwrap or any SDK, so that bytes, order and shutdown are seen as they are.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

Message = dict[str, Any]
Handler = Callable[[Message], Message]
"""From a server's request to the `result` it is answered with."""

SECONDS = 60.0
"""The bound of every wait unless a test names its own: a cold Node start on a loaded machine takes 5 s."""
GRACE_SECONDS = 5.0
"""How long a closed session's process may take to leave before it is killed."""
CHUNK = 1 << 20


class SessionEnded(Exception):
    """The process closed its stdout before it answered; the text ends with its stderr."""


class Late(Exception):
    """No answer within the bound; the text ends with the process's stderr."""


def _roots(_: Message) -> Message:
    return {"roots": []}


def _sampling(_: Message) -> Message:
    content = {"type": "text", "text": "sampled"}
    return {"role": "assistant", "content": content, "model": "none", "stopReason": "endTurn"}


def _elicitation(_: Message) -> Message:
    return {"action": "decline"}


class Session:
    """One running server, wrapped or bare.

    `lines`: every line of its stdout as bytes. `noise`: those that are no JSON-RPC object.
    `notifications` and `asked`: what the server sent on its own, in order.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | str,
        stderr: Path | None = None,
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        self.started = time.monotonic()
        self._stderr_path = stderr
        with open(stderr, "wb") if stderr else contextlib.nullcontext(subprocess.DEVNULL) as err:
            self.process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                env=dict(env),
                cwd=cwd,
                bufsize=0,
                start_new_session=True,
            )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._stdin = self.process.stdin.fileno()
        self._stdout = self.process.stdout.fileno()
        os.set_blocking(self._stdin, False)
        os.set_blocking(self._stdout, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._stdout, selectors.EVENT_READ)
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._next_id = 0
        self.handlers: dict[str, Handler] = {
            "roots/list": _roots,
            "sampling/createMessage": _sampling,
            "elicitation/create": _elicitation,
            **(handlers or {}),
        }
        self.answers: dict[int | str, Message] = {}
        self.arrived: dict[int | str, float] = {}
        self.lines: list[bytes] = []
        self.noise: list[bytes] = []
        self.notifications: list[Message] = []
        self.asked: list[Message] = []
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Talking

    def initialize(self, version: str = "2025-06-18", seconds: float = SECONDS) -> Message:
        """Do the handshake and return the server's result."""
        capabilities: Message = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}
        params = {
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": {"name": "raw", "version": "1"},
        }
        result: Message = self.answer(self.request("initialize", params), seconds)["result"]
        self.notify("notifications/initialized")
        return result

    def request(self, method: str, params: Message | None = None) -> int:
        """Send a request and return its id at once."""
        self._next_id += 1
        message: Message = {"jsonrpc": "2.0", "id": self._next_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        return self._next_id

    def start_call(self, tool: str, arguments: Message | None = None, **extra: Any) -> int:
        """Send a `tools/call` and return its id at once."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **extra})

    def call(self, tool: str, arguments: Message | None = None, seconds: float = SECONDS) -> Message:
        """Call a tool and return the whole answer (`result` or `error`)."""
        return self.answer(self.start_call(tool, arguments), seconds)

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        message: Message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def send(self, message: Message) -> None:
        """Send one message as a line."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._outgoing += data
        self._pump(0)

    def answer(self, request_id: int | str, seconds: float = SECONDS) -> Message:
        """Wait for the answer to `request_id`. Raises `Late` or `SessionEnded`."""
        self.until(lambda: request_id in self.answers, seconds, f"an answer to {request_id!r}")
        return self.answers[request_id]

    def until(self, ready: Callable[[], bool], seconds: float = SECONDS, what: str = "it") -> None:
        """Pump both directions until `ready()`. Raises `Late` or `SessionEnded`."""
        deadline = time.monotonic() + seconds
        while not ready():
            left = deadline - time.monotonic()
            if self.ended:
                raise SessionEnded(f"ended before {what}: {self.stderr()[-2000:]}")
            if left <= 0:
                raise Late(f"no {what} within {seconds} s: {self.stderr()[-2000:]}")
            self._pump(left)

    # Ending

    def close_stdin(self) -> None:
        """Flush what is queued (bounded) and close the process's stdin."""
        deadline = time.monotonic() + GRACE_SECONDS
        while self._outgoing and not self.ended and time.monotonic() < deadline:
            self._pump(0.1)
        if self.process.stdin is not None and not self.process.stdin.closed:
            self._write_interest(False)
            self.process.stdin.close()
        self._outgoing.clear()

    def wait(self, seconds: float = GRACE_SECONDS) -> int | None:
        """Drain stdout until the process left; return its status, None if it has not within the bound."""
        deadline = time.monotonic() + seconds
        while not self.ended and time.monotonic() < deadline:
            self._pump(deadline - time.monotonic())
        try:
            return self.process.wait(max(0.01, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def close(self) -> int | None:
        """End the session as the SDKs do: EOF, then TERM, then KILL; return the status."""
        self.close_stdin()
        status = self.wait()
        for number in (signal.SIGTERM, signal.SIGKILL):
            if status is not None:
                break
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            status = self.wait()
        self._selector.close()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return status

    def stderr(self) -> str:
        """Return what the process has written to stderr so far."""
        return self._stderr_path.read_text(errors="replace") if self._stderr_path else ""

    # Moving bytes

    def _write_interest(self, wanted: bool) -> None:
        registered = self._stdin in self._selector.get_map()
        if wanted and not registered:
            self._selector.register(self._stdin, selectors.EVENT_WRITE)
        elif registered and not wanted:
            self._selector.unregister(self._stdin)

    def _pump(self, seconds: float) -> None:
        """Move what can be moved, waiting at most `seconds` for the first byte."""
        self._write_interest(bool(self._outgoing))
        for key, _ in self._selector.select(seconds):
            if key.fd == self._stdin:
                self._write()
            else:
                self._read()

    def _write(self) -> None:
        try:
            sent = os.write(self._stdin, self._outgoing[:CHUNK])
        except BlockingIOError:
            return
        except BrokenPipeError:
            sent = len(self._outgoing)
        del self._outgoing[:sent]

    def _read(self) -> None:
        try:
            data = os.read(self._stdout, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.ended = True
            self._selector.unregister(self._stdout)
            if self._incoming:
                self.noise.append(bytes(self._incoming))
            return
        scanned = len(self._incoming)
        self._incoming += data
        if self._incoming.find(b"\n", scanned) < 0:
            return
        *lines, rest = self._incoming.split(b"\n")
        self._incoming = bytearray(rest)
        for line in lines:
            self._line(bytes(line))

    def _line(self, line: bytes) -> None:
        self.lines.append(line)
        try:
            message = json.loads(line)
        except ValueError:
            self.noise.append(line)
            return
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.noise.append(line)
        elif "method" not in message:
            self.answers[message.get("id")] = message  # type: ignore[index]
            self.arrived[message.get("id")] = time.monotonic()  # type: ignore[index]
        elif "id" not in message:
            self.notifications.append(message)
        else:
            self.asked.append(message)
            handler = self.handlers.get(message["method"])
            reply: Message = {"jsonrpc": "2.0", "id": message["id"]}
            if handler:
                reply["result"] = handler(message)
            else:
                reply["error"] = {"code": -32601, "message": "not here"}
            self.send(reply)


def text(answer: Message) -> str:
    """Return all an answer says to a model: its text blocks, or the error's message."""
    if "error" in answer:
        return str(answer["error"].get("message", ""))
    blocks = answer.get("result", {}).get("content", [])
    return "\n".join(block["text"] for block in blocks if block.get("type") == "text")


def failed(answer: Message) -> bool:
    """Tell whether an answer is a JSON-RPC error or a result marked `isError`."""
    return "error" in answer or bool(answer.get("result", {}).get("isError"))
