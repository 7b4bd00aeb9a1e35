"""Trees of root's, shown in a private mount namespace as those of another id (idmapped mounts).

Nothing changes on disk: what that id makes there belongs to root, and what belongs to others than root has
no owner there that anybody could be. Sources: mount_setattr(2), user_namespaces(7).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from mcpwrap.kernel import mounts, process
from mcpwrap.sandbox.system import within


def show_as(paths: Iterable[str], ident: int) -> dict[str, OSError]:
    """Bind each of `paths` (real, files or directories) over itself, with root's ids shown as `ident`.

    Returns those that could not be, with the reason: their file system cannot do it. Raises OSError where
    there are no mount namespaces to be had at all. Needs root with CAP_SYS_ADMIN.
    """
    chosen: list[str] = []
    for path in sorted(paths):
        if not within(path, chosen):
            chosen.append(path)
    users = _namespace(ident)
    try:
        process.unshare(process.CLONE_NEWNS)
        # Mounts made on the host later still come in; none of these gets out.
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_SLAVE)
        return {path: error for path in chosen if (error := _show(path, users)) is not None}
    finally:
        os.close(users)


def _show(path: str, users: int) -> OSError | None:
    try:
        tree = mounts.open_tree(path, clone=True, recursive=True)
        try:
            _map(tree, users)
            mounts.move_mount(tree, path)
        finally:
            os.close(tree)
    except OSError as error:
        return error
    return None


def _map(tree: int, users: int) -> None:
    try:
        mounts.mount_setattr("", dirfd=tree, set_=mounts.MOUNT_ATTR_IDMAP, userns_fd=users, recursive=True)
    except OSError:
        # Something mounted below cannot (a network file system in the home): it stays as it is.
        mounts.mount_setattr("", dirfd=tree, set_=mounts.MOUNT_ATTR_IDMAP, userns_fd=users)


def _namespace(ident: int) -> int:
    """Return a descriptor of a user namespace whose map leads from 0 to `ident`; nobody is left in it."""
    made, making = os.pipe()
    keep, kept = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(kept)
            process.unshare(process.CLONE_NEWUSER)
            os.write(making, b"\n")
            os.read(keep, 1)
        finally:
            os._exit(0)
    try:
        os.close(making)
        os.read(made, 1)
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"0 {ident} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for fd in (made, keep, kept):
            os.close(fd)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
