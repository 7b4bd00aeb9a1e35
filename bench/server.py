"""A small MCP server to measure through: standard library, one thread for each call.

Tools: `echo` (returns its text), `sleep`, `opens` (opens and closes a file again and again, and returns the
nanoseconds of each), `search` (runs ripgrep over a directory, and returns seconds and matches).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

_lock = threading.Lock()


def _send(message: dict[str, Any]) -> None:
    data = json.dumps(message).encode() + b"\n"
    with _lock:
        while data:
            data = data[os.write(1, data) :]


def _opens(path: str, count: int) -> str:
    spent = []
    for _ in range(count):
        start = time.perf_counter_ns()
        os.close(os.open(path, os.O_RDONLY))
        spent.append(time.perf_counter_ns() - start)
    spent.sort()
    return str(spent[len(spent) // 2])


def _search(program: str, path: str) -> str:
    start = time.perf_counter()
    done = subprocess.run([program, "-c", "needle", path], capture_output=True, text=True, check=False)
    return f"{time.perf_counter() - start} {len(done.stdout.splitlines())}"


def _do(name: str, given: dict[str, Any]) -> str:
    if name == "echo":
        return str(given["text"])
    if name == "sleep":
        time.sleep(given["seconds"])
        return "slept"
    if name == "opens":
        return _opens(given["path"], given["count"])
    return _search(given["program"], given["path"])


def _call(message: dict[str, Any]) -> None:
    said = _do(message["params"]["name"], message["params"]["arguments"])
    _send({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": said}]}})


def main() -> None:
    """Serve stdin until it ends."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            result: dict[str, Any] = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"},
            }
        elif method == "tools/list":
            names = ("echo", "sleep", "opens", "search")
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        elif method == "tools/call" and message["params"]["name"] == "echo":
            _call(message)
            continue
        elif method == "tools/call":
            threading.Thread(target=_call, args=(message,), daemon=True).start()
            continue
        else:
            continue
        _send({"jsonrpc": "2.0", "id": message["id"], "result": result})


if __name__ == "__main__":
    main()
