"""An MCP server whose tools fetch a URL, each by another client of the network. No proxy, no setting: as people do.

Its interpreter has aiohttp, httpx and requests. What a client raises comes back as the tool's error.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request

SECONDS = 20


async def _aiohttp(url):
    import aiohttp

    limit = aiohttp.ClientTimeout(SECONDS)
    async with aiohttp.ClientSession(timeout=limit) as session, session.get(url) as answer:
        return await answer.text()


def by_aiohttp(url):
    return asyncio.run(_aiohttp(url))


def by_httpx(url):
    import httpx

    return httpx.get(url, timeout=SECONDS).text


def by_requests(url):
    import requests

    return requests.get(url, timeout=SECONDS).text


def by_urllib(url):
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read().decode()


def by_curl(url):
    done = subprocess.run(
        ["curl", "-sS", "-m", str(SECONDS), url], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise OSError(done.stderr)
    return done.stdout


def by_quic_first(url):
    """What a browser does: a datagram to port 443 first, TCP when that fails. Says what came of the datagram."""
    host = urllib.parse.urlsplit(url).hostname
    begun = time.monotonic()
    address = socket.getaddrinfo(host, 443, type=socket.SOCK_DGRAM)[0]
    with socket.socket(address[0], socket.SOCK_DGRAM) as quic:
        quic.settimeout(SECONDS)
        try:
            quic.connect(address[4])
            quic.send(bytes([0xC0]) + bytes(1199))
            quic.recv(1500)
            first = "answered"
        except OSError as problem:
            first = f"{type(problem).__name__} at once" if time.monotonic() - begun < 2 else "late"
    return f"quic: {first}; tcp: {by_urllib(url)}"


CLIENTS = {
    "aiohttp": by_aiohttp,
    "httpx": by_httpx,
    "requests": by_requests,
    "urllib": by_urllib,
    "curl": by_curl,
    "quic_first": by_quic_first,
}


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "clients", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": info,
        }
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in CLIENTS]}
    if method == "tools/call":
        try:
            said, wrong = CLIENTS[params["name"]](params["arguments"]["url"]), False
        except Exception as problem:
            said, wrong = f"{type(problem).__name__}: {problem}", True
        return {"content": [{"type": "text", "text": said}], "isError": wrong}
    return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked and "method" in asked:
        told = {"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)}
        os.write(1, (json.dumps(told) + "\n").encode())
