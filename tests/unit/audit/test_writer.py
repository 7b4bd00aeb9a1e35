"""The audit on disk: private, complete after each flush, bounded, and honest about what it had to leave out."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from mcpwrap.audit import writer as writers
from mcpwrap.audit.reader import last_run, names, previous_run, records, run_files
from mcpwrap.audit.record import Tally, encode, operation
from mcpwrap.audit.writer import AuditWriter
from mcpwrap.operation import Decision, Event, Need, Operation


def read(writer: AuditWriter) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(writer.path).read_bytes().splitlines()]


def test_files_and_directories_are_the_users_alone(tmp_path: Path) -> None:
    os.umask(0)
    try:
        writer = AuditWriter(str(tmp_path / "audit" / "npm" / "@scope" / "server"))
    finally:
        os.umask(0o022)
    assert stat.S_IMODE(os.stat(writer.path).st_mode) == 0o600
    for directory in ("audit", "audit/npm", "audit/npm/@scope", "audit/npm/@scope/server"):
        assert stat.S_IMODE((tmp_path / directory).stat().st_mode) == 0o700


def test_a_record_is_on_disk_after_the_flush(tmp_path: Path) -> None:
    writer = AuditWriter(str(tmp_path))
    writer.head({"kind": "run", "name": "n"})
    writer.write({"kind": "note", "text": "\udcff\u202e"})
    assert Path(writer.path).read_bytes() == b""
    writer.flush()
    first, second = read(writer)
    assert (first["v"], first["kind"], first["part"]) == (1, "run", 1)
    assert second["text"] == "\udcff\u202e"
    assert second["at"].endswith("Z")
    assert len(second["at"]) == len("2026-11-30T18:17:57.707Z")
    writer.close()


def test_a_full_disk_raises_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = AuditWriter(str(tmp_path))
    real = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 10:
            return real(fd, bytes(data[:10]))
        raise OSError(errno.ENOSPC, "No space left on device")

    writer.write({"kind": "note", "note": "a"})
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    writer.write({"kind": "note", "note": "b"})
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    monkeypatch.undo()
    writer.flush()
    assert [record["note"] for record in read(writer)] == ["a", "b"]
    writer.close()


def test_what_a_full_disk_cannot_hold_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", 1_000)
    writer = AuditWriter(str(tmp_path))

    def full(_fd: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        for n in range(100):
            writer.write({"kind": "note", "note": "x", "n": n})
        writer.write({"kind": "opened", "window": "w1"})
    writer.flush()
    *found, dropped = read(writer)
    assert dropped["note"] == "audit-dropped"
    assert 0 < dropped["records"] == 100 - (len(found) - 1)
    assert found[-1]["kind"] == "opened"
    writer.close()


def test_nothing_is_dropped_while_the_disk_takes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "PENDING_BYTES", 1_000)
    writer = AuditWriter(str(tmp_path))
    for n in range(100):
        writer.write({"kind": "note", "note": "x", "n": n})
    writer.flush()
    assert [record["n"] for record in read(writer)] == list(range(100))
    writer.close()


def test_what_no_call_flushes_is_written_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "SYNC_SECONDS", 0.01)
    writer = AuditWriter(str(tmp_path))
    writer.start_syncing()
    for n in range(3):
        writer.write({"kind": "note", "n": n})
        limit = time.monotonic() + 10
        while len(read(writer)) <= n and time.monotonic() < limit:
            select.select([], [], [], 0.01)
        assert len(read(writer)) == n + 1
    writer.close()


def test_a_long_run_goes_on_in_a_new_part_with_the_run_record_at_its_head(tmp_path: Path) -> None:
    writer = AuditWriter(str(tmp_path), part_bytes=2_000)
    writer.head({"kind": "run", "name": "n"})
    for n in range(100):
        writer.write({"kind": "note", "n": n})
        writer.flush()
    writer.close()
    files = run_files(str(tmp_path))
    assert len(files) > 2
    assert [file.part for file in files] == list(range(1, len(files) + 1))
    found = [record for file in last_run([str(tmp_path)]) for record in records(file)]
    assert [record["n"] for record in found if record["kind"] == "note"] == list(range(100))
    assert [record["part"] for record in found if record["kind"] == "run"] == [file.part for file in files]


def test_old_runs_are_pruned_by_count_and_never_one_that_is_still_written(tmp_path: Path) -> None:
    for n in range(60):
        (tmp_path / f"20200101T0000{n:02}.000Z-1.jsonl").write_text("{}\n")
    live = AuditWriter(str(tmp_path))
    os.rename(live.path, tmp_path / "20190101T000000.000Z-1.jsonl")
    writer = AuditWriter(str(tmp_path))
    writer.prune()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert len(left) == writers.KEEP_FILES + 1
    assert left[0] == "20190101T000000.000Z-1.jsonl"
    assert left[1] == "20200101T000011.000Z-1.jsonl"
    assert os.path.exists(writer.path)
    live.close()
    writer.close()


def test_old_runs_are_pruned_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "KEEP_BYTES", 2_500)
    for n in range(5):
        (tmp_path / f"20200101T00000{n}.000Z-1.jsonl").write_text("x" * 1_000)
    writer = AuditWriter(str(tmp_path))
    writer.prune()
    assert len(run_files(str(tmp_path))) == 3
    writer.close()


def test_a_link_in_the_place_of_the_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_000_000_000.5)
    target = tmp_path / "target"
    (tmp_path / f"20010909T014640.500Z-{os.getpid()}.jsonl").symlink_to(target)
    with pytest.raises(FileExistsError):
        AuditWriter(str(tmp_path))
    assert not target.exists()


def test_syncing_ends_with_the_run(tmp_path: Path) -> None:
    writer = AuditWriter(str(tmp_path))
    writer.start_syncing()
    writer.write({"kind": "note"})
    writer.flush()
    writer.close()
    assert read(writer)


def test_a_line_cut_short_by_a_crash_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "20200101T000000.000Z-1.jsonl"
    file.write_bytes(encode("t", {"kind": "run"}) + encode("t", {"kind": "exit"})[:10])
    assert [record["kind"] for record in records(run_files(str(tmp_path))[0])] == ["run"]


def test_a_line_nested_without_end_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "20200101T000000.000Z-1.jsonl"
    file.write_bytes(b"[" * 100_000 + b"\n" + encode("t", {"kind": "run"}))
    assert [record["kind"] for record in records(run_files(str(tmp_path))[0])] == ["run"]
    assert previous_run(str(tmp_path), "") == {"v": 1, "at": "t", "kind": "run"}


def test_a_file_that_was_pruned_meanwhile_has_no_records(tmp_path: Path) -> None:
    (tmp_path / "20200101T000000.000Z-1.jsonl").touch()
    (found,) = run_files(str(tmp_path))
    os.unlink(found.path)
    assert list(records(found)) == []


def test_the_run_before_is_found_and_the_current_is_not(tmp_path: Path) -> None:
    for n in range(3):
        record = {"kind": "run", "n": n}
        (tmp_path / f"20200101T00000{n}.000Z-1.jsonl").write_bytes(encode("t", record))
    current = str(tmp_path / "20200101T000002.000Z-1.jsonl")
    found = previous_run(str(tmp_path), current)
    assert found is not None
    assert found["n"] == 1
    assert previous_run(str(tmp_path / "nothing"), "") is None


def test_names_are_the_directories_that_hold_runs(tmp_path: Path) -> None:
    for name in ("npm/@a/b", "pypi/c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "20200101T000000.000Z-1.jsonl").touch()
    (tmp_path / "empty").mkdir()
    assert names(str(tmp_path)) == ["npm/@a/b", "pypi/c"]


def event(object: str, *windows: str, allowed: bool = True) -> Event:
    return Event(
        Operation("read", Need.READ, object), Decision(allowed, "rule"), windows, 0 if allowed else 13, 1
    )


def test_operations_beyond_the_limit_are_counted_exactly_by_rule() -> None:
    tally = Tally(10)
    written = sum(tally.admit(event(f"/{n}", "w1")) for n in range(100))
    refused = sum(tally.admit(event(f"/{n}", "w1", allowed=False)) for n in range(5))
    assert (written, refused) == (10, 0)
    assert tally.admit(event("/", "w2"))
    assert tally.close("w1") == {"allowed read rule": 90, "refused read rule": 5}
    assert tally.close("w1") == {}


def test_an_operation_of_several_windows_counts_for_each() -> None:
    tally = Tally(1)
    assert tally.admit(event("/", "w1", "w2"))
    assert not tally.admit(event("/", "w1", "w2"))
    assert tally.close("w1") == tally.close("w2") == {"allowed read rule": 1}


def test_an_operation_record_says_what_was_refused_and_why() -> None:
    acted = Operation("rename", Need.WRITE, "/real", "/written")
    record = operation(Event(acted, Decision(False, "private:.ssh", quiet=True), ("w1",), 13, 42), late=True)
    assert record == {
        "kind": "operation",
        "windows": ["w1"],
        "act": "rename",
        "need": "write",
        "object": "/real",
        "written": "/written",
        "allowed": False,
        "rule": "private:.ssh",
        "pid": 42,
        "errno": 13,
        "quiet": True,
        "late": True,
    }
