"""rename, renameat, renameat2: both ends decided, and for a directory everything that moves with it.

Moving a directory moves names past rules that speak of places: `mv .git g`, write `g/config`, move
it back passes every check of a single path. So a directory is looked through before it moves, at
its old and its new place, and is refused if anything below is denied, private or write-protected.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from mcpwrap.broker.links import leads_to, require_target, require_unshared
from mcpwrap.broker.resolve import Entry, failure
from mcpwrap.broker.verdict import READ_ONLY
from mcpwrap.kernel import files
from mcpwrap.limits import DIRECTORY_RENAME_ENTRIES
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session


DECIDED_AGAIN = 8
"""How often a rename is decided anew because calls have ended or begun while a large directory was looked through."""


def rename(session: Session, caller: Caller, ends: tuple[int, int, int, int], flags: int) -> int:
    """Answer a rename of `ends` = (old dirfd, old path, new dirfd, new path) with RENAME_* `flags`."""
    old_dirfd, old, new_dirfd, new = ends
    if flags & ~(files.RENAME_NOREPLACE | files.RENAME_EXCHANGE):
        raise failure(errno.EINVAL)
    source = _end(session, caller, old_dirfd, old, creating=False)
    try:
        if source.stat is None:
            raise session.absent(caller, old_dirfd, caller.string(old), "rename", Need.WRITE, creating=False)
        target = _end(session, caller, new_dirfd, new, creating=True)
        try:
            exchange = bool(flags & files.RENAME_EXCHANGE)
            _require(session, caller, source, target, exchange=exchange)
            for _ in range(DECIDED_AGAIN):
                if session.verdicts.unchanged():
                    break
                session.verdicts.refresh()
                _require(session, caller, source, target, exchange=exchange)
            else:
                raise failure(errno.EAGAIN)
            session.terrain.require_one_ground(source.path, target.path)
            for end in (source, target):
                session.terrain.require_loose(end.path)
            files.renameat2(source.parent, source.name, target.parent, target.name, flags)
            for end in (source, target):
                moved = end.stat is not None and stat.S_ISDIR(end.stat.st_mode)
                session.verdicts.removed(end.path, moved=moved)
            return 0
        finally:
            target.close()
    finally:
        source.close()


def _end(session: Session, caller: Caller, dirfd: int, address: int, *, creating: bool) -> Entry:
    path = caller.string(address)
    try:
        return session.resolver.entry(caller, dirfd, path)
    except FileNotFoundError:
        raise session.absent(caller, dirfd, path, "rename", Need.WRITE, creating=creating) from None


def _require(session: Session, caller: Caller, source: Entry, target: Entry, *, exchange: bool) -> None:
    assert source.stat is not None
    decisions = session.verdicts.effective.decide_rename(
        source.path,
        target.path,
        moved=_kinds(source),
        present=_kinds(target),
        identity=source.identity,
        replaced=target.identity,
        exchange=exchange,
    )
    for end, (place, decision) in zip((source, target), decisions, strict=False):
        error = READ_ONLY.get(decision.rule, errno.EACCES)
        if not (decision.allowed and decision.routine):
            session.verdicts.record("rename", Need.WRITE, place, decision, errno=error, pid=caller.pid)
        if not decision.allowed:
            raise failure(error)
        session.require_place(caller, "rename", Need.WRITE, end, decision)
    for moved, place in [(source, target.path), (target, source.path)][: 2 if exchange else 1]:
        if moved.stat is not None and stat.S_ISLNK(moved.stat.st_mode):
            require_unshared(session, caller, "rename", place, errno.EPERM)
        _require_tree(session, caller, moved, place)


def _kinds(entry: Entry) -> tuple[bool, ...]:
    """Return as what an object counts: a regular file, another, or (a symlink) both; nothing if it is not there."""
    if entry.stat is None:
        return ()
    return (True, False) if stat.S_ISLNK(entry.stat.st_mode) else (stat.S_ISREG(entry.stat.st_mode),)


def _require_tree(session: Session, caller: Caller, moved: Entry, destination: str) -> None:
    """Raise OSError EACCES if something that moves along must not be at its old or its new place."""
    if moved.stat is None:
        return
    if stat.S_ISLNK(moved.stat.st_mode):
        _require_link(session, caller, moved.path, destination, os.readlink(moved.name, dir_fd=moved.parent))
    if not stat.S_ISDIR(moved.stat.st_mode):
        return
    effective = session.verdicts.effective
    for seen, (inner, entry, text) in enumerate(_below(moved)):
        if seen >= DIRECTORY_RENAME_ENTRIES:
            rule = Decision(False, "directory-too-large")
            raise session.refuse(caller, "rename", Need.WRITE, moved.path, rule)
        identity, regular = (entry.st_dev, entry.st_ino), stat.S_ISREG(entry.st_mode)
        for place in (moved.path, destination):
            rule_id = effective.untouchable(f"{place}/{inner}", identity, regular=regular)
            if rule_id is not None:
                where = f"{moved.path}/{inner}"
                raise session.refuse(caller, "rename", Need.WRITE, where, Decision(False, rule_id))
        if text is not None:
            _require_link(session, caller, f"{moved.path}/{inner}", f"{destination}/{inner}", text)


def _require_link(session: Session, caller: Caller, old: str, new: str, text: bytes) -> None:
    """Decide on a relative link that leads elsewhere from its new place."""
    before, after = old.rpartition("/")[0] or "/", new.rpartition("/")[0] or "/"
    if not text.startswith(b"/") and leads_to(before, text) != leads_to(after, text):
        require_target(session, caller, "rename", after, text, host=True)


def _below(moved: Entry) -> Iterator[tuple[str, os.stat_result, bytes | None]]:
    """Yield (relative path, stat, text if it is a link) of everything in a directory.

    Raises OSError: what cannot be looked through, or is mounted there, does not move.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    top = os.open(moved.name, flags, dir_fd=moved.parent)
    try:
        mount = files.mount_id(top)
        left = [""]
        while left:
            directory = left.pop()
            here = os.open(directory or ".", flags, dir_fd=top)
            try:
                if files.mount_id(here) != mount:
                    raise failure(errno.EBUSY)
                for name in os.listdir(here):
                    inner = f"{directory}/{name}" if directory else name
                    entry = os.stat(name, dir_fd=here, follow_symlinks=False)
                    link = stat.S_ISLNK(entry.st_mode)
                    yield inner, entry, os.readlink(os.fsencode(name), dir_fd=here) if link else None
                    if stat.S_ISDIR(entry.st_mode):
                        left.append(inner)
            finally:
                os.close(here)
    finally:
        os.close(top)
