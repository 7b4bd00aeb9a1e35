"""Who mcpwrap is: never the superuser, for the server would be too.

With uid 0 mapped into the sandbox, files of root's such as /proc/sys/kernel/core_pattern open for writing. So
root becomes the owner of the working directory; where that is root, an id nobody has, and root's home and
working directory are shown as that id's.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
import sys
from collections.abc import Iterable, MutableMapping

from mcpwrap.errors import CannotConfine
from mcpwrap.kernel import process

_XDG = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
_ROOT_ONLY = (*_XDG, "XDG_RUNTIME_DIR", "MAIL")
"""They name root's own directories."""

_WAY_OUT = (
    "start it as an ordinary user (setpriv --reuid=USER --regid=USER --init-groups mcpwrap ...),\n"
    "or in a working directory that belongs to one: mcpwrap then becomes its owner;\n"
    "in a container: docker run --user UID:GID, with HOME a directory of that user's"
)

_stands_for = -1
"""The user whose home is this process's: root's, once root has been given up for an unused id."""


def settle(environ: MutableMapping[str, str], needs: Iterable[str] = ()) -> str:
    """If this process is root, become somebody else, for good; else do nothing. Returns a line to be told, or "".

    The owner of the working directory; HOME, USER and LOGNAME follow. If that is root: an unused id, in a
    mount namespace of its own where HOME, the working directory, the XDG directories, mcpwrap's code and
    `needs` (paths; the grant file) are shown as that id's where only root may reach them. Call it with one
    thread, before anything is read or opened.

    Raises CannotConfine if neither can be done.
    """
    if 0 not in (os.getuid(), os.geteuid()):
        return ""
    try:
        cwd = os.getcwd()
        owner = os.stat(cwd).st_uid
    except OSError as error:
        raise CannotConfine(
            f"there is no working directory: {error.strerror}", "start mcpwrap in a directory that exists"
        ) from None
    return _become_owner(environ, owner) if owner else _become_nobody(environ, cwd, needs)


def passwd_home() -> str:
    """Return this user's home in the user database, whatever HOME says; empty if it has none."""
    try:
        return os.path.normpath(pwd.getpwuid(_stands_for if _stands_for >= 0 else os.geteuid()).pw_dir)
    except KeyError:
        return ""


def users() -> bytes:
    """Return the user database for the server's view if it is not the machine's: with an entry for an unused id.

    Empty for everybody else. A user without an entry is an error to Node's `os.userInfo` and to git.
    """
    if _stands_for < 0:
        return b""
    with open("/etc/passwd", "rb") as file:
        text = file.read()
    ident = os.geteuid()
    home = os.fsencode(os.environ["HOME"]).replace(b":", b"").replace(b"\n", b"")
    return text.rstrip(b"\n") + b"\nmcpwrap:x:%d:%d:in the place of root:%s:/bin/sh\n" % (ident, ident, home)


def _become_owner(environ: MutableMapping[str, str], owner: int) -> str:
    try:
        user = pwd.getpwuid(owner)
    except KeyError:
        raise CannotConfine(
            f"mcpwrap runs as root, and the owner of the working directory (uid {owner}) has no password entry",
            _WAY_OUT,
        ) from None
    if user.pw_gid == 0:
        raise CannotConfine(f"the group of {user.pw_name} is that of root", _WAY_OUT)
    _become(owner, user.pw_gid)
    environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    for name in _ROOT_ONLY:
        environ.pop(name, None)
    code = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if not os.access(code, os.R_OK | os.X_OK):
        raise CannotConfine(
            f"{user.pw_name}, who owns the working directory, cannot read mcpwrap's own code in {code}",
            "install mcpwrap for all users, or for that user",
        )
    return ""


def _become_nobody(environ: MutableMapping[str, str], cwd: str, needs: Iterable[str]) -> str:
    # Only here: no ordinary user's start pays for it.
    from mcpwrap.sandbox.idmap import show_as
    from mcpwrap.sandbox.unused import unused_id

    global _stands_for
    _stands_for = 0
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        home = environ["HOME"] = passwd_home()
    ident = unused_id()
    try:
        failed = show_as(_places(environ, home, cwd, needs), ident)
        refused = "; ".join(f"{path}: {_reason(error)}" for path, error in failed.items())
    except OSError as error:
        refused = f"no mount may be made here: {error.strerror}"
        # What it leaves on disk is its own then: the next run must be the same user.
        ident = unused_id(stable=True)
    _become(ident, ident)
    why = f" (root's files cannot be shown as that user's: {refused})" if refused else ""
    for path, mode, what in ((cwd, os.R_OK, "the working directory"), (home, os.R_OK | os.W_OK, "HOME")):
        try:
            os.chdir(path)
            usable = os.access(".", mode)
        except OSError:
            usable = False
        if not usable:
            raise CannotConfine(
                f"mcpwrap runs as root, no server is ever run as root, and {what}, {path}, is of no use to the "
                f"unused user id {ident}{why}",
                _WAY_OUT,
            )
    if not os.access(_code()[0], os.R_OK | os.X_OK):
        raise CannotConfine(f"mcpwrap's own code in {_code()[0]} is closed to user id {ident}{why}", _WAY_OUT)
    os.chdir(cwd)
    on_disk = f"belong to it, not to root{why}" if refused else "are root's"
    return f"started as root: the server runs as user id {ident}, which nobody has; files it makes {on_disk}"


def _reason(error: OSError) -> str:
    if error.errno == errno.EINVAL:
        return "its file system has no idmapped mounts, as overlay, NFS and many FUSE ones"
    return error.strerror or str(error)


def _become(uid: int, gid: int) -> None:
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise CannotConfine(
            f"mcpwrap runs as root and may not become user id {uid}: {error.strerror}", _WAY_OUT
        ) from error
    process.drop_capabilities()
    # Cleared by the kernel at a change of user; /proc/self belongs to root until it is set again.
    process.set_dumpable(True)


def _places(environ: MutableMapping[str, str], home: str, cwd: str, needs: Iterable[str]) -> set[str]:
    """Return what must be shown as another id's: real paths; each closed directory on the way in its place."""
    wanted = [home, cwd]
    for name in _XDG:
        base = environ.get(name, "")
        if base.startswith("/"):
            os.makedirs(base, 0o700, exist_ok=True)
            wanted.append(base)
    wanted += [path for path in (*needs, *_code()) if os.path.exists(path) and not _readable(path)]
    found = {_closed(os.path.realpath(path)) for path in wanted}
    return found - {"/"}


def _closed(path: str) -> str:
    """Return the uppermost directory on the way to `path` that only its owner may pass; else `path` itself."""
    parts = path.split("/")[1:]
    for count in range(1, len(parts)):
        above = "/" + "/".join(parts[:count])
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return above
    return path


def _readable(path: str) -> bool:
    """Whether everybody may read `path`."""
    real = os.path.realpath(path)
    needed = stat.S_IROTH | (stat.S_IXOTH if os.path.isdir(real) else 0)
    return _closed(real) == real and os.stat(real).st_mode & needed == needed


def _code() -> tuple[str, ...]:
    """Return where mcpwrap's code and the interpreter that runs it are; more of both is loaded later."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return package, os.path.dirname(os.__file__), sys.prefix, sys.executable
