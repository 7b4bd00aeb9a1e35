"""Where a symlink leads: it is written as text, and what it gives is decided when it is made or moved.

Others follow links, too: one that leads out of the grant hands its holder, or the user, what the
call that made it could not have named.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from mcpwrap.broker.resolve import failure
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.request import Caller
    from mcpwrap.broker.session import Session


def leads_to(directory: str, text: bytes) -> str:
    """Return the real path a link with `text` in the real `directory` leads to, whether it exists or not."""
    # Not normalized before: where a link stands before a `..`, the kernel goes elsewhere than the text says.
    try:
        return os.path.realpath(os.path.join(directory, os.fsdecode(text)))
    except RecursionError:
        raise failure(errno.ELOOP) from None


def require_target(
    session: Session, caller: Caller, act: str, directory: str, text: bytes, *, host: bool
) -> None:
    """Raise OSError EACCES unless reading what the link leads to is granted now.

    `host`: the link lies on the host's ground, so it leads to the user's files, not to the server's own.
    """
    if b".." in text.lstrip(b"./").split(b"/"):
        # After another name `..` leads wherever that name leads by then.
        raise session.refuse(
            caller, act, Need.READ, os.fsdecode(text), Decision(False, "link-through-a-name")
        )
    written = os.path.normpath(os.path.join(directory, os.fsdecode(text)))
    for path in dict.fromkeys((written, leads_to(directory, text))):
        decision = session.verdicts.decide(
            act, Need.READ, path, host=host, errno=errno.EACCES, pid=caller.pid
        )
        if not decision.allowed:
            raise failure(errno.EACCES)


def require_unshared(session: Session, caller: Caller, act: str, path: str, error: int) -> None:
    """Raise OSError `error`, as a file system without such links does, where a second name would be a way past a rule.

    Start-up writes what is run by itself, and calls do not: not by another name, nor behind a link on the way there.
    """
    if session.verdicts.effective.is_loaded(path):
        raise session.refuse(caller, act, Need.WRITE, path, Decision(False, "loaded"), error=error)
