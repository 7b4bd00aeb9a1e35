"""Finds and reads the audits of past runs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple, cast

SUFFIX = ".jsonl"
RUNS_ASKED = 5
"""Runs looked through for a version: one that ended before its start-up did has none."""


class RunFile(NamedTuple):
    """One part of one run. `stem`: `TIME-PID`, equal for all parts of a run; `size` in bytes."""

    path: str
    stem: str
    part: int
    size: int


def audit_root(environ: Mapping[str, str], home: str) -> str:
    """Return the directory of all audits: `$XDG_STATE_HOME/mcpwrap/audit`.

    A relative `XDG_STATE_HOME` is ignored, as the XDG base directory specification says.
    """
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "mcpwrap", "audit")


def run_files(directory: str) -> list[RunFile]:
    """Return the run files directly in `directory`, oldest first; none if it does not exist."""
    found: list[RunFile] = []
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return []
    for entry in entries:
        if not entry.name.endswith(SUFFIX) or not entry.is_file(follow_symlinks=False):
            continue
        stem = entry.name.removesuffix(SUFFIX)
        part = 1
        head, dot, tail = stem.rpartition(".")
        if dot and tail.isdecimal():
            stem, part = head, int(tail)
        try:
            size = entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue  # Pruned by another run just now.
        found.append(RunFile(entry.path, stem, part, size))
    found.sort(key=lambda file: (file.stem, file.part))
    return found


def names(root: str) -> list[str]:
    """Return the names of all servers with an audit below `root`, sorted."""
    found = [
        os.path.relpath(directory, root)
        for directory, _, files in os.walk(root)
        if any(file.endswith(SUFFIX) for file in files)
    ]
    return sorted(found)


def last_run(directories: list[str]) -> list[RunFile]:
    """Return the parts of the newest run in any of `directories`, in order; empty if there is none."""
    newest: list[RunFile] = []
    for directory in directories:
        files = run_files(directory)
        if files and (not newest or files[-1].stem > newest[-1].stem):
            newest = [file for file in files if file.stem == files[-1].stem]
    return newest


def records(file: RunFile, marked: bytes = b"") -> Iterator[dict[str, object]]:
    """Yield the records of one part (those with `marked` in their line), none if another run has pruned it.

    Raises OSError.
    What is no record is left out: a line cut short by a crash, damage, nesting without end.
    """
    with suppress(FileNotFoundError), open(file.path, "rb") as stream:
        for line in stream:
            if marked not in line:
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                yield cast("dict[str, object]", record)


def previous_version(directory: str, current: str) -> str:
    """Return the version of the package that ran last, before the file `current`; "" if no run says one."""
    for file in list(reversed(run_files(directory)))[:RUNS_ASKED]:
        if file.path == current:
            continue
        with suppress(OSError):
            for record in records(file, marked=b'"package"'):
                version = record.get("version")
                if record.get("kind") == "package" and isinstance(version, str):
                    return version
    return ""


def previous_run(directory: str, current: str) -> dict[str, object] | None:
    """Return the `run` record of the newest run in `directory` other than the file `current`, if it can be read."""
    for file in reversed(run_files(directory)):
        if file.path == current or file.part != 1:
            continue
        try:
            first = next(records(file), None)
        except OSError:
            continue
        if first is not None and first.get("kind") == "run":
            return first
    return None
