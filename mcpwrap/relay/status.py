"""What the stem tells: lines of JSON on pipes that nobody else writes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Final

LINE_BYTES: Final = 256 * 1024
"""Longest line: a record holds two paths of at most 4,096 bytes, escaped sixfold."""
READ_BYTES: Final = 256 * 1024


class LineReader:
    """Complete lines of a non-blocking pipe; a line beyond `LINE_BYTES` is cut off there."""

    def __init__(self, fd: int, ahead: bytes = b"") -> None:
        """`ahead` has been read already."""
        self.fd = fd
        self._ahead = ahead
        self.open = True
        self._begun = b""

    def lines(self) -> list[bytes]:
        """Read until nothing is there now; return the lines that are complete."""
        found: list[bytes] = []
        while self.open:
            try:
                data, self._ahead = self._ahead or os.read(self.fd, READ_BYTES), b""
            except BlockingIOError:
                break
            if not data:
                self.open = False
                break
            *ended, begun = data.split(b"\n")
            if ended:
                ended[0] = self._begun + ended[0]
                found += ended
                self._begun = b""
            self._begun = (self._begun + begun)[:LINE_BYTES]
        return found


class Told:
    """What has been told so far.

    `pid`: the server's, in our pid namespace, 0 before it was started. `exit_status`: as a shell gives
    it, 128+N for signal N. `failed`: `what`, `way_out`, `exit_status` of an error before the start.
    `ended`: why the stem itself ended the tree. `frozen`: why `$CACHE` could not be made read-only when that
    was asked for last (the name of an errno), "" once it is, None as long as there is no answer.
    """

    __slots__ = ("ended", "exit_status", "failed", "frozen", "pid", "protections")

    def __init__(self) -> None:
        self.pid = 0
        self.protections: Mapping[str, str] = {}
        self.failed: Mapping[str, Any] | None = None
        self.exit_status: int | None = None
        self.ended = ""
        self.frozen: str | None = None

    def take(self, line: bytes) -> None:
        """Take in one line of the status pipe."""
        message = json.loads(line)
        if "started" in message:
            self.pid = message["started"]["pid"]
            self.protections = message["started"]["protections"]
        elif "failed" in message:
            self.failed = message["failed"]
        elif "frozen" in message:
            self.frozen = message["frozen"]["error"]
        elif "ended" in message:
            self.ended = message["ended"]["reason"]
        elif "exit" in message:
            self.exit_status = message["exit"]["status"]
