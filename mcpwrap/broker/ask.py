"""access(X_OK) and its kin: a program asks whether it may execute a file, and then does not try.

git asks so of each hook, and goes on without one it may not execute: nothing was refused, and nobody learns that
a hook did not run. So the question itself is answered, and recorded, as the execution would be. It is
asked of hooks only: whoever looks through a PATH asks of many files without meaning any of them.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from mcpwrap.operation import Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session


def ask(session: Session, caller: Caller, dirfd: int, address: int) -> None:
    """Raise OSError EACCES for a hook that may not be executed; any other question is the kernel's to answer.

    Whatever path the kernel reads afterwards, it opens nothing, and every execution is decided for itself.
    """
    path = caller.string(address)
    if b"/hooks/" not in path and not path.startswith(b"hooks/"):
        return
    try:
        found = session.resolver.find(caller, dirfd, path, follow=True)
    except OSError:
        return
    try:
        runnable = stat.S_ISREG(found.stat.st_mode) and found.stat.st_mode & 0o111
        if runnable and session.verdicts.effective.is_hook(found.path):
            session.require(caller, "exec", Need.EXEC, found, written=os.fsdecode(path))
    finally:
        found.close()
