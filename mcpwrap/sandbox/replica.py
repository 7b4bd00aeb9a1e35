"""A writable copy of the command's own installation (`install_write = "copy"`): some servers write beside their code.

Data is copied; what is native (libraries, programs, scripts with a `#!` line) is not: the original is bound over
its place, so that nothing the server could write is ever mapped or executed. A copy is kept from run to run,
with what the server wrote in it, until the original changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.system import within

if TYPE_CHECKING:
    from mcpwrap.sandbox.installation import Installation

MAX_BYTES: Final = 1024**3
"""Of all that is copied for one server. Environments with a machine learning framework are larger; those write
to their caches, which need no copy."""

MAX_FILES: Final = 100_000
"""Names in it. The largest node_modules of a survey of servers had some 40,000."""

MAX_NATIVE: Final = 2_000
"""Native files in it, each a mount of its own (50 µs)."""

STORE: Final = "~copies"
"""The directory beside the $STATE of all servers that holds the copies; no server's name begins so. Out of the
server's reach but for the places they are shown at: what it wrote must not decide what counts as the original."""

_ELF: Final = b"\x7fELF"
_HEAD: Final = 4
_EXECUTABLE: Final = 0o111
_LOCK: Final = "lock"

_WAY_OUT: Final = (
    "install the server in a directory of its own (a virtual environment, npm install --prefix),\n"
    "or take the line install_write out"
)


class Replica(NamedTuple):
    """One root of the installation: shown at `root`, kept at `source`. `native`: files in it bound as they are."""

    root: str
    source: str
    native: tuple[str, ...]
    directory: bool


class _File(NamedTuple):
    path: str
    status: os.stat_result


def survey(found: Installation, state: str) -> tuple[Replica, ...]:
    """Return the copies a server needs whose $STATE is `state`; reads only.

    Raises CannotConfine where there is nothing to copy, or too much.
    """
    interpreter = found.programs[-1]
    roots = [
        root
        for root in found.roots
        # An interpreter's prefix belongs to all its programs, unless the server is installed into it.
        if os.path.realpath(root) == root
        and (not within(interpreter, [root]) or within(os.path.realpath(found.program), [root]))
        and root != interpreter
    ]
    roots = [root for root in roots if os.path.isdir(root) or not _is_native(_File(root, os.lstat(root)))]
    if not roots:
        raise CannotConfine(
            'install_write = "copy": the server has no installation of its own beside the system\'s', _WAY_OUT
        )
    files = {root: list(_walk(root)) for root in roots}
    _check(files)
    digest = _digest(files)
    store = os.path.join(os.path.dirname(os.path.realpath(state)), STORE, os.path.basename(state), digest)
    return tuple(
        Replica(
            root,
            os.path.join(store, str(number)),
            tuple(each.path for each in files[root] if _is_native(each)),
            os.path.isdir(root),
        )
        for number, root in enumerate(roots)
    )


def copy(replicas: Sequence[Replica]) -> int:
    """Make the copies that are not there yet, remove outdated ones; return a descriptor that holds them in use.

    Raises CannotConfine if they cannot be written.
    """
    store = os.path.dirname(replicas[0].source)
    above = os.path.dirname(store)
    try:
        os.makedirs(above, 0o700, exist_ok=True)
        if not os.path.isdir(store):
            _remove_outdated(above)
            _fill(store, replicas)
        held = os.open(os.path.join(store, _LOCK), os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(held, fcntl.LOCK_SH)
        return held
    except OSError as error:
        raise CannotConfine(
            f"the copy of the server's installation cannot be made: {error}",
            f"look at {above}; it may be removed",
        ) from error


def _walk(root: str) -> Iterator[_File]:
    """Yield `root` and everything below it, parents first, in the order of their names."""
    todo = [root]
    while todo:
        path = todo.pop()
        try:
            status = os.lstat(path)
            if stat.S_ISDIR(status.st_mode):
                todo += sorted((os.path.join(path, name) for name in os.listdir(path)), reverse=True)
        except OSError as error:
            raise CannotConfine(f"{path} cannot be copied: {error.strerror}", _WAY_OUT) from error
        yield _File(path, status)


def _check(files: dict[str, list[_File]]) -> None:
    everything = [each for root in files.values() for each in root]
    size = sum(each.status.st_size for each in everything if stat.S_ISREG(each.status.st_mode))
    if size > MAX_BYTES or len(everything) > MAX_FILES:
        raise CannotConfine(
            f'install_write = "copy": {", ".join(files)} hold {len(everything):,} files of {size >> 20:,} MiB; '
            f"at most {MAX_FILES:,} files of {MAX_BYTES >> 20:,} MiB are copied",
            _WAY_OUT,
        )


def _digest(files: dict[str, list[_File]]) -> str:
    """Return a digest of names, kinds, sizes and times: what changes when a package is installed anew."""
    digest = hashlib.sha256()
    for root in files.values():
        for path, status in root:
            target = os.readlink(path) if stat.S_ISLNK(status.st_mode) else ""
            size, when = (0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)
            digest.update(
                f"{path}\0{status.st_mode}\0{size}\0{when}\0{target}\n".encode("utf-8", "surrogateescape")
            )
    return digest.hexdigest()[:32]


def _is_native(file: _File) -> bool:
    mode = file.status.st_mode
    if not stat.S_ISREG(mode) or file.status.st_size < _HEAD:
        return False
    try:
        with open(file.path, "rb", buffering=0) as opened:
            head = opened.read(_HEAD)
    except OSError as error:
        raise CannotConfine(f"{file.path} cannot be copied: {error.strerror}", _WAY_OUT) from error
    return head == _ELF or bool(mode & _EXECUTABLE and head.startswith(b"#!"))


def _fill(store: str, replicas: Sequence[Replica]) -> None:
    making = f"{store}.{os.getpid()}"
    os.mkdir(making, 0o700)
    try:
        for replica in replicas:
            native = set(replica.native)
            if len(native) > MAX_NATIVE:
                raise CannotConfine(
                    f"{replica.root} holds {len(native):,} native files, each a mount of its own; at most "
                    f"{MAX_NATIVE:,} are bound",
                    _WAY_OUT,
                )
            directories = []
            for path, status in _walk(replica.root):
                target = os.path.join(making, os.path.basename(replica.source)) + path[len(replica.root) :]
                _one(path, target, status, native=path in native)
                if stat.S_ISDIR(status.st_mode):
                    directories.append((target, status))
            for target, status in reversed(directories):  # their times, once nothing is made in them any more
                os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
        with open(os.path.join(making, _LOCK), "w"):
            pass
        try:
            os.rename(making, store)
        except OSError:
            if not os.path.isdir(store):  # another run of the same server was quicker
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)


def _one(path: str, target: str, status: os.stat_result, *, native: bool) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode):
        os.mkdir(target, 0o700)
    elif stat.S_ISLNK(mode):
        os.symlink(os.readlink(path), target)
    elif native:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o400))
    elif stat.S_ISREG(mode):
        shutil.copyfile(path, target)
        os.chmod(target, 0o600)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))  # compiled Python files go by it


def _remove_outdated(above: str) -> None:
    """Remove the copies of what the installation was before, but for those some run still has in use."""
    for name in os.listdir(above):
        old = os.path.join(above, name)
        try:
            held = os.open(os.path.join(old, _LOCK), os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue  # not finished, by this very moment or for good: a few bytes of a start that was killed
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(old, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(held)
