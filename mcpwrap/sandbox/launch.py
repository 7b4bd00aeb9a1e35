"""How the kernel gets from a command to running code: PATH, `#!` lines, shims, the script argument.

Only `stat` and the first bytes of files are read; nothing is run.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from mcpwrap.errors import CannotConfine, CommandNotFound
from mcpwrap.packages.launcher import package
from mcpwrap.packages.shims import unshimmed
from mcpwrap.sandbox.interpreters import interpreter, script_argument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwrap.packages.launcher import Package

HEAD_BYTES: Final = 256
"""What the kernel itself reads of a `#!` line (BINPRM_BUF_SIZE since 5.1); longer ones fail bare too."""

SCRIPT_DEPTH: Final = 5
"""Interpreters that are scripts themselves: execve gives up with ELOOP after this many."""

CONTAINERS: Final = ("docker", "podman", "nerdctl")
"""Clients of a daemon: the server runs there, out of reach of a sandbox around the client."""


class Launch(NamedTuple):
    """What a command runs. All paths are absolute and as written: links in them are not resolved.

    `files` are all that execve opens, in order: the command, `env`, interpreters; the last is native.
    `script` is the file the last of them is given to run, `module` the `python -m` name; "" if none.
    `arguments` are the words of the command that are the server's own. `package` is what a package launcher
    (npx, uvx, ...) fetches and runs; None for every other command.
    """

    files: tuple[str, ...]
    script: str
    module: str
    arguments: tuple[str, ...]
    package: Package | None = None

    @property
    def interpreter(self) -> str:
        """The native program at the end of the chain."""
        return self.files[-1]


def launch(command: Sequence[str], environ: Mapping[str, str], cwd: str) -> Launch:
    """Follow `command` to the native program that will run it.

    Raises CommandNotFound, and CannotConfine for commands whose server is not the process they start.
    """
    if not command or not command[0]:
        raise CommandNotFound("no command after `--`", "mcpwrap [OPTIONS] -- COMMAND [ARGUMENT...]")
    _refuse_unheld(command)
    asked = package(command)
    path = program(command[0], environ, cwd)
    files = _follow(path, environ, cwd)
    words = command[1:]
    if asked is not None:
        return Launch(files, path if len(files) > 1 else "", "", asked.arguments, asked)
    if len(files) > 1:
        return Launch(files, path, "", tuple(words))
    grammar = interpreter(path)
    if grammar is None:
        return Launch(files, "", "", tuple(words))
    script, module, used = script_argument(words, grammar)
    if script:
        script = os.path.join(cwd, script)
        if not os.path.exists(script):
            raise CommandNotFound(f"`{command[0]}` is given {script!r} to run, which does not exist")
    return Launch(files, script, module, tuple(words[used:]))


def find(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the absolute path of a program as `execvp` finds it, except that PATH entries which are
    relative to the working directory are passed over: a repository must not choose what runs.

    Raises CommandNotFound.
    """
    if "/" in name:
        path = os.path.join(cwd, name)
        if not os.path.exists(path):
            raise CommandNotFound(f"{path!r} does not exist")
        if not executable(path):
            raise CommandNotFound(f"{path!r} is not an executable file")
        return path
    directories = [entry for entry in environ.get("PATH", os.defpath).split(":") if entry.startswith("/")]
    for directory in directories:
        path = os.path.join(directory, name)
        if executable(path):
            return path
    raise CommandNotFound(
        f"no program `{name}` on PATH ({':'.join(directories)})",
        "give its absolute path: a client started from the desktop has no PATH of nvm, pyenv or your shell",
    )


def executable(path: str) -> bool:
    """Whether `path` is a regular file this user may execute."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def head(path: str, size: int = HEAD_BYTES) -> bytes:
    """Return the first bytes of a file, as many as the kernel looks at; nothing if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except OSError:
        return b""


def _refuse_unheld(command: Sequence[str]) -> None:
    name = os.path.basename(command[0])
    if name in CONTAINERS:
        raise CannotConfine(
            f"`{name}` only talks to a daemon that runs the server: outside of any sandbox made here",
            "run the server's own command under mcpwrap, without the container",
        )


def _follow(path: str, environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """Return the files execve opens for `path`, itself first."""
    files = [path]
    for _ in range(SCRIPT_DEPTH):
        line = head(files[-1])
        if not line.startswith(b"#!"):
            if line[:4] != b"\x7fELF":
                raise CommandNotFound(
                    f"{files[-1]!r} is neither a native program nor a script with a `#!` line"
                )
            return tuple(files)
        named, _, words = os.fsdecode(line[2:].split(b"\n", 1)[0]).strip().partition(" ")
        if not named.startswith("/"):
            raise CommandNotFound(f"the `#!` line of {files[-1]!r} names no absolute path")
        files.append(find(named, environ, cwd))
        if os.path.basename(named) == "env":
            wanted = _program_of_env(words)
            if not wanted:
                raise CommandNotFound(f"the `#!` line of {files[-2]!r} gives `env` no program")
            files.append(_interpreter(wanted, files[-2], environ, cwd))
    raise CommandNotFound(f"{path!r}: its interpreters are scripts, more than {SCRIPT_DEPTH} deep")


def _interpreter(name: str, script: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the program that `env` finds for a script's `#!` line. Raises CommandNotFound."""
    try:
        return program(name, environ, cwd)
    except CommandNotFound as missing:
        beside = os.path.join(os.path.dirname(script), name)
        if not executable(beside):
            raise
        # nvm, fnm: the directory is on the PATH of a shell, and of no client started from a desktop.
        path = f"{os.path.dirname(beside)}:{environ.get('PATH', os.defpath)}"
        raise CommandNotFound(
            missing.what, f'it is beside the command; in the client\'s config: "env": {{"PATH": "{path}"}}'
        ) from None


def _program_of_env(words: str) -> str:
    """Return what `env [-S] [-i] [NAME=VALUE...] PROGRAM` would run."""
    for word in words.split():
        word = word.removeprefix("-S")
        if word and not word.startswith("-") and "=" not in word:
            return word
    return ""


def program(name: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the absolute path of a program as `find` does, shims of version managers followed.

    Raises CommandNotFound.
    """
    path = find(name, environ, cwd)
    real = unshimmed(path, environ, cwd)
    if real:
        return real
    shims = os.path.dirname(path)
    elsewhere = ":".join(entry for entry in environ.get("PATH", "").split(":") if entry != shims)
    return program(os.path.basename(name), {**environ, "PATH": elsewhere}, cwd)


def behind_shims(names: Iterable[str], environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """Return the directories of those of `names` that PATH has as shims only: the server's PATH needs them first,
    because a shim does not run inside.
    """
    found: dict[str, None] = {}
    for name in names:
        try:
            path = program(name, environ, cwd)
            shim = find(name, environ, cwd)
        except CommandNotFound:
            continue
        if path != shim:
            found[os.path.dirname(path)] = None
    return tuple(found)
