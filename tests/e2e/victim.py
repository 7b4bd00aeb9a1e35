"""The hostile server of tests/victims behind mcpwrap, and what the host must look like afterwards."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.e2e.client import Handler, Message, Session, text
from tests.e2e.corpus import Bench, bench, fill, mcpwrap

SERVER = Path(__file__).resolve().parents[1] / "victims" / "server.py"
DEPRIVED = SERVER.parent / "deprived.py"
SECRET = "SECRET-B"
REFUSALS = ("EACCES", "EPERM", "EROFS", "ENOSYS", "ENOENT", "ENOTSUP", "EXDEV")
"""What a refused system call may return: ENOENT where the sandbox's view has no such thing, ENOTSUP for O_TMPFILE."""


class Victim:
    """A work directory and one running hostile server over it.

    `how`: `mcpwrap` or `bare`. `launcher`: another command than `mcpwrap` (a driver that takes out a
    layer). `options`: more options of mcpwrap. `lacking`: what the machine shall lack, see
    tests/victims/deprived.py.
    """

    def __init__(
        self,
        name: str,
        how: str = "mcpwrap",
        *,
        setup: str = "",
        options: Sequence[str] = (),
        launcher: Sequence[str] | None = None,
        grant: str = "victim",
        env: Mapping[str, str] | None = None,
        handlers: Mapping[str, Handler] | None = None,
        lacking: str = "",
    ) -> None:
        self.place: Bench = bench(name, "mkdir -p data/other; echo OTHER > data/other/file\n" + setup, env)
        self.data = self.place.work / "data"
        command = [sys.executable, "-B", str(SERVER)]
        if how == "mcpwrap":
            file = self.place.write_grant(grant)
            deprived = [sys.executable, "-I", "-B", str(DEPRIVED), lacking] if lacking else []
            command = [*deprived, *(launcher or mcpwrap()), "--grant", str(file), *options, "--", *command]
        self.lacking = lacking
        self._command, self._handlers = command, handlers
        self.session = self._start()

    def _start(self) -> Session:
        session = Session(
            self._command,
            env=self.place.env,
            cwd=self.data,
            stderr=self.place.work / "stderr",
            handlers=self._handlers,
        )
        try:
            session.initialize()
            session.answer(session.request("tools/list"))
        except BaseException:
            session.close()
            raise
        return session

    @property
    def temporary(self) -> str:
        """The server's own place for temporary files, as it names it itself."""
        return text(self.act("nothing", "temporary_directory"))

    def restart_if_dead(self) -> None:
        """Start the server again if an act ended it."""
        if self.session.ended or self.session.process.poll() is not None:
            self.session.close()
            self.session = self._start()

    def case(self, name: str) -> Path:
        """Make data/NAME with two files, a repository and a secret, and return it."""
        directory = self.data / name
        (directory / "r" / ".git" / "hooks").mkdir(parents=True)
        (directory / "r" / "sub" / ".git").mkdir(parents=True)
        (directory / "empty").mkdir()
        (directory / "a.txt").write_text("mine\n")
        (directory / "b.txt").write_text(f"{SECRET}\n")
        os.setxattr(directory / "b.txt", "user.note", SECRET.encode())
        (directory / ".env").write_text(f"KEY={SECRET}\n")
        (directory / "r" / "f").write_text("file\n")
        (directory / "r" / ".ENV").write_text(f"KEY={SECRET}\n")
        (directory / "r" / ".git" / "config").write_text("[core]\n")
        (directory / "r" / "sub" / ".git" / "config").write_text("[core]\n")
        (directory / "link.txt").symlink_to("b.txt")
        (directory / "link_out").symlink_to(self.place.work / "out" / "secret.txt")
        return directory

    def start(self, tool: str, name: str, bound: Mapping[str, Any] | None = None, /, **acts: Any) -> int:
        """Send a call that performs an act, and return its id; `bound` holds what the grant binds."""
        return self.session.start_call(tool, {"act": name, "with": acts, **(bound or {})})

    def act(self, tool: str, name: str, bound: Mapping[str, Any] | None = None, /, **acts: Any) -> Message:
        """Perform an act in a call of `tool` and return the answer."""
        return self.session.answer(self.start(tool, name, bound, **acts))

    def close(self) -> int | None:
        """End the session and return its status."""
        return self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def refused(answer: Message) -> bool:
    """Tell whether an act was refused by an errno, and gave nothing away."""
    said = text(answer)
    return said.startswith(REFUSALS) and SECRET not in said and "TOP-SECRET" not in said


def snapshot(directory: Path) -> dict[str, tuple[object, ...]]:
    """Return type, mode, times, attributes and content of all below `directory`, as the host sees them."""
    found: dict[str, tuple[object, ...]] = {}
    for path in [directory, *sorted(directory.rglob("*"))]:
        status = path.lstat()
        held: object = None
        if stat.S_ISREG(status.st_mode):
            held = (path.read_bytes(), status.st_mtime_ns, status.st_nlink)
        elif stat.S_ISLNK(status.st_mode):
            held = os.readlink(path)
        attributes = () if path.is_symlink() else tuple(os.listxattr(path))
        found[str(path.relative_to(directory))] = (status.st_mode, held, attributes)
    return found


def filled(value: Any, directory: Path, work: Path) -> Any:
    """Return `value` with {D} (the case's directory) and {W} (the work directory) replaced."""
    if isinstance(value, str):
        return str(fill(value.replace("{D}", str(directory)), work))
    if isinstance(value, list):
        return [filled(item, directory, work) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, directory, work) for key, item in value.items()}
    return value
