"""Where a server's HOME is another directory than the user's: names in it for what is granted of the user's.

The directory is one the server writes to, so whatever stands there may be its doing: no link is followed, and
nothing is replaced but links as they are made here. A link gives nothing, it only spares a name: what is
opened by it is decided by its real path.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from mcpwrap.sandbox.draft import inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def links(paths: Iterable[str], homes: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return (name below the home directory, path) for those of `paths` that lie below one of `homes`.

    What lies below another one of them is left out: it is found by that one's link.
    """
    found: dict[str, str] = {}
    for path in sorted(paths):
        for home in homes:
            if path.startswith(home + "/"):
                found.setdefault(path[len(home) + 1 :], path)
    return tuple(
        (name, path)
        for name, path in found.items()
        if not any(name != other and inside(name, other) for other in found)
    )


def renew(home: str, wanted: Iterable[tuple[str, str]], homes: Sequence[str]) -> None:
    """Make the links in the directory `home`. Where something of the server's own has the name, that stays."""
    for name, path in wanted:
        with suppress(OSError):  # the server may have closed its own directories to everybody
            here = _cleared(home, name, homes, make=True)
            try:
                os.symlink(path, name.rpartition("/")[2], dir_fd=here)
            finally:
                os.close(here)


def clear(home: str, unwanted: Iterable[tuple[str, str]], homes: Sequence[str]) -> None:
    """Take away what `renew` made: in a view of its own, what is granted stands there itself."""
    for name, _ in unwanted:
        with suppress(OSError):
            os.close(_cleared(home, name, homes, make=False))


def _cleared(home: str, name: str, homes: Sequence[str], *, make: bool) -> int:
    """Return a descriptor of the directory of `name`, with no link of a former run on the way or in its place."""
    *directories, last = name.split("/")
    here = os.open(home, _DIRECTORY)
    way = ""
    try:
        for each in directories:
            way = f"{way}{each}"
            _take_away(here, each, way, homes)
            if make:
                with suppress(FileExistsError):
                    os.mkdir(each, 0o700, dir_fd=here)
            there = os.open(each, _DIRECTORY, dir_fd=here)
            os.close(here)
            here = there
            way += "/"
        _take_away(here, last, name, homes)
    except BaseException:
        os.close(here)
        raise
    return here


def _take_away(here: int, last: str, name: str, homes: Sequence[str]) -> None:
    """Remove a link that a former run has made."""
    with suppress(OSError):
        if os.readlink(last, dir_fd=here) in {f"{each}/{name}" for each in homes}:
            os.unlink(last, dir_fd=here)
