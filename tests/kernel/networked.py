"""Runs Python code in a real sandbox with a real broker and a real grant, and a stand-in for the relay's network.

The stand-in greets every connection it is handed with `NAME|ADDRESS|PORT\\n`, as it was told, and sends back what
comes; datagrams it returns with the same greeting before them; questions it answers with one TXT record.

The code under test starts with helpers (`CODE`): `window("tool", …)` opens windows of these tools and closes the
others, `reach(port)` has the relay connect to a port of the server's; `ask({"stranger": port, "says": hex})` has it say
something to a port of the host's, and tells how many bytes came back.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # as a script it is run with -I

SECONDS = 30
MESSAGE = 4096

CODE = """
import errno, json, os, socket, struct, sys, threading
show = lambda value: print(json.dumps(value), flush=True)

def outcome(act, *arguments, **named):
    try:
        found = act(*arguments, **named)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return found if isinstance(found, (str, int, list)) else "done"

def ask(message):
    os.write(2, (json.dumps(message) + "\\n").encode())
    return json.loads(sys.stdin.readline())

window = lambda *tools: ask({"windows": tools})
reach = lambda port: ask({"reach": port})

def greeting(host, port, family=0):
    with socket.create_connection((host, port), 5) as peer:
        return read_line(peer)

def read_line(peer):
    said = b""
    while not said.endswith(b"\\n"):
        data = peer.recv(1)
        if not data:
            return said.decode() + "<end>"
        said += data
    return said.decode().rstrip("\\n")
