"""Freed memory that is kept for the next allocation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

FAULTS = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from mcpwrap.kernel.memory import keep_freed
keep_freed(int(sys.argv[2]))

def faults(size):
    for _ in range(3):
        bytes(bytearray(size))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        bytes(bytearray(size))
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(1024 * 1024), faults(16 * 1024 * 1024))
"""


def test_a_freed_megabyte_is_used_again_without_a_fault_and_a_large_block_is_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", FAULTS, str(ROOT), str(4 * 1024 * 1024)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    small, large = map(int, done.stdout.split())
    assert small < 100
    assert large > 1_000
