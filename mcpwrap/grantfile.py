"""Grant files on this machine: read, and trusted only where nobody but their user can change what they say."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from mcpwrap import profiles
from mcpwrap.errors import GrantError
from mcpwrap.grant import lookup
from mcpwrap.grant.parse import parse
from mcpwrap.grant.render import printable
from mcpwrap.grant.source import MAX_BYTES, decode

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Grant
    from mcpwrap.grant.lookup import Places
    from mcpwrap.grant.paths import Variables

OTHER_GRANTS: Final = 256
"""Grant files looked through for what other servers may write, about a millisecond for each that lets one."""

MAX_LINKS: Final = 40
"""Links on the way to a file that the kernel follows (MAXSYMLINKS of linux/namei.h)."""


def load(
    file: str,
    variables: Variables,
    profile: Callable[[str], str] = profiles.text,
    *,
    brought: Sequence[str] = (),
) -> Grant:
    """Return the grant in `file`; `profile` and `brought` as `parse` takes them. Raises GrantError."""
    try:
        data = _read(file)
    except OSError as error:
        raise GrantError(f"cannot read {printable(file)}: {error.strerror}") from None
    return parse(
        decode(data, file),
        file,
        variables,
        profile,
        brought=brought,
        is_directory=os.path.isdir,
        read_text=read_text,
    )


def read_text(path: str) -> str | None:
    """Return the text of a regular file, cut at the size of a grant file; None if it cannot be read."""
    try:
        return _read(path)[:MAX_BYTES].decode("utf-8", "replace")
    except (OSError, ValueError):
        return None


def check_trust(path: str, grant: Grant, places: Places, variables: Variables) -> None:
    """Raise GrantError if somebody else, this server or another could change what the file at `path` grants."""
    lookup.check_trust(_chain(path), os.geteuid(), _written_by_servers(grant, places, variables))


def _written_by_servers(grant: Grant, places: Places, variables: Variables) -> Iterable[str]:
    """Return the real paths of what this server or another may write: any of them could be turned against it."""
    trees = [*lookup.writable_trees(grant), os.path.dirname(places.state), os.path.dirname(places.cache)]
    for file in _grant_files(places.grants):
        try:
            data = _read(file)
            # No profile lets a server write: they are left out, as is a file without the word.
            if b"fs_write" in data:
                trees += lookup.writable_trees(parse(decode(data, file), file, variables, lambda _: ""))
        except (OSError, GrantError):
            continue  # No server runs under a file that cannot be taken.
    return set(map(os.path.realpath, trees))


def _grant_files(directory: str) -> Iterable[str]:
    found = (
        os.path.join(each, name)
        for each, _, names in os.walk(directory)
        for name in names
        if name.endswith(".toml")
    )
    return islice(found, OTHER_GRANTS)


def _chain(path: str) -> list[lookup.PathStat]:
    """Return the file, and every directory and link on the way to it: as written, and as each link leads on.

    Raises GrantError where something on the way cannot be looked at, or went while it was.
    """
    chain: dict[str, lookup.PathStat] = {}
    at, left, links = "/", path.split("/")[::-1], 0
    try:
        while True:
            found = os.lstat(at)
            chain[at] = lookup.PathStat(at, found.st_uid, found.st_mode)
            if stat.S_ISLNK(found.st_mode):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                left += os.readlink(at).split("/")[::-1]
                at = "/" if left[-1] == "" else os.path.dirname(at)
            while left and left[-1] in ("", "."):
                left.pop()
            if not left:
                return list(chain.values())
            step = left.pop()
            at = os.path.dirname(at) if step == ".." else os.path.join(at, step)
    except OSError as error:
        raise GrantError(f"cannot follow the path of {printable(path)}: {error.strerror}") from None


def _read(path: str) -> bytes:
    """Return a regular file, or a byte more of it than is taken. Raises OSError: a FIFO would be waited for."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return stream.read(MAX_BYTES + 1)
