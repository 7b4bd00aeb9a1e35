"""What one name on the host is, without following it."""

from __future__ import annotations

import os
import stat
from typing import Literal, NamedTuple


class Entry(NamedTuple):
    """The kind of object a name stands for; `target` is a symlink's text."""

    kind: Literal["directory", "file", "link", "missing", "other"]
    target: str = ""


_MISSING = Entry("missing")
_DIRECTORY = Entry("directory")
_FILE = Entry("file")
_OTHER = Entry("other")


def look(path: str) -> Entry:
    """Return what `path` is. What cannot be reached (a directory on the way is closed) is missing."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return Entry("link", os.readlink(path))
    except OSError:
        return _MISSING
    if stat.S_ISDIR(mode):
        return _DIRECTORY
    return _FILE if stat.S_ISREG(mode) else _OTHER
