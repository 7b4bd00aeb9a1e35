"""The wire format of DNS, as far as a stub needs it: one question in, one answer out; RFC 1035, 6891.

Bytes in, bytes out. What comes in is the server's, and hostile: anything that is not one plain question
is answered with the error a name server would give, or not at all.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

NO_ERROR, FORMAT_ERROR, SERVER_FAILURE, NO_SUCH_NAME, NOT_IMPLEMENTED, REFUSED = range(6)
A, PTR, TXT, AAAA, SRV, OPT, ANY = 1, 12, 16, 28, 33, 41, 255
INTERNET: Final = 1

QUERY_BYTES: Final = 1_024
"""Of one query: a name has 255 bytes at most, the header 12, an OPT record with cookies some 50."""
UDP_BYTES: Final = 512
"""An answer's limit for who does not announce more (RFC 1035)."""
MOST_UDP_BYTES: Final = 4_096
"""An answer's limit whatever was announced: what resolvers announce at most."""
NAME_BYTES: Final = 255
LABEL_BYTES: Final = 63
TIME_TO_LIVE: Final = 60
"""Seconds a program may keep an answer. The address stays the name's for the whole run."""

_HEADER = struct.Struct(">6H")
_FIXED = struct.Struct(">2H")
_RECORD = struct.Struct(">2HIH")
"""After the name: type, class, time to live, length of the data."""
_RESPONSE, _OPCODE, _TRUNCATED, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x7800, 0x200, 0x100, 0x80
_TO_QUESTION = 0xC00C
"""A compressed name: that of the question, which always begins at offset 12."""
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")
_OUR_OPT = b"\0" + _RECORD.pack(OPT, 1_232, 0, 0)
_REVERSE: Final = ".in-addr.arpa"


class Question(NamedTuple):
    """What was asked. `name` is lower-case, without the trailing dot; `raw` the question's own bytes.

    `size`: the largest answer over UDP. `edns`: whether an OPT record came along.
    """

    id: int
    flags: int
    name: str
    kind: int
    raw: bytes
    size: int = UDP_BYTES
    edns: bool = False


class Unanswerable(Exception):
    """What came is no question. `answer` are the bytes to send back, empty if nothing is to be sent."""

    def __init__(self, answer: bytes = b"") -> None:
        super().__init__(answer)
        self.answer = answer


def parse(data: bytes) -> Question:
    """Return the one question of a query. Raises Unanswerable for everything else."""
    if len(data) < _HEADER.size:
        raise Unanswerable
    ident, flags, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    if flags & _RESPONSE:
        raise Unanswerable  # two stubs must never talk to each other
    if flags & _OPCODE:
        raise Unanswerable(_bare(ident, flags, NOT_IMPLEMENTED))
    if len(data) > QUERY_BYTES or (questions, answers, authorities) != (1, 0, 0) or additional > 1:
        raise Unanswerable(_bare(ident, flags, FORMAT_ERROR))
    try:
        name, end = _name(data)
        kind, of = _FIXED.unpack_from(data, end)
        end += _FIXED.size
        size, edns = _additional(data, end) if additional else (UDP_BYTES, False)
        if not additional and end != len(data):
            raise ValueError("bytes behind the question")
    except (ValueError, struct.error) as error:
        raise Unanswerable(_bare(ident, flags, FORMAT_ERROR)) from error
    question = Question(ident, flags, name, kind, data[_HEADER.size : end], size, edns)
    if of != INTERNET:
        raise Unanswerable(respond(question, REFUSED))
    return question


def _name(data: bytes) -> tuple[str, int]:
    labels, at = [], _HEADER.size
    while length := data[at] if at < len(data) else -1:
        # Above 63 it is a pointer, which a question has no use for.
        if not 0 < length <= LABEL_BYTES or at + 1 + length >= len(data):
            raise ValueError("no label")
        labels.append(data[at + 1 : at + 1 + length])
        at += 1 + length
        if at - _HEADER.size >= NAME_BYTES:
            raise ValueError("too long a name")
    if not all(_PLAIN.issuperset(label) for label in labels):
        raise ValueError("no host name")
    return b".".join(labels).decode("ascii").lower(), at + 1


def _additional(data: bytes, at: int) -> tuple[int, bool]:
    """Return what the one additional record says of the size of answers; only OPT is known."""
    if data[at : at + 1] != b"\0":
        raise ValueError("an additional record that is no OPT")
    kind, size, _, length = _RECORD.unpack_from(data, at + 1)
    if kind != OPT or at + 1 + _RECORD.size + length != len(data):
        raise ValueError("an additional record that is no OPT")
    return min(max(size, UDP_BYTES), MOST_UDP_BYTES), True


def respond(question: Question, code: int, *records: bytes) -> bytes:
    """Return the answer to `question`: the response `code` and the `records`, as `address` and `pointer` make them."""
    flags = _RESPONSE | question.flags & (_OPCODE | _RECURSION_DESIRED) | _RECURSION_AVAILABLE | code
    head = _HEADER.pack(question.id, flags, 1, len(records), 0, int(question.edns))
    return head + question.raw + b"".join(records) + (_OUR_OPT if question.edns else b"")


def truncated(question: Question) -> bytes:
    """Return the answer that says: ask again over TCP."""
    answer = bytearray(respond(question, NO_ERROR))
    answer[2] |= _TRUNCATED >> 8
    return bytes(answer)


def address(host: bytes) -> bytes:
    """Return the record that the question's name has this address (4 or 16 bytes)."""
    return _record(A if len(host) == 4 else AAAA, host)


def pointer(name: str) -> bytes:
    """Return the record that the question's address has this name."""
    labels = name.encode("ascii").split(b".")
    return _record(PTR, b"".join(bytes((len(label),)) + label for label in labels) + b"\0")


def _record(kind: int, data: bytes) -> bytes:
    return struct.pack(">H", _TO_QUESTION) + _RECORD.pack(kind, INTERNET, TIME_TO_LIVE, len(data)) + data


def reverse_address(name: str) -> bytes | None:
    """Return the IPv4 address whose reverse name this is (`4.3.2.1.in-addr.arpa`), None if it is none."""
    numbers = name.removesuffix(_REVERSE).split(".")
    if not name.endswith(_REVERSE) or len(numbers) != 4:
        return None
    if not all(number.isascii() and number.isdigit() and int(number) <= 255 for number in numbers):
        return None
    return bytes(int(number) for number in reversed(numbers))


def forwarded(question: Question) -> bytes:
    """Return the query to ask elsewhere in the place of `question`: nothing of the asker's but the question."""
    return _HEADER.pack(0, _RECURSION_DESIRED, 1, 0, 0, 0) + question.raw


def returned(question: Question, data: bytes) -> bytes | None:
    """Return what came back for `forwarded(question)` as the answer to it; None if it answers something else."""
    if len(data) < _HEADER.size + len(question.raw):
        return None
    _, flags, questions, *counts = _HEADER.unpack_from(data)
    asked = data[_HEADER.size : _HEADER.size + len(question.raw)]
    if not flags & _RESPONSE or questions != 1 or asked.lower() != question.raw.lower():
        return None
    head = _HEADER.pack(question.id, flags | _RECURSION_AVAILABLE, questions, *counts)
    return head + question.raw + data[_HEADER.size + len(question.raw) :]


def _bare(ident: int, flags: int, code: int) -> bytes:
    return _HEADER.pack(ident, _RESPONSE | flags & _OPCODE | flags & _RECURSION_DESIRED | code, 0, 0, 0, 0)
