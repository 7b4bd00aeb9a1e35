"""A small MCP server that uses the network as its arguments say: one thread, connections kept between calls.

Tools take whatever name the grant under test gives them; what is done is the argument `do`.
"""

from __future__ import annotations

import json
import socket
import ssl
import statistics
import sys
import time
import urllib.request
from typing import Any

kept: dict[str, socket.socket] = {}


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read(), "utf-8")


def connect(host: str, port: int, keep: str = "", send: str = "", sni: str = "") -> str:
    """Connect, perhaps as TLS for `sni`; send a line and return what comes back."""
    made: socket.socket = socket.create_connection((host, port), 20)
    if sni:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        made = context.wrap_socket(made, server_hostname=sni)
    if keep:
        kept[keep] = made
    return talk(made, send) if send else "connected"


def again(keep: str, send: str) -> str:
    """Use a connection that was kept."""
    return talk(kept[keep], send)


def push(keep: str, send: str) -> str:
    """Send on a connection that was kept, and wait for nothing."""
    kept[keep].sendall(send.encode() + b"\n")
    return "sent"


def datagram(host: str, port: int, send: str, seconds: float = 3.0) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.settimeout(seconds)
        made.sendto(send.encode(), (host, port))
        return made.recv(1000).decode()


def accept(port: int) -> str:
    """Take one connection on a port, answer it, and return what it said."""
    with socket.create_server(("0.0.0.0", port)) as listener:
        listener.settimeout(20)
        connection, _ = listener.accept()
        with connection:
            said = connection.recv(100)
            connection.sendall(b"inside: " + said)
            return said.decode()


def bulk(host: str, port: int) -> str:
    with socket.create_connection((host, port), 20) as made:
        size = 0
        while part := made.recv(1 << 20):
            size += len(part)
    return str(size)


def connects(host: str, port: int, count: int) -> str:
    """Return the median milliseconds from looking the name up to the first byte the host sends.

    `{}` in the name is the number of the connection.
    """
    taken = []
    for number in range(count):
        begin = time.perf_counter()
        with socket.create_connection((host.format(number), port), 20) as made:
            made.recv(1)
            taken.append((time.perf_counter() - begin) * 1000)
    return str(statistics.median(taken))


def handshakes(host: str, port: int, count: int) -> str:
    """Return the median milliseconds of connect(2) to an address."""
    taken = []
    for _ in range(count):
        with socket.socket() as made:
            begin = time.perf_counter()
            made.connect((host, port))
            taken.append((time.perf_counter() - begin) * 1000)
            made.recv(1)
    return str(statistics.median(taken))


def speed(host: str, port: int) -> str:
    """Return megabytes a second of all that comes from a host."""
    with socket.create_connection((host, port), 20) as made:
        buffer, size = bytearray(1 << 20), 0
        size = made.recv_into(buffer)
        begin = time.perf_counter()
        while part := made.recv_into(buffer):
            size += part
        return str(size / 1e6 / (time.perf_counter() - begin))


def talk(made: socket.socket, send: str) -> str:
    made.settimeout(20)
    made.sendall(send.encode() + b"\n")
    return made.recv(1000).decode()


ACTS = {
    each.__name__: each
    for each in (fetch, connect, again, push, datagram, accept, bulk, connects, handshakes, speed)
}


def act(arguments: dict[str, Any]) -> tuple[str, bool]:
    rest = {key: value for key, value in arguments.items() if key != "do"}
    try:
        return str(ACTS[arguments["do"]](**rest)), False
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}", True


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        match message["method"]:
            case "initialize":
                result: dict[str, Any] = {
                    "protocolVersion": message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "fetcher", "version": "1"},
                }
            case "tools/list":
                names = json.loads(sys.argv[1])
                result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
            case "tools/call":
                text, failed = act(message["params"]["arguments"])
                result = {"content": [{"type": "text", "text": text}], "isError": failed}
            case _:
                result = {}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
