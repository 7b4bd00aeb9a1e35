"""The audit of one run on disk: appended, locked, synced, rolled over and pruned.

A record is *on disk* once write(2) took it: it survives SIGKILL of everything here. A thread of its own
writes each second what no call has flushed, and calls fdatasync, so that no call waits for a disk.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Mapping
from typing import Final

from mcpwrap.audit.reader import RunFile, run_files
from mcpwrap.audit.record import encode

PART_BYTES: Final = 32 * 1024 * 1024
"""A run's file is continued in a new part beyond this, so that old parts of a long run can be pruned."""
KEEP_FILES: Final = 50
"""Run files kept of one server."""
KEEP_BYTES: Final = 100 * 1000 * 1000
"""Bytes of run files kept of one server."""
PENDING_BYTES: Final = 16 * 1024 * 1024
"""Records held while the disk is full; beyond, the newest are dropped and counted."""
KEPT: Final = frozenset({"run", "protections", "opened", "closed", "exit"})
"""Kinds of which four times as much is held: what a server makes many of must not crowd out a call."""
SYNC_SECONDS: Final = 1.0
LAST_SYNC_SECONDS: Final = 1.0
"""The end of a run waits so long for the disk."""


class AuditWriter:
    """Appends records to the file of one run. `write` never fails; `flush` raises `OSError`.

    What a failed flush could not write is kept and written first by the next.
    """

    def __init__(self, directory: str, *, part_bytes: int = PART_BYTES) -> None:
        """Open a new file `TIME-PID.jsonl` in `directory`, made with mode 0700 if missing."""
        self._directory = directory
        self._part_bytes = part_bytes
        now = time.time()
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(now))
        self._stem = f"{stamp}.{int(now * 1000) % 1000:03d}Z-{os.getpid()}"
        self._part = 1
        self._pending = bytearray()
        self._dropped = 0
        self._second = 0
        self._second_text = ""
        self._head: Mapping[str, object] = {}
        make_private(directory)
        self._fd = self._open()
        self._size = 0
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def path(self) -> str:
        suffix = "" if self._part == 1 else f".{self._part}"
        return os.path.join(self._directory, f"{self._stem}{suffix}.jsonl")

    def head(self, record: Mapping[str, object]) -> None:
        """Write the `run` record; it is repeated at the head of every later part."""
        self._head = record
        self.write({**record, "part": self._part})

    def write(self, record: Mapping[str, object]) -> None:
        """Take one record; it is on disk after the next successful `flush`, a second later at most."""
        with self._lock:
            if len(self._pending) > PENDING_BYTES:
                self._try_to_flush()
            if len(self._pending) > PENDING_BYTES * (4 if record["kind"] in KEPT else 1):
                self._dropped += 1
                return
            self._pending += encode(self._now(), record)
        if not self._wake.is_set():
            self._wake.set()

    def flush(self) -> None:
        """Write what is pending. Raises `OSError` (a full disk) with the rest kept."""
        with self._lock:
            self._write_pending()
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                self._pending += encode(
                    self._now(), {"kind": "note", "note": "audit-dropped", "records": dropped}
                )
                self._write_pending()
            if self._size >= self._part_bytes:
                self._roll()

    def start_syncing(self) -> None:
        """Start the thread that syncs; called after the last fork."""
        self._thread = threading.Thread(target=self._sync, name="audit-sync", daemon=True)
        self._thread.start()

    def prune(self) -> None:
        """Remove the oldest files beyond `KEEP_FILES` and `KEEP_BYTES`; never one a run still writes."""
        kept_bytes = 0
        for number, found in enumerate(reversed(run_files(self._directory)), start=1):
            kept_bytes += found.size
            beyond = number > KEEP_FILES or kept_bytes > KEEP_BYTES
            if beyond and found.path != self.path and not _is_written(found):
                try:
                    os.unlink(found.path)
                except OSError:
                    continue  # Another run was first, or the user has closed the directory.

    def close(self) -> None:
        """Write, sync (at most `LAST_SYNC_SECONDS`) and end. Never raises."""
        self._try_to_flush()
        self._ended.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(LAST_SYNC_SECONDS)

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        # Held by this open file description until it is gone: pruning by another run sees it.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return fd

    def _write_pending(self) -> None:
        while self._pending:
            written = os.write(self._fd, self._pending)
            del self._pending[:written]
            self._size += written

    def _try_to_flush(self) -> None:
        try:
            self.flush()
        except OSError:
            pass  # The disk is full: the next call says so, and is refused.

    def _roll(self) -> None:
        self._part += 1
        try:
            fd = self._open()
        except OSError:
            self._part -= 1  # The directory takes no more: go on in the old part.
            return
        os.close(self._fd)
        self._fd = fd
        self._size = 0
        self.write({**self._head, "part": self._part})
        self.prune()

    def _now(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{int((now - second) * 1000):03d}Z"

    def _sync(self) -> None:
        while True:
            self._wake.wait()
            self._ended.wait(SYNC_SECONDS)
            self._wake.clear()
            last = self._ended.is_set()
            with self._lock:
                self._try_to_flush()
                fd = os.dup(self._fd)
            try:
                os.fdatasync(fd)
            except OSError:
                pass  # A file system that cannot sync still holds what was written.
            finally:
                os.close(fd)
            if last:
                return


def make_private(directory: str) -> None:
    """Make `directory` and its missing parents with mode 0700. Raises `OSError`."""
    parent = os.path.dirname(directory)
    if parent and not os.path.isdir(parent):
        make_private(parent)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise


def _is_written(found: RunFile) -> bool:
    try:
        fd = os.open(found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
