"""The lines the stem writes for the relay."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox import report


def _line(tell: Callable[[int], None]) -> Any:
    reader, writer = os.pipe()
    try:
        tell(writer)
        return json.loads(os.read(reader, 65536))
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize(
    ("wait_status", "told"), [(0, 0), (7 << 8, 7), (signal.SIGKILL, 137), (signal.SIGTERM, 143)]
)
def test_an_exit_is_told_as_a_shell_would(wait_status: int, told: int) -> None:
    assert _line(lambda fd: report.exited(fd, wait_status)) == {"exit": {"status": told}}


def test_a_failure_carries_its_way_out() -> None:
    error = CannotConfine("no", "do this")
    assert _line(lambda fd: report.failed(fd, error)) == {
        "failed": {"what": "no", "way_out": "do this", "exit_status": 126}
    }


def test_a_fault_is_told_as_mcpwraps_own() -> None:
    failed = _line(lambda fd: report.failed(fd, KeyError("x")))["failed"]
    assert failed["exit_status"] == 125
    assert "KeyError" in failed["what"]


def test_a_relay_that_is_gone_is_no_matter() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    report.ended(writer, "reason")
    os.close(writer)
