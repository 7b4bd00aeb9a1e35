"""execve, execveat: decided on the real file, left to the kernel, verified at the next trap.

The kernel reads the path again after the decision, so a second thread can change it in between.
Landlock's EXECUTE right bounds what it can be changed to (any program of any tool's grant), and
the first trap of the new image (its C library calls arch_prctl or set_tid_address) shows what
really runs: if it is not what was decided on, the tree is ended.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.broker.request import AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, Caller
from mcpwrap.broker.resolve import Found, failure
from mcpwrap.operation import Decision, Need

if TYPE_CHECKING:
    from mcpwrap.broker.session import Session

SCRIPT_HEAD = 256
"""Bytes of a script the kernel reads for its `#!` line: BINPRM_BUF_SIZE of include/uapi/linux/binfmts.h."""

SCRIPT_DEPTH = 5
"""Interpreters that may be scripts themselves: the limit of exec_binprm in fs/exec.c."""

MAX_PENDING = 1_024
"""Executions not yet verified; beyond, those whose process is gone are forgotten."""

Identity = tuple[int, int]


class WrongImage(Exception):
    """A process runs another program than was decided on; the tree must end."""


class Expected(NamedTuple):
    """What must be seen at the next trap: `program`, and the `script` path its command line must name.

    `before` is the image that executes; seeing it still means that the call has failed or not yet happened.
    """

    program: Identity
    path: str
    script: bytes
    before: Identity


class Executions:
    """Decides executions and remembers what each one was allowed to become."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.pending: dict[int, Expected] = {}

    def allow(self, caller: Caller, dirfd: int, path: bytes, flags: int) -> None:
        """Decide one execve(at); returns if the kernel shall make it. Raises OSError if not."""
        session = self._session
        found = self._look_up(caller, dirfd, path, flags)
        try:
            program, script = self._program(caller, found, path)
            try:
                group = caller.thread_group()
                if len(self.pending) >= MAX_PENDING:
                    self.pending = {
                        pid: each for pid, each in self.pending.items() if os.path.exists(str(pid))
                    }
                if len(self.pending) >= MAX_PENDING:
                    raise failure(errno.EAGAIN)
                if not session.verdicts.unchanged():
                    session.verdicts.refresh()
                    self._program(caller, found, path)[0].close()
                self.pending[group] = Expected(
                    program.identity, program.path, script, Caller(group, caller.proc).image()
                )
            finally:
                program.close()
        finally:
            found.close()

    def verify(self, caller: Caller) -> None:
        """Check what the process `caller.pid` runs now against what it was allowed to become.

        Raises WrongImage. Nothing is pending for almost every trap; the caller asks that first.
        """
        expected = self.pending[caller.pid]
        try:
            image = caller.image()
            if image == expected.program:
                if expected.script and expected.script not in caller.read("cmdline", 16_384).split(b"\0")[:4]:
                    raise WrongImage(
                        f"{expected.path} runs another script than {os.fsdecode(expected.script)}"
                    )
            elif image == expected.before:
                return
            else:
                raise WrongImage(f"another program runs in the place of {expected.path}")
        except (FileNotFoundError, ProcessLookupError):
            pass  # it is gone, and with it what it ran
        del self.pending[caller.pid]

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

    def _program(self, caller: Caller, found: Found, written: bytes) -> tuple[Found, bytes]:
        """Decide on a file and its interpreters; return what will run, and the script path it is given."""
        session = self._session
        if not found.stat.st_mode & 0o111:
            raise failure(errno.EACCES)
        session.require(caller, "exec", Need.EXEC, found, written=os.fsdecode(written))
        script = b""
        current = Found(os.dup(found.fd))
        try:
            for _ in range(SCRIPT_DEPTH):
                interpreter = _interpreter(current)
                if interpreter is None:
                    return current, script
                following = self._look_up(caller, AT_FDCWD, interpreter, 0)
                decision = session.verdicts.effective.interpreter(
                    current.path, following.path, identity=current.identity
                )
                if not decision.allowed:
                    following.close()
                    raise session.refuse(caller, "exec", Need.EXEC, os.fsdecode(interpreter), decision)
                script = script or written
                current.close()
                current = following
            rule = Decision(False, "script-depth")
            raise session.refuse(caller, "exec", Need.EXEC, found.path, rule, error=errno.ELOOP)
        except BaseException:
            current.close()
            raise


def _interpreter(found: Found) -> bytes | None:
    """Return the interpreter a `#!` line names, None if the file is no script."""
    fd = found.reopen(os.O_RDONLY)
    try:
        head = os.pread(fd, SCRIPT_HEAD, 0)
    finally:
        os.close(fd)
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].split(None, 1)
    if not words:
        raise failure(errno.ENOEXEC)
    return words[0]


def _runs(pid: int, proc: int) -> bool:
    try:
        Caller(pid, proc).image()
    except OSError:
        return False
    return True
