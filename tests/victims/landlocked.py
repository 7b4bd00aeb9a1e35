"""Enters the floor it is given (JSON: {"floor": {...}, "nested": bool}) and makes what is asked, then prints
each outcome: errno, or 0. An act is [name, argument, ...]; a floor place that is a number is a descriptor."""

import json
import os
import socket
import sys

from mcpwrap.kernel import landlock as kernel
from mcpwrap.kernel import process
from mcpwrap.sandbox import landlock

asked = json.loads(sys.argv[1])


def read(path):
    os.close(os.open(path, os.O_RDONLY))


def write(path):
    os.close(os.open(path, os.O_WRONLY))


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def execute(path):
    child = os.fork()
    if not child:
        try:
            os.execv(path, [path])
        except OSError as problem:
            os._exit(problem.errno)
    status = os.waitpid(child, 0)[1]
    if os.WEXITSTATUS(status):
        raise OSError(os.WEXITSTATUS(status), "")


def unix(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def abstract(name):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect("\0" + name)


def device(path):
    made = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        import fcntl

        fcntl.ioctl(made, 0x80045430, bytes(4))  # TIOCGPTN
    finally:
        os.close(made)


def memory(pid, address):
    process.read_memory(pid, address, 1)


ACTS = {
    "read": read,
    "write": write,
    "create": create,
    "execute": execute,
    "list": os.listdir,
    "truncate": lambda path: os.truncate(path, 0),
    "mkdir": os.mkdir,
    "rename": os.rename,
    "link": os.link,
    "symlink": os.symlink,
    "fifo": os.mkfifo,
    "unlink": os.unlink,
    "rmdir": os.rmdir,
    "unix": unix,
    "abstract": abstract,
    "device": device,
    "kill": lambda pid: os.kill(pid, 0),
    "memory": memory,
}

abi = min(kernel.abi(), asked.get("abi", 99))
process.set_no_new_privs()
if asked["floor"] is not None:
    landlock.floor(**asked["floor"], abi=abi)
if asked["nested"]:
    landlock.nested(abi=abi)
outcomes = []
for name, *arguments in asked["acts"]:
    try:
        ACTS[name](*arguments)
        outcomes.append(0)
    except OSError as problem:
        outcomes.append(problem.errno)
print(json.dumps(outcomes), flush=True)
if asked.get("wait"):
    sys.stdin.read()
