"""execve, execveat: decided on the real file, left to the kernel, verified at the next trap.

The kernel reads the path again after the decision, so a second thread can change it in between.
Landlock's EXECUTE right bounds what it can be changed to (any program of any tool's grant), and
the first trap of the new image (its C library calls arch_prctl or set_tid_address) shows what
really runs: if it is not what was decided on, the tree is ended.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.broker.request import AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, Caller
from mcpwrap.broker.resolve import Found, failure
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.broker.session import Session

SCRIPT_HEAD = 256
"""Bytes of a script the kernel reads for its `#!` line: BINPRM_BUF_SIZE of include/uapi/linux/binfmts.h."""

SCRIPT_DEPTH = 5
"""Interpreters that may be scripts themselves: the limit of exec_binprm in fs/exec.c."""

COMMAND_LINE = 16_384
"""Bytes of a command line that are compared: more than `SCRIPT_DEPTH` `#!` lines and a path."""

MAX_PENDING = 1_024
"""Executions not yet verified; beyond, those whose process is gone are forgotten."""

_BLANKS = re.compile(rb"[ \t]+")
Identity = tuple[int, int]


class WrongImage(Exception):
    """A process runs another program than was decided on; the tree must end."""


class Expected(NamedTuple):
    """What must be seen once the execution has happened.

    `program` is the file, `path` its name, `arguments` what the command line must begin with (empty unless a
    script is run), `cwd` where a relative one is looked for. `before` is the layout of the memory that
    executes, `started` the process's own time of start: another one is another process under the same number.
    """

    program: Identity
    path: str
    arguments: tuple[bytes, ...]
    before: tuple[bytes, ...]
    started: bytes
    cwd: Identity | None


class Executions:
    """Decides executions and remembers what each one was allowed to become."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.pending: dict[int, Expected] = {}

    def allow(self, caller: Caller, dirfd: int, path: bytes, flags: int) -> None:
        """Decide one execve(at); returns if the kernel shall make it. Raises OSError if not."""
        session = self._session
        group = Caller(caller.thread_group(), caller.proc)
        found = self._look_up(caller, dirfd, path, flags)
        try:
            if session.inner is not None:
                session.inner.require_plain(caller, group, found.path)
            self._make_room(group)
            expected = self._decide(caller, group, found, dirfd, path)
            if not session.verdicts.unchanged():
                session.verdicts.refresh()
                expected = self._decide(caller, group, found, dirfd, path)
            self.pending[group.pid] = expected
        finally:
            found.close()

    def verify(self, caller: Caller) -> None:
        """Check what the process `caller.pid` runs now against what it was allowed to become.

        Raises WrongImage. Nothing is pending for almost every trap; the caller asks that first. As long
        as the memory is laid out as before, the execution has failed or not yet happened.
        """
        expected = self.pending[caller.pid]
        try:
            started, layout = caller.layout()
            if started == expected.started:
                if layout == expected.before:
                    return
                if caller.identity("exe") != expected.program:
                    raise WrongImage(f"another program runs in the place of {expected.path}")
                if expected.cwd is not None and caller.identity("cwd") != expected.cwd:
                    raise WrongImage(f"{expected.path} looks for its script in another directory")
                words = caller.read("cmdline", COMMAND_LINE).split(b"\0")
                if tuple(words[: len(expected.arguments)]) != expected.arguments:
                    raise WrongImage(f"{expected.path} runs another script than was decided on")
        except (FileNotFoundError, ProcessLookupError):
            pass  # it is gone, and with it what it ran
        except OSError as error:
            raise WrongImage(f"{expected.path} cannot be looked at: {error.strerror}") from error
        del self.pending[caller.pid]

    def _make_room(self, group: Caller) -> None:
        if len(self.pending) < MAX_PENDING:
            return
        self.pending = {
            pid: each
            for pid, each in self.pending.items()
            if _started(Caller(pid, group.proc)) == each.started
        }
        if len(self.pending) >= MAX_PENDING:
            raise failure(errno.EAGAIN)

    def _decide(self, caller: Caller, group: Caller, found: Found, dirfd: int, path: bytes) -> Expected:
        program, arguments = self._program(caller, found, dirfd, path)
        try:
            started, layout = group.layout()
            relative = bool(arguments) and not path.startswith(b"/")
            cwd = group.identity("cwd") if relative else None
            return Expected(program.identity, program.path, arguments, layout, started, cwd)
        finally:
            program.close()

    def _look_up(self, caller: Caller, dirfd: int, path: bytes, flags: int) -> Found:
        session = self._session
        if not path and flags & AT_EMPTY_PATH:
            found = Found(caller.descriptor(dirfd))
        else:
            follow = not flags & AT_SYMLINK_NOFOLLOW
            try:
                found = session.resolver.find(caller, dirfd, path, follow=follow)
            except FileNotFoundError:
                raise session.absent(caller, dirfd, path, "exec", Need.EXEC, creating=False) from None
        if stat.S_ISREG(found.stat.st_mode) and found.path.startswith("/") and found.stat.st_nlink:
            return found
        found.close()
        raise failure(errno.EACCES)

    def _program(
        self, caller: Caller, found: Found, dirfd: int, path: bytes
    ) -> tuple[Found, tuple[bytes, ...]]:
        """Decide on a file and its interpreters; return what will run and what its arguments must begin with."""
        session = self._session
        if not found.stat.st_mode & 0o111:
            raise failure(errno.EACCES)
        written = _as_passed_on(dirfd, path)
        session.require(caller, "exec", Need.EXEC, found, written=os.fsdecode(written))
        arguments: tuple[bytes, ...] = ()
        current = Found(os.dup(found.fd))
        try:
            for _ in range(SCRIPT_DEPTH):
                interpreter = _interpreter(current)
                if interpreter is None:
                    return current, arguments
                if not arguments:
                    self._require_fixed(caller, found, dirfd, path)
                    arguments = (written,)
                arguments = (*interpreter, *arguments)
                following = self._look_up(caller, AT_FDCWD, interpreter[0], 0)
                decision = session.verdicts.effective.interpreter(
                    current.path, following.path, identity=current.identity
                )
                if not decision.allowed:
                    following.close()
                    raise session.refuse(caller, "exec", Need.EXEC, os.fsdecode(interpreter[0]), decision)
                current.close()
                current = following
            rule = Decision(False, "script-depth")
            raise session.refuse(caller, "exec", Need.EXEC, found.path, rule, error=errno.ELOOP)
        except BaseException:
            current.close()
            raise

    def _require_fixed(self, caller: Caller, found: Found, dirfd: int, path: bytes) -> None:
        """Raise OSError EACCES for a script by a name the server could turn to another file.

        The interpreter opens the script again by that name, when the kernel's part is long over.
        """
        session = self._session
        written = session.absolute(caller, dirfd, path) if path else found.path
        held = dirfd != AT_FDCWD and not path.startswith(b"/")
        # With a sandbox inside, another process may share the working directory, also after an execution.
        shared = session.inner is not None and not path.startswith(b"/")
        if not (held or shared) and os.path.normpath(written) == found.path:
            return
        changeable = session.verdicts.effective.changeable
        by_descriptor = written.startswith(("/proc/", "/dev/fd/"))
        if (
            held
            or by_descriptor
            or shared
            or "/../" in written
            or any(os.path.islink(each) and changeable(each) for each in _upward(written))
        ):
            raise session.refuse(caller, "exec", Need.EXEC, found.path, Decision(False, "writable"))


