"""The channel between broker and relay: datagrams of JSON, each with at most one descriptor.

The broker's end is in a process that is an ancestor of the server. What comes from it is read strictly: a
message that is not exactly one of `_FIELDS` is dropped with its descriptor.
"""

from __future__ import annotations

import array
import json
import os
import socket
import stat
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MAX_MESSAGE: Final = 4096
"""Bytes of one datagram. A name has at most 253 characters; queries are cut to fit."""

_FIELDS: Final[Mapping[str, tuple[Mapping[str, type], bool]]] = {
    "stream": ({"name": str, "address": str, "port": int, "windows": list}, True),
    "datagram": ({"name": str, "address": str, "port": int}, True),
    "query": ({"id": int, "data": str}, False),
    "reached": ({"id": int}, True),
    "unreachable": ({"id": int, "errno": int}, False),
}
"""By kind: its other fields, and whether a descriptor comes with it."""

_FD_BYTES: Final = array.array("i").itemsize
_ROOM: Final = socket.CMSG_SPACE(4 * _FD_BYTES)


class Message(NamedTuple):
    """`fd` is the receiver's to close, -1 if none came."""

    kind: str
    fields: Mapping[str, Any]
    fd: int = -1


class Channel:
    """The relay's end."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self.fd = fd
        self.open = True
        self.faults = 0
        """Messages that were dropped because they were not as agreed."""

    def receive(self) -> Message | None:
        """Return the next message; None if there is none now, or never again (`open` is then False)."""
        while self.open:
            try:
                data, ancillary, flags, _ = self._socket.recvmsg(MAX_MESSAGE, _ROOM, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return None
            except OSError:
                data, ancillary, flags = b"", [], 0
            fds = _descriptors(ancillary)
            if not data and not fds:
                self.open = False
                return None
            cut = flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC)
            message = None if cut or len(fds) > 1 else read(data, fds[0] if fds else -1)
            if message is not None:
                return message
            self.faults += 1
            for each in fds:
                os.close(each)
        return None

    def send(self, kind: str, **fields: str | int) -> bool:
        """Send a message; False if the channel is full or closed: nothing ever waits for it."""
        data = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()
        try:
            return len(data) <= MAX_MESSAGE and self._socket.send(data, socket.MSG_NOSIGNAL) == len(data)
        except OSError:
            return False

    def close(self) -> None:
        self.open = False
        self._socket.close()


def read(data: bytes, fd: int) -> Message | None:
    """Return the message in a datagram, None if it is not exactly as agreed."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    kind = fields.pop("kind", None) if isinstance(fields, dict) else None
    if not isinstance(kind, str) or kind not in _FIELDS:
        return None
    types, with_fd = _FIELDS[kind]
    if fields.keys() != types.keys() or with_fd != (fd >= 0):
        return None
    if with_fd and not stat.S_ISSOCK(os.fstat(fd).st_mode):
        return None
    if not all(type(fields[name]) is kind for name, kind in types.items()):
        return None
    if not 0 <= fields.get("port", 0) <= 0xFFFF:
        return None
    if not all(isinstance(each, str) for each in fields.get("windows", ())):
        return None
    return Message(kind, fields, fd)


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % _FD_BYTES])
    return list(fds)
