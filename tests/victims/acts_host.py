"""Acts of a server that shares the network and the processes of the host: ways around what the broker decides."""

import ctypes
import fcntl
import os
import signal
import socket
import struct
import tempfile
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
AF_UNSPEC = bytes(16)
OPTIONS = {
    # name: (level, option, value)
    "IP options": (0, 4, bytes((68, 12, 5, 0)) + b"LEAKLEAK"),
    "device": (socket.SOL_SOCKET, 25, b"lo\0"),
    "interface": (socket.SOL_SOCKET, 62, struct.pack("i", 1)),
    "routing header": (41, 57, b""),
    "hop options": (41, 54, b""),
    "source address": (41, 50, bytes(20)),
    "fast open of a client": (6, 30, struct.pack("i", 1)),
    "signature": (6, 14, bytes(216)),
    "other protocol": (6, 31, b"tls"),
}


def listen_after_giving_up(port):
    """Connect to what may be connected to, give that up (which leaves a name behind), and listen."""
    with socket.socket() as one:
        one.connect(("127.0.0.1", port))
        if _LIBC.connect(one.fileno(), AF_UNSPEC, len(AF_UNSPEC)):
            raise OSError(ctypes.get_errno(), "connect")
        return _serve_once(one, socket.AF_INET)


def listen_by_a_name_of_the_kernels():
    """Have the kernel name a socket (unix(7), autobind) by a connect that fails, and listen there."""
    path = tempfile.mktemp()
    with socket.socket(socket.AF_UNIX) as deaf, socket.socket(socket.AF_UNIX) as one:
        deaf.bind(path)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            one.connect(path)
        except ConnectionRefusedError:
            pass
        finally:
            os.unlink(path)
        return _serve_once(one, socket.AF_UNIX)


def _serve_once(one, family):
    if _LIBC.listen(one.fileno(), 1):
        raise OSError(ctypes.get_errno(), "listen")
    name = one.getsockname()
    return str(name[1]) if family == socket.AF_INET else name.decode("latin-1").replace("\0", "@")


def set_option(name):
    level, option, value = OPTIONS[name]
    family = socket.AF_INET6 if level == 41 else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(level, option, value)
    return "set"


def fork_on_and_on():
    """Leave a process that is always another one: it forks and ends as fast as it can. As long as there is one,
    the file whose path is returned is locked (flock(2)): no look at processes would be quick enough."""
    lock, path = tempfile.mkstemp()
    fcntl.flock(lock, fcntl.LOCK_EX)
    if os.fork():
        os.close(lock)
        return path
    os.closerange(0, lock)
    os.closerange(lock + 1, 1024)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    until = time.monotonic() + 60
    fork, end = _LIBC.fork, _LIBC._exit
    while time.monotonic() < until:
        if fork() > 0:
            end(0)
    end(0)


def own_number():
    return str(os.getpid())


def bind_port(port):
    with socket.socket(socket.AF_INET6) as one:
        one.bind(("::1", port))
    return "bound"