"""


@dataclass
class Done:
    """What came of one run: what the code printed, the broker's events, and what the relay was told."""

    out: str
    errors: str
    events: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    status: dict[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> list[Any]:
        """What the code showed, in order."""
        return [json.loads(line) for line in self.out.splitlines()]

    def value(self) -> Any:
        """Return the one thing the code showed."""
        assert self.out, self
        return self.values[-1]

    def refused(self, act: str = "") -> list[str]:
        """Return the objects of what was refused and told."""
        return [
            event["object"]
            for event in self.events
            if not event["allowed"] and not event["quiet"] and act in ("", event["act"])
        ]


@dataclass
class Network:
    """A home of its own and a place for sockets of the host."""

    home: Path

    def run(self, grant: str, code: str | list[str], **options: Any) -> Done:
        """Run `code` under `grant` to its end."""
        file = self.home / "grant.toml"
        file.write_text("schema = 1\n" + grant)
        argv = [sys.executable, "-I", "-c", CODE + code] if isinstance(code, str) else code
        spec = {"argv": argv, "grant": str(file), **options}
        environment = {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        done = subprocess.run(
            [sys.executable, "-I", __file__, json.dumps(spec)],
            capture_output=True,
            timeout=2 * SECONDS,
            check=False,
            env=environment,
            cwd=self.home,
        )
        assert not done.returncode, done.stderr.decode()
        found = Done(**json.loads(done.stdout))
        assert found.status.get("exit") == {"status": 0}, found
        return found


@contextmanager
def network() -> Iterator[Network]:
    """Give a `Network` that is removed at the end. Its path is short: a path socket's has 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="mcpwrap-net-", dir=Path.home()) as directory:
        yield Network(Path(directory))


# The relay of one run.


class _Relay:
    def __init__(self, spec: dict[str, Any]) -> None:
        import mmap

        from mcpwrap.options import Options
        from mcpwrap.policy.page import SIZE, PageWriter
        from mcpwrap.prepare import prepare
        from mcpwrap.sandbox import hostplan, stem
        from mcpwrap.sandbox import plan as plans

        bare = spec.get("bare", False)
        if "copies" in spec:
            from mcpwrap.sandbox import bare as confinement

            confinement._can_take_descriptors = lambda: spec["copies"]
        prepared = prepare(Options(command=tuple(spec["argv"]), grant=spec["grant"]), bare=bare)
        policy = prepared.policy
        page = os.memfd_create("page")
        os.truncate(page, SIZE)
        activity = memoryview(mmap.mmap(-1, mmap.PAGESIZE))[:8]
        named = tuple(rule.path for rule in policy.sockets)
        options = plans.Wanted(prepared.installation.program, sockets=named)
        make = hostplan.host_plan if bare else plans.plan
        plan = make(policy.floor, prepared.facts, options)
        command = (prepared.installation.program, *prepared.command[1:])
        self.child = stem.start(plan, policy, page, activity, command, prepared.environment)
        self.page = PageWriter(memoryview(mmap.mmap(page, SIZE)))
        self.generation = 0
        self.poll = select.poll()
        self.channel = socket.socket(fileno=self.child.network) if self.child.network >= 0 else None
        self.peers: dict[int, tuple[socket.socket, bytes]] = {}
        self.messages: list[dict[str, Any]] = []
        self.texts = dict.fromkeys(
            (self.child.stdout, self.child.stderr, self.child.records, self.child.status), b""
        )
        self.told = 0
        self.deaf = spec.get("deaf", False)

    def run(self) -> dict[str, Any]:
        self.publish([])
        for fd in self.texts:
            self.poll.register(fd, select.POLLIN)
        if self.channel is not None and not self.deaf:
            self.poll.register(self.channel, select.POLLIN)
        left = set(self.texts)
        while left:
            ready = self.poll.poll(SECONDS * 1000)
            if not ready:
                raise TimeoutError(self.texts)
            for fd, _ in ready:
                if fd in self.texts:
                    data = os.read(fd, 65536)
                    self.texts[fd] += data
                    if not data:
                        self.poll.unregister(fd)
                        left.discard(fd)
                    elif fd == self.child.stderr:
                        self.listen()
                elif self.channel is not None and fd == self.channel.fileno():
                    self.hear()
                else:
                    self.answer(fd)
        os.waitpid(self.child.pid, 0)
        out, err, records, status = self.texts.values()
        told: dict[str, Any] = {}
        for line in status.splitlines():
            told |= json.loads(line)
        return {
            "out": out.decode(),
            "errors": err.decode(),
            "events": [json.loads(line) for line in records.splitlines()],
            "messages": self.messages,
            "status": told,
        }

    def publish(self, tools: list[str]) -> None:
        from mcpwrap.policy.active import Active, ActiveWindow

        self.generation += 1
        windows = tuple(ActiveWindow(f"{self.generation}.{tool}", tool) for tool in tools)
        self.page.publish(Active(self.generation, False, windows))

    def listen(self) -> None:
        """Do what the code asks for, by whole lines of JSON on its standard error."""
        text = self.texts[self.child.stderr]
        end = text.rfind(b"\n") + 1
        for line in text[self.told : end].splitlines():
            if not line.startswith(b"{"):
                continue
            asked = json.loads(line)
            if "windows" in asked:
                self.publish(asked["windows"])
                self.say("done")
            elif "stranger" in asked:
                self.say(_received(asked["stranger"], bytes.fromhex(asked["says"])))
            elif "reach" in asked and self.channel is not None:
                self.channel.send(json.dumps({"kind": "reach", "id": 7, "port": asked["reach"]}).encode())
        self.told = end

    def say(self, value: object) -> None:
        os.write(self.child.stdin, json.dumps(value).encode() + b"\n")

    def hear(self) -> None:
        assert self.channel is not None
        data, fds, _, _ = socket.recv_fds(self.channel, MESSAGE, 4)
        if not data:
            self.poll.unregister(self.channel)
            return
        message = json.loads(data)
        self.messages.append(message | {"fds": len(fds)})
        kind = message["kind"]
        if kind in ("stream", "datagram"):
            peer = socket.socket(fileno=fds[0])
            greeting = f"{message['name']}|{message['address']}|{message['port']}\n".encode()
            self.peers[fds[0]] = peer, greeting
            if kind == "stream":
                peer.send(greeting)
            self.poll.register(fds[0], select.POLLIN)
        elif kind == "query":
            question = bytes.fromhex(message["data"])
            answer = question[:2] + b"\x81\x80\0\1\0\1\0\0\0\0" + question[12:]
            answer += b"\xc0\x0c\0\x10\0\1\0\0\0\x3c\0\x05\x04text"
            reply = {"kind": "answer", "id": message["id"], "data": answer.hex()}
            self.channel.send(json.dumps(reply).encode())
        elif kind == "reached":
            peer = socket.socket(fileno=fds[0])
            peer.setblocking(True)
            peer.sendall(b"from outside\n")
            peer.close()
            self.say(message)
        else:
            self.say(message)

    def answer(self, fd: int) -> None:
        peer, greeting = self.peers[fd]
        if peer.type == socket.SOCK_DGRAM:
            try:
                data, sender = peer.recvfrom(65536)
            except ConnectionRefusedError:
                return
            peer.sendto(greeting + data, sender)
            return
        try:
            data = peer.recv(65536)
        except ConnectionResetError:
            data = b""
        if data:
            peer.send(data)
            return
        self.poll.unregister(fd)
        del self.peers[fd]
        peer.close()


def _received(port: int, data: bytes) -> int:
    """Return how many bytes a process outside of the sandbox is answered."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as peer:
            peer.sendall(data)
            return len(peer.recv(MESSAGE))
    except OSError:
        return 0


if __name__ == "__main__":
    signal.alarm(SECONDS)
    made = json.loads(sys.argv[1])
    if "descriptors" in made:
        resource.setrlimit(resource.RLIMIT_NOFILE, (made["descriptors"], 4096))
    print(json.dumps(_Relay(made).run()))
