"""Descriptors: a process of the sandbox holds those it needs, and no other."""

from __future__ import annotations

import os

from mcpwrap.kernel.process import close_range


def close_others(*keep: int) -> None:
    """Close every descriptor but these.

    One leaked copy of the server's stdin is enough for it never to see the end of its input.
    """
    first = 0
    for fd in sorted(set(keep)):
        if fd > first:
            close_range(first, fd - 1)
        first = fd + 1
    close_range(first)


def occupy_standard() -> None:
    """Put /dev/null where descriptor 0, 1 or 2 is closed, so that no other object ever gets these numbers."""
    while True:
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        if fd > 2:
            os.close(fd)
            return
