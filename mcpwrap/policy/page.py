"""The page: one shared memory file through which the relay tells the broker what is in force.

Layout, native byte order:

    offset 0   u64   low half: generation (0 = nothing published), high half: offset of its record
    offset 8         records: u32 generation, u32 length, u32 CRC-32 of the payload, payload

A publication appends its record where it touches neither the head nor the record in force, wrapping
to the beginning, and is made by one aligned 8-byte store to the head. A reader copies the record and
takes it only if the head still is what it was before: while it is, the record in force cannot have
been written over. Generation and CRC in the record catch stores that arrive in another order
(aarch64) and a head that went around once.
"""

from __future__ import annotations

import json
import struct
from binascii import crc32
from typing import Final

from mcpwrap.operation import Need
from mcpwrap.policy.active import Active, ActiveWindow, BoundHost, BoundPath

SIZE: Final = 4 * 1024 * 1024
"""Bytes of the page: three times the largest record. Memory is used only as far as records reach."""

HEAD: Final = 8
RECORD: Final = struct.Struct("=III")

PREFERRED: Final = 64 * 1024
"""Records wrap here already if they fit, so that ordinary runs touch 64 KiB and not the whole page."""

READ_RETRIES: Final = 1_000
"""Reads of a head that changed meanwhile. The relay publishes twice a call; more in a row is a fault."""

MAX_GENERATION: Final = 2**32 - 1


_encode: Final = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class TornPage(Exception):
    """The page could not be read consistently; who cannot read the grant refuses everything."""


def encode(active: Active) -> bytes:
    """Return `active` as compact JSON; `decode` is its inverse for every path, surrogates included."""
    windows = [
        [
            window.id,
            window.tool,
            [
                [path.need.value, path.path, path.kind, path.rule, int(path.siblings), path.root]
                for path in window.bound
            ],
            [[host.host, host.ports, host.rule, int(host.literal)] for host in window.hosts],
            window.area,
        ]
        for window in active.windows
    ]
    return _encode([active.generation, int(active.startup), windows]).encode("ascii")


def decode(data: bytes) -> Active:
    """Return the state `encode` made `data` from. Raises ValueError (or a kin) if it made it from none."""
    generation, startup, windows = json.loads(data)
    return Active(
        generation,
        bool(startup),
        tuple(
            ActiveWindow(
                window_id,
                tool,
                tuple(
                    BoundPath(Need(need), path, kind, rule, bool(siblings), root)
                    for need, path, kind, rule, siblings, root in bound
                ),
                tuple(
                    BoundHost(host, tuple(ports), rule, bool(literal)) for host, ports, rule, literal in hosts
                ),
                area,
            )
            for window_id, tool, bound, hosts, area in windows
        ),
    )


class PageWriter:
    """The relay's side; there is one. `buffer` is writable, 8-byte aligned, at least a few KiB."""

    def __init__(self, buffer: memoryview) -> None:
        self._bytes = buffer.cast("B")
        self._head = self._bytes[:HEAD].cast("Q")
        self._size = len(self._bytes)
        self._begin = self._end = HEAD

    @property
    def capacity(self) -> int:
        """Bytes of the largest payload: a third, so that one always fits before or after another."""
        return (self._size - HEAD) // 3 - RECORD.size

    def publish(self, active: Active) -> None:
        """Put `active` in force. Raises ValueError, and changes nothing, if it is too large.

        `active.generation` must be another than the one in force, and not 0.
        """
        payload = encode(active)
        if len(payload) > self.capacity:
            raise ValueError(f"the open calls bind too much: {len(payload)} bytes, at most {self.capacity}")
        if not 0 < active.generation <= MAX_GENERATION or active.generation == self._head[0] & MAX_GENERATION:
            raise ValueError(f"generation {active.generation} cannot follow {self._head[0] & MAX_GENERATION}")
        begin, end = self._place(RECORD.size + len(payload))
        RECORD.pack_into(self._bytes, begin, active.generation, len(payload), crc32(payload))
        self._bytes[begin + RECORD.size : end] = payload
        self._head[0] = begin << 32 | active.generation
        self._begin, self._end = begin, end

    def _place(self, length: int) -> tuple[int, int]:
        """Return where a record of `length` goes: clear of the one in force, low if possible."""
        limit = PREFERRED if self._end + length > PREFERRED and HEAD + length <= self._begin else self._size
        begin = self._end if self._end + length <= limit else HEAD
        return begin, begin + length


class PageReader:
    """The broker's side; read-only."""

    def __init__(self, buffer: memoryview) -> None:
        self._bytes = buffer.cast("B")
        self._head = self._bytes[:HEAD].cast("Q")

    def generation(self) -> int:
        """Return the generation in force, 0 if none was published: one aligned load."""
        return self._head[0] & MAX_GENERATION

    def active(self) -> Active:
        """Return what is in force. Raises TornPage if no consistent reading was to be had."""
        for _ in range(READ_RETRIES):
            head = self._head[0]
            if not head & MAX_GENERATION:
                return Active(0, True)
            payload = self._payload(head >> 32, head & MAX_GENERATION)
            if payload is not None and self._head[0] == head:
                try:
                    return decode(payload)
                except (ValueError, TypeError) as problem:
                    raise TornPage("the grant in force is no grant") from problem
        raise TornPage("the grant in force could not be read")

    def _payload(self, offset: int, generation: int) -> bytes | None:
        if offset < HEAD or offset + RECORD.size > len(self._bytes):
            return None
        written, length, checksum = RECORD.unpack_from(self._bytes, offset)
        begin = offset + RECORD.size
        if written != generation or begin + length > len(self._bytes):
            return None
        payload = bytes(self._bytes[begin : begin + length])
        return payload if crc32(payload) == checksum else None
