"""Carries out a plan: builds the server's view on a fresh root and moves this process into it.

Every source and every mount point is reached from a held root, name by name, without following a
symlink. So a link that was put in the way after the plan was made (a server can write its private
home) ends the start instead of moving a mount or a new directory somewhere else.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from mcpwrap.errors import CannotConfine, Lacking
from mcpwrap.kernel import mounts as kernel
from mcpwrap.sandbox.plan import Plan
from mcpwrap.sandbox.steps import Bind, Cover, Directory, File, Link, Pin, Proc, Step, Tmpfs

STAGE = "/sys"
"""Where the view is built, in this process's own mount namespace: the one directory every Linux has from
which nothing is ever granted. So all sources, those below /tmp too, keep their paths until `enter`."""

_NEW = STAGE + "/new"
_FILES = STAGE + "/files"
_STAGE_OPTIONS = "mode=0755,size=16m,nr_inodes=65536"
"""Holds names only: mount points, links, the content of `File` steps."""

_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
_DIRECTORY = _PATH | os.O_DIRECTORY
_MEMORY = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
_ATTRIBUTES = kernel.MOUNT_ATTR_NOSUID | kernel.MOUNT_ATTR_NODEV
_APART = _ATTRIBUTES | kernel.MOUNT_ATTR_NOEXEC


class Host(NamedTuple):
    """Descriptors (O_PATH) of what the server's view does not hold: the host's root and its procfs."""

    root: int
    proc: int


def stage() -> Host:
    """Mount an empty stage to build on; the host's tree is around it until `enter`.

    Needs CAP_SYS_ADMIN in a mount namespace of its own whose mounts are private.
    """
    host = Host(os.open("/", _DIRECTORY), os.open("/proc", _DIRECTORY))
    kernel.mount("mcpwrap", STAGE, "tmpfs", _MEMORY, _STAGE_OPTIONS)
    for path in (_NEW, _FILES):
        os.mkdir(path, 0o755)
    kernel.mount("mcpwrap", _NEW, "tmpfs", _MEMORY, _STAGE_OPTIONS)
    return host


def build(plan: Plan) -> None:
    """Build the view on the stage. Called by pid 1: a procfs is that of the pid namespace of who mounts it.

    Raises CannotConfine, which names the step.
    """
    root, host = os.open(_NEW, _DIRECTORY), os.open("/", _DIRECTORY)
    os.umask(0)
    try:
        for step in plan.steps:
            try:
                _carry_out(step, root, host)
            except OSError as error:
                raise _failure(step, error) from error
    finally:
        os.umask(0o022)
        os.close(root)
        os.close(host)


def mount_of(path: str) -> int:
    """Return an O_PATH descriptor of what stands at `path` of the view that was just built.

    It stays that mount, whatever the server does later to the names on the way to it.
    """
    root = os.open(_NEW, _DIRECTORY)
    try:
        return _find(root, path, directory=True)
    finally:
        os.close(root)


def enter(plan: Plan) -> None:
    """Seal the view, make it the root of this mount namespace, and let go of the host's tree."""
    for path in plan.sealed:
        kernel.mount_setattr(_NEW + path.rstrip("/"), set_=kernel.MOUNT_ATTR_RDONLY)
    os.chdir(_NEW)
    kernel.pivot_root(".", ".")
    kernel.umount_detach(".")
    os.chdir("/")


def _carry_out(step: Step, root: int, host: int) -> None:
    match step:
        case Proc():
            _proc(root, step)
        case Directory():
            os.close(_directory(root, step.path))
        case Link():
            _link(root, step)
        case Bind():
            source = _find(host, step.source, directory=step.directory)
            flags = kernel.MOUNT_ATTR_NOSUID if step.device else _ATTRIBUTES
            if not step.writable:
                flags |= kernel.MOUNT_ATTR_RDONLY
            if step.device or (step.writable and not step.executable):
                flags |= kernel.MOUNT_ATTR_NOEXEC
            _attach(root, step.path, source, flags, directory=step.directory)
        case Pin(directory=True):
            _attach(root, step.path, _directory(root, step.path), 0, directory=True)
        case Pin():
            _attach(root, step.path, _alone(root, step.path), _APART, directory=False)
        case Tmpfs():
            place = _directory(root, step.path)
            options = f"mode={step.mode:o},size={step.size},nr_inodes={step.inodes}"
            flags = _MEMORY & ~kernel.MS_NOEXEC if step.executable else _MEMORY
            kernel.mount("tmpfs", f"/proc/self/fd/{place}", "tmpfs", flags, options)
            os.close(place)
        case Cover(directory=True):
            place = _directory(root, step.path)
            kernel.mount("mcpwrap", f"/proc/self/fd/{place}", "tmpfs", _MEMORY, "mode=0555,size=1m")
            os.close(place)
        case Cover():
            _attach(
                root,
                step.path,
                _staged("cover", b"", 0),
                kernel.MOUNT_ATTR_RDONLY | _ATTRIBUTES,
                directory=False,
            )
        case File():
            source = _staged(step.path.replace("/", "_"), step.content, 0o444)
            _attach(root, step.path, source, kernel.MOUNT_ATTR_RDONLY | _ATTRIBUTES, directory=False)


