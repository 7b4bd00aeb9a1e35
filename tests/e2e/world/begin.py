"""Run by `unshare` as the first process of a private internet: sets it up, then hands out its sockets.

`begin.py CONTROL DIRECTORY ADDRESS...`: `lo` gets every address, and the files in DIRECTORY lie over the ones
of the same name in /etc. Each request on the socket CONTROL is two bytes, family and type, and is answered
by one new socket. The end of CONTROL is the end of this process, and so of the namespaces.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def main(control: int, directory: str, addresses: list[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Duplicate address detection would keep IPv6 addresses unusable for a second.
    batch = "".join(
        f"addr add {address}/{128 if ':' in address else 32} dev lo{' nodad' if ':' in address else ''}\n"
        for address in addresses
    )
    subprocess.run(["ip", "-batch", "-"], input=batch.encode(), check=True)
    for name in os.listdir(directory):
        subprocess.run(["mount", "--bind", f"{directory}/{name}", f"/etc/{name}"], check=True)
    with socket.socket(fileno=control) as requests:
        requests.sendall(b"ready")
        while asked := requests.recv(2):
            made = socket.socket(asked[0], asked[1])
            socket.send_fds(requests, [b"."], [made.fileno()])
            made.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
