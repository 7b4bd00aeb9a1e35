"""Stands in for the sandbox's stem: starts a server without any sandbox and tells what a stem tells.

`python stem.py STDIN STDOUT STDERR RECORDS STATUS LIFE -- COMMAND…`: the numbers are inherited
descriptors. `MODE` in the environment: "normal", "deaf" (ignores the life pipe).
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

MODE = os.environ.get("MODE", "normal")


def tell(status: int, message: object) -> None:
    os.write(status, json.dumps(message).encode() + b"\n")


def main() -> None:
    stdin, stdout, stderr, records, status, life = map(int, sys.argv[1:7])
    command = sys.argv[8:]
    server = subprocess.Popen(
        command,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        pass_fds=[records],
        env={**os.environ, "RECORDS": str(records)},
    )
    for fd in (stdin, stdout, stderr):
        os.close(fd)
    tell(status, {"started": {"pid": server.pid, "protections": {"none": "unavailable"}}})
    pidfd = os.pidfd_open(server.pid)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if MODE != "deaf":
        poll.register(life, select.POLLIN)
    ready = [fd for fd, _ in poll.poll()]
    if pidfd not in ready:
        server.send_signal(signal.SIGKILL)
    code = server.wait()
    tell(status, {"exit": {"status": code if code >= 0 else 128 - code}})


main()
