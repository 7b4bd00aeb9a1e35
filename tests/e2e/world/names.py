"""A name server for tests: answers from a table, and remembers what it was asked."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping

A, TXT, AAAA, SRV = 1, 16, 28, 33
Records = list[str] | Callable[[], list[str]]
"""Addresses as text; or a function asked anew for each query (a name that is rebound)."""


def encode_name(name: str) -> bytes:
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def read_name(data: bytes, at: int) -> tuple[str, int]:
    """Return an uncompressed name and the offset behind it."""
    labels = []
    while size := data[at]:
        labels.append(data[at + 1 : at + 1 + size].decode("latin-1"))
        at += 1 + size
    return ".".join(labels), at + 1


class NameServer:
    """Answers A and AAAA from `hosts`, other types from `others` by (name, type): lists of rdata.

    A name in neither does not exist. `queries`: (name, type) of everything asked, in order.
    """

    def __init__(self, udp: socket.socket, tcp: socket.socket, hosts: Mapping[str, Records]) -> None:
        self.hosts: dict[str, Records] = dict(hosts)
        self.others: dict[tuple[str, int], list[bytes]] = {}
        self.queries: list[tuple[str, int]] = []
        self._udp, self._tcp = udp, tcp
        for work in (self._datagrams, self._streams):
            threading.Thread(target=work, daemon=True).start()

    def close(self) -> None:
        for each in (self._udp, self._tcp):
            try:
                each.shutdown(socket.SHUT_RDWR)  # Wakes the thread that waits in it.
            except OSError:
                pass
            each.close()

    def _datagrams(self) -> None:
        try:
            while True:
                query, client = self._udp.recvfrom(4096)
                if query:
                    answer = self._answer(query)
                    cut = len(answer) > 512
                    self._udp.sendto(self._truncated(query) if cut else answer, client)
        except OSError:
            return

    def _streams(self) -> None:
        try:
            while True:
                connection, _ = self._tcp.accept()
                with connection:
                    connection.settimeout(5)
                    size = connection.recv(2)
                    query = connection.recv(int.from_bytes(size, "big"))
                    answer = self._answer(query)
                    connection.sendall(len(answer).to_bytes(2, "big") + answer)
        except OSError:
            return

    def _truncated(self, query: bytes) -> bytes:
        return query[:2] + struct.pack(">5H", 0x8380, 1, 0, 0, 0) + query[12:]

    def _answer(self, query: bytes) -> bytes:
        name, end = read_name(query, 12)
        kind = int.from_bytes(query[end : end + 2], "big")
        name = name.lower()
        self.queries.append((name, kind))
        found = self.hosts.get(name)
        records = list(self.others.get((name, kind), []))
        if found is not None and kind in (A, AAAA):
            texts = found() if callable(found) else found
            family = socket.AF_INET6 if kind == AAAA else socket.AF_INET
            records = [socket.inet_pton(family, each) for each in texts if (":" in each) == (kind == AAAA)]
        known = found is not None or any(each == name for each, _ in self.others)
        flags = 0x8180 if known else 0x8183
        answer = query[:2] + struct.pack(">5H", flags, 1, len(records), 0, 0) + query[12 : end + 4]
        for data in records:
            answer += struct.pack(">HHHIH", 0xC00C, kind, 1, 0, len(data)) + data
        return answer
