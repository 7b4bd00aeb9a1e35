"""Look-ups that getaddrinfo(3) cannot do (SRV, TXT): the server's own question, asked of the host's name servers.

Blocking, for a thread of the resolver. The answer's bytes go back as they came: the stub judges every
name in it again when the server asks for its address.
"""

from __future__ import annotations

import os
import socket
from typing import Final

RESOLV_CONF: Final = "/etc/resolv.conf"
SERVERS: Final = 3
"""MAXNS of resolv.conf(5)."""
SECONDS: Final = 2.5
"""For each server and way; three servers stay within the resolver's ten seconds."""
MAX_ANSWER: Final = 1900
"""Bytes of an answer that fit the channel as hexadecimal."""
PORT: Final = 53

_HEADER: Final = 12
_TRUNCATED, _RESPONSE = 0x02, 0x80
TYPES: Final = {16: "TXT", 33: "SRV"}


def question(data: bytes) -> tuple[str, int] | None:
    """Return name and type of a query this is for: one standard question of `TYPES`; else None."""
    if not _HEADER < len(data) <= 512 or data[2] & 0xF8 or data[4:6] != b"\0\1":
        return None
    labels: list[str] = []
    at = _HEADER
    while at < len(data) and data[at]:
        size = data[at]
        if size > 63 or at + 1 + size >= len(data):
            return None
        labels.append(data[at + 1 : at + 1 + size].decode("latin-1").lower())
        at += 1 + size
    kind, group = data[at + 1 : at + 3], data[at + 3 : at + 5]
    number = int.from_bytes(kind, "big")
    if len(group) < 2 or group != b"\0\1" or number not in TYPES:
        return None
    return ".".join(labels), number


def names_of(name: str) -> tuple[str, str]:
    """Return the names one of which must be granted: its own, and that of the host it is a service of (RFC 2782)."""
    labels = name.split(".")
    while labels and labels[0].startswith("_"):
        del labels[0]
    return ".".join(labels), name


def servers(path: str = RESOLV_CONF) -> list[str]:
    """Return the host's name servers, in its order. Raises `OSError`."""
    found = []
    with open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) >= 2 and words[0] == "nameserver":
                found.append(words[1])
    return found[:SERVERS]


def ask(data: bytes, path: str = RESOLV_CONF) -> bytes:
    """Return the answer to a query, with the query's own id. Raises `OSError` if nobody gives one."""
    # An id of our own: what the server chose may be what somebody who forges answers knows.
    own = os.urandom(2)
    sent = own + data[2:]
    problem = OSError("no name server")
    for server in servers(path):
        try:
            answer = _by_datagram(server, sent)
            if answer[2] & _TRUNCATED:
                answer = _by_stream(server, sent)
            if len(answer) > MAX_ANSWER:
                raise OSError("the answer is too long")
            return data[:2] + answer[2:]
        except OSError as error:
            problem = error
    raise problem


def _by_datagram(server: str, sent: bytes) -> bytes:
    with socket.socket(_family(server), socket.SOCK_DGRAM) as made:
        made.settimeout(SECONDS)
        made.connect((server, PORT))
        made.send(sent)
        while True:
            answer = made.recv(4096)
            if _answers(answer, sent):
                return answer


def _by_stream(server: str, sent: bytes) -> bytes:
    with socket.create_connection((server, PORT), SECONDS) as made:
        made.sendall(len(sent).to_bytes(2, "big") + sent)
        answer = _exactly(made, int.from_bytes(_exactly(made, 2), "big"))
        if not _answers(answer, sent):
            raise OSError("an answer to another question")
        return answer


def _exactly(made: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = made.recv(size - len(data))
        if not more:
            raise OSError("the name server closed the connection")
        data += more
    return data


def _answers(answer: bytes, sent: bytes) -> bool:
    """Whether it is an answer to that very question (servers may spell the name in another case)."""
    end = sent.index(b"\0", _HEADER) + 5 if b"\0" in sent[_HEADER:] else len(sent)
    return (
        len(answer) >= _HEADER
        and answer[:2] == sent[:2]
        and bool(answer[2] & _RESPONSE)
        and answer[_HEADER:end].lower() == sent[_HEADER:end].lower()
    )


def _family(server: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in server else socket.AF_INET
