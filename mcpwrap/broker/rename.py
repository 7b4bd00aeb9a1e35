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

from mcpwrap.broker.resolve import Entry, failure
from mcpwrap.kernel import files
from mcpwrap.limits import DIRECTORY_RENAME_ENTRIES
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session


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
            _require(session, caller, source, target, exchange=bool(flags & files.RENAME_EXCHANGE))
            files.renameat2(source.parent, source.name, target.parent, target.name, flags)
            session.verdicts.removed(source.path)
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
    for place, decision in session.verdicts.decide_rename(
        source.path,
        target.path,
        identity=source.identity,
        replaced=target.identity,
        regular=stat.S_ISREG(source.stat.st_mode),
        exchange=exchange,
    ):
        session.verdicts.record("rename", Need.WRITE, place, decision, errno=errno.EACCES, pid=caller.pid)
        if not decision.allowed:
            raise failure(errno.EACCES)
    _require_tree(session, caller, source, target.path)
    if exchange:
        _require_tree(session, caller, target, source.path)


def _refuse_unread(error: OSError) -> None:
    raise failure(errno.EACCES) from error  # what cannot be looked through is not moved


def _require_tree(session: Session, caller: Caller, moved: Entry, destination: str) -> None:
    if moved.stat is None or not stat.S_ISDIR(moved.stat.st_mode):
        return
    effective = session.verdicts.effective
    seen = 0
    top = os.open(
        moved.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=moved.parent
    )
    try:
        for below, directories, names, fd in os.fwalk(".", dir_fd=top, onerror=_refuse_unread):
            for name in directories + names:
                seen += 1
                if seen > DIRECTORY_RENAME_ENTRIES:
                    rule = Decision(False, "directory-too-large")
                    raise session.refuse(caller, "rename", Need.WRITE, moved.path, rule)
                inner = os.path.normpath(os.path.join(below, name))
                entry = os.stat(name, dir_fd=fd, follow_symlinks=False)
                identity, regular = (entry.st_dev, entry.st_ino), stat.S_ISREG(entry.st_mode)
                for place in (moved.path, destination):
                    rule_id = effective.untouchable(f"{place}/{inner}", identity, regular=regular)
                    if rule_id is not None:
                        raise session.refuse(
                            caller, "rename", Need.WRITE, f"{moved.path}/{inner}", Decision(False, rule_id)
                        )
    finally:
        os.close(top)
