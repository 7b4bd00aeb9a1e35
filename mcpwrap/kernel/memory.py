"""How the C library's allocator gives memory back to the kernel; mallopt(3)."""

from __future__ import annotations

from typing import Final

from mcpwrap.kernel.libc import LIBC

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed(size: int) -> None:
    """Let this process keep up to `size` freed bytes for its next allocations, and larger blocks never.

    By default glibc returns each freed block of a megabyte at once, and every page of the next one is a
    fault (0.5 to 2 µs). Nothing on a C library without mallopt (musl).
    """
    mallopt = getattr(LIBC, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, size)
        mallopt(_M_TRIM_THRESHOLD, size)
