"""Who mcpwrap is: never the superuser, for the server would be too."""

from __future__ import annotations

import os
import pwd
from collections.abc import MutableMapping

from mcpwrap.errors import CannotConfine
from mcpwrap.kernel import process

_ROOT_ONLY = (
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "MAIL",
)
"""They name root's own directories."""

_WAY_OUT = (
    "start it as an ordinary user (setpriv --reuid=USER --regid=USER --init-groups mcpwrap ...),\n"
    "or in a working directory that belongs to one: mcpwrap then becomes its owner"
)


def settle(environ: MutableMapping[str, str]) -> None:
    """If this process is root, become the owner of the working directory, for good; else do nothing.

    Call it before anything is read, opened or forked. HOME, USER and LOGNAME follow. With uid 0
    mapped into the sandbox, files of root's such as /proc/sys/kernel/core_pattern open for writing.

    Raises CannotConfine if that owner is root too, or unknown.
    """
    if 0 not in (os.getuid(), os.geteuid()):
        return
    owner = os.stat(".").st_uid
    if owner == 0:
        raise CannotConfine("mcpwrap runs as root, and no server is ever run as root", _WAY_OUT)
    try:
        user = pwd.getpwuid(owner)
    except KeyError:
        raise CannotConfine(
            f"mcpwrap runs as root, and the owner of the working directory (uid {owner}) has no password entry",
            _WAY_OUT,
        ) from None
    if user.pw_gid == 0:
        raise CannotConfine(f"the group of {user.pw_name} is that of root", _WAY_OUT)
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(owner, owner, owner)
    process.drop_capabilities()
    # Cleared by the kernel at a change of user; /proc/self belongs to root until it is set again.
    process.set_dumpable(True)
    environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    for name in _ROOT_ONLY:
        environ.pop(name, None)
    code = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.access(code, os.R_OK | os.X_OK):
        raise CannotConfine(
            f"{user.pw_name}, who owns the working directory, cannot read mcpwrap's own code in {code}",
            "install mcpwrap for all users, or for that user",
        )