def _proc(root: int, step: Proc) -> None:
    """The kernel allows a procfs only while another one, that nothing is mounted over, is in sight."""
    os.close(_directory(root, step.path))
    place = _NEW + step.path
    kernel.mount("proc", place, "proc", _MEMORY)
    for name in step.read_only:
        try:
            tree = kernel.open_tree(f"{place}/{name}", clone=True, recursive=True)
        except FileNotFoundError:  # not every kernel has them all
            continue
        kernel.mount_setattr("", dirfd=tree, set_=kernel.MOUNT_ATTR_RDONLY | _ATTRIBUTES, recursive=True)
        kernel.move_mount(tree, f"{place}/{name}")
        os.close(tree)


def _attach(root: int, path: str, source: int, flags: int, *, directory: bool) -> None:
    """Bind what `source` holds to `path`; `source` is closed."""
    place = _directory(root, path) if directory else _file(root, path)
    tree = kernel.open_tree("", dirfd=source, clone=True, recursive=True)
    if flags:
        kernel.mount_setattr("", dirfd=tree, set_=flags, recursive=True)
    kernel.move_mount(tree, "", dirfd=place)
    for fd in (tree, place, source):
        os.close(fd)


def _find(host: int, path: str, *, directory: bool) -> int:
    """Return an O_PATH descriptor of a host path that holds no symlink and is of the kind it was."""
    here = os.dup(host)
    for name in path.strip("/").split("/"):
        there = os.open(name, _PATH, dir_fd=here)
        os.close(here)
        here = there
    mode = os.fstat(here).st_mode
    if stat.S_ISLNK(mode) or stat.S_ISDIR(mode) != directory:
        os.close(here)
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return here


def _directory(root: int, path: str) -> int:
    """Return an O_PATH descriptor of a directory of the view, made with its parents where it is missing."""
    here = os.dup(root)
    for name in path.strip("/").split("/"):
        try:
            there = os.open(name, _DIRECTORY, dir_fd=here)
        except FileNotFoundError:
            with suppress(FileExistsError):  # another run of the same server was quicker
                os.mkdir(name, 0o755, dir_fd=here)
            there = os.open(name, _DIRECTORY, dir_fd=here)
        os.close(here)
        here = there
    return here


def _file(root: int, path: str) -> int:
    """Return an O_PATH descriptor of a file of the view, made (empty) where it is missing."""
    head, _, name = path.rpartition("/")
    parent = _directory(root, head) if head else os.dup(root)
    try:
        return os.open(name, _PATH, dir_fd=parent)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.close(os.open(name, _NEW_FILE, 0o644, dir_fd=parent))
        return os.open(name, _PATH, dir_fd=parent)
    finally:
        os.close(parent)


def _alone(root: int, path: str) -> int:
    """Return an O_PATH descriptor of a regular file that has no second name: under one it could be executed."""
    fd = _file(root, path)
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return fd
    os.close(fd)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))


def _link(root: int, step: Link) -> None:
    head, _, name = step.path.rpartition("/")
    parent = _directory(root, head) if head else os.dup(root)
    try:
        os.symlink(step.target, name, dir_fd=parent)
    except FileExistsError:
        # In the private home, from an earlier run.
        if os.readlink(name, dir_fd=parent) != step.target:
            raise
    finally:
        os.close(parent)


def _staged(name: str, content: bytes, mode: int) -> int:
    path = f"{_FILES}/{name}"
    try:
        fd = os.open(path, _NEW_FILE, mode)
    except FileExistsError:
        return os.open(path, _PATH)
    os.write(fd, content)
    os.close(fd)
    return os.open(path, _PATH)


def _failure(step: Step, error: OSError) -> CannotConfine:
    if isinstance(step, Proc):
        return Lacking(
            "namespaces",
            f"the kernel refuses a procfs of the server's own: {error.strerror}",
            "in a container: docker run --security-opt systempaths=unconfined (parts of /proc are covered there)",
        )
    where = getattr(step, "source", step.path)
    if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.EEXIST, errno.EINVAL):
        return CannotConfine(
            f"cannot place {step.path} in the sandbox: something else is in its place ({error.strerror})",
            f"look at {where}; in a server's private home ($STATE/home) what stands in the way may be moved aside",
        )
    return CannotConfine(
        f"cannot place {step.path} in the sandbox: {error.strerror}",
        f"mcpwrap show --plan prints all steps; this one is: {step.describe()}",
    )