def _interpreter(found: Found) -> tuple[bytes, ...] | None:
    """Return the interpreter a `#!` line names and its one argument, if any; None if the file is no script."""
    fd = found.reopen(os.O_RDONLY)
    try:
        head = os.pread(fd, SCRIPT_HEAD, 0)
    finally:
        os.close(fd)
    if not head.startswith(b"#!"):
        return None
    words = _BLANKS.split(head[2:].split(b"\n", 1)[0].strip(b" \t"), maxsplit=1)
    if not words[0]:
        raise failure(errno.ENOEXEC)
    return tuple(words)


def _as_passed_on(dirfd: int, path: bytes) -> bytes:
    """Return the name the kernel gives an interpreter for its script (`bprm->filename` of fs/exec.c)."""
    if dirfd == AT_FDCWD or path.startswith(b"/"):
        return path
    return b"/dev/fd/%d" % dirfd + (b"/" + path if path else b"")


def _upward(path: str) -> Iterator[str]:
    """Yield the normalized `path` and every directory above it but the root."""
    path = os.path.normpath(path)
    while path != "/":
        yield path
        path = os.path.dirname(path)


def _started(caller: Caller) -> bytes:
    try:
        return caller.layout()[0]
    except (FileNotFoundError, ProcessLookupError):
        return b""
