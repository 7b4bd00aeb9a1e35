"""Run by `unshare` as the first process of a private internet: sets it up, then hands out its sockets.

`begin.py CONTROL DIRECTORY ADDRESS...`: `lo` gets every address, and the files in DIRECTORY lie over the ones
of the same name in /etc. Each request on the socket CONTROL is two bytes, family and type, and is answered
by one new socket. The end of CONTROL is the end of this process, and so of the namespaces.

An ordinary user can map no id but its own, so what is root's belongs to nobody in here, and mcpwrap takes no
grant below a directory of nobody. So the directories above the home directory are made anew, as this user's.
"""

from __future__ import annotations

import ctypes
import os
import platform
import socket
import subprocess
import sys

MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 4096, 16384, 1 << 18, 2
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}[platform.machine()]

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    names = [None if each is None else each.encode() for each in (source, target, kind)]
    check(libc.mount(*names, flags, None), target)


def copy(source: str, target: str, above: str) -> None:
    """Make the directory `source` anew at `target`; everything in it is bound, down the way to `above`."""
    for name in os.listdir(source):
        old, new = os.path.join(source, name), os.path.join(target, name)
        if os.path.islink(old):
            os.symlink(os.readlink(old), new)
        elif not os.path.isdir(old):
            with open(new, "x"):
                mount(old, new, None, MS_BIND)
        else:
            os.mkdir(new)
            if above.startswith(old + "/"):
                copy(old, new, above)
            else:
                mount(old, new, None, MS_BIND | MS_REC)


def own_root() -> None:
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    mount("none", "/mnt", "tmpfs", 0)
    copy("/", "/mnt", os.path.realpath(os.path.expanduser("~")))
    os.chdir("/mnt")
    check(libc.syscall(PIVOT_ROOT, b".", b"."), "pivot_root")
    check(libc.umount2(b".", MNT_DETACH), "the old root")
    os.chdir("/")
    os.chmod("/", 0o755)


def main(control: int, directory: str, addresses: list[str]) -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Duplicate address detection would keep IPv6 addresses unusable for a second.
    batch = "".join(
        f"addr add {address}/{128 if ':' in address else 32} dev lo{' nodad' if ':' in address else ''}\n"
        for address in addresses
    )
    subprocess.run(["ip", "-batch", "-"], input=batch.encode(), check=True)
    own_root()
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
