"""The one door to the C library: `syscall`, and what the other modules of this room build on.

Only this module loads a library. A call failed if, and only if, it returned -1: errno keeps the
value of an earlier failure after a success.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
"""The C library of this process, with a private copy of errno (`ctypes.get_errno`)."""

_syscall = LIBC.syscall
_syscall.restype = ctypes.c_long

Path = str | bytes


def failure(path: Path | None = None, other: Path | None = None) -> OSError:
    """Return the OSError (of errno's own subclass) for the call that has just returned -1."""
    number = ctypes.get_errno()
    if path is None:
        return OSError(number, os.strerror(number))
    if other is None:
        return OSError(number, os.strerror(number), path)
    return OSError(number, os.strerror(number), path, None, other)


def syscall(number: int, *args: Any, path: Path | None = None, other: Path | None = None) -> int:
    """Make the system call `number` and return its result.

    Arguments are `int` (passed as a whole machine word: a bare int would be cut to 32 bits),
    `bytes` (a pointer to a NUL-terminated copy), `None` (NULL), or ctypes objects by `byref`
    or as arrays. `path` and `other` are the names the error shall carry.

    Raises OSError with errno.
    """
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in args]
    result: int = _syscall(ctypes.c_long(number), *words)
    if result == -1:
        raise failure(path, other)
    return result


def encode(path: Path) -> bytes:
    """Return the bytes the kernel is given for `path`.

    Raises ValueError for an embedded NUL: the kernel would act on the part before it.
    """
    data = os.fsencode(path)
    if b"\0" in data:
        raise ValueError(f"NUL in path {path!r}")
    return data
