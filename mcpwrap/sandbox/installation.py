"""What a server's command is, and what of the machine it needs just to run.

The one facade over the modules beside it: from the command as given to the program, the roots it is
installed in, the files execve opens, and the name it is filed under. All of it is read, nothing is run.
Nothing here is writable for the server: a root below a granted directory is still bound read-only over it.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.errors import Error
from mcpwrap.sandbox import system
from mcpwrap.sandbox.identity import passwd_home
from mcpwrap.sandbox.interpreters import family
from mcpwrap.sandbox.launch import Launch, behind_shims, executable, head, launch
from mcpwrap.sandbox.named import named_paths
from mcpwrap.sandbox.registry_name import environment_of, file_name, npm_name, pypi_name
from mcpwrap.sandbox.roots import (
    Bounds,
    canonical,
    roots_of_interpreter,
    roots_of_script,
    top_node_modules,
    virtual_environment,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mcpwrap.packages.launcher import Package

TRAMPOLINE = re.compile(rb"#!.*/sh\n'''exec' ")
"""How pip and uv start a script whose interpreter's path does not fit a `#!` line, or may move."""

RUNTIMES = ("node", "python", "bun", "deno")
"""Families of interpreters that have a profile."""

INTERPRETERS = ("node", "python3")
"""What scripts and launchers look for on PATH."""

TRAMPOLINE_PROGRAMS = ("dirname", "realpath")
"""What uv's form of it runs."""


class Installation(NamedTuple):
    """A command on this machine. All paths are absolute; lists are in order and without repeats.

    `program`   what to exec, with `argv[0]` equal to it: Python finds its environment by that path.
    `roots`     directories and files readable always; where links lead to one, both spellings.
    `programs`  real paths of the executable files of the command itself: script, `env`, interpreter.
    `profiles`  names of the runtime's or launcher's profile: `("node",)`, `("npx",)` or none.
    `loaders`   real paths of dynamic loaders: opened by execve, never a program.
    `system`    readable parts of the system.
    `named`     existing paths of any kind in the command's arguments and in `values`: found, not judged.
    `name`      `npm/...`, `pypi/...`, `jsr/...` or `file/...`.
    `path`      directories to be put first on the server's PATH: programs behind shims, which do not run inside.
    `package`   what a package launcher fetches and runs, None for any other command.
    """

    program: str
    roots: tuple[str, ...]
    programs: tuple[str, ...]
    profiles: tuple[str, ...]
    loaders: tuple[str, ...]
    system: tuple[str, ...]
    named: tuple[str, ...]
    name: str
    path: tuple[str, ...] = ()
    package: Package | None = None


NO_INSTALLATION = Installation("", (), (), (), (), (), (), "")
"""Stands for that of any server, where a grant is judged without one."""


def installation(
    command: Sequence[str], environ: Mapping[str, str], cwd: str, values: Sequence[str] = ()
) -> Installation:
    """Look up `command` with PATH and HOME of `environ` in the absolute directory `cwd`.

    `values` are values of the environment that was made for this server, searched for named paths too.
    Raises CommandNotFound, and CannotConfine for launchers whose server cannot be held.
    """
    readable = system.readable()
    start = _landing(launch(command, environ, cwd), readable, environ, cwd)
    bounds = Bounds(environ.get("HOME", ""), passwd_home(), cwd)
    roots = _roots(start, bounds)
    files = list(start.files)
    if TRAMPOLINE.match(head(start.files[0])):
        files += _trampoline(start.files[0], environ)
    if start.package is not None:
        files += _beside(start.files[0], start.package)
    python = next((path for path in files if family(path) == "python"), "")
    user = _user_site(python, environ) if python and not _environment(start, python) else ""
    roots += [user] if user else []
    native = os.path.realpath(start.interpreter)
    return Installation(
        program=start.files[0],
        roots=_pruned(roots, readable),
        programs=tuple(dict.fromkeys(os.path.realpath(path) for path in files)),
        profiles=(start.package.profile,)
        if start.package is not None
        else tuple(kind for kind in RUNTIMES if any(family(path) == kind for path in files)),
        loaders=system.loaders(native),
        system=readable,
        named=named_paths([*start.arguments, *values], cwd),
        name=start.package.name if start.package is not None else _name(start, python, user),
        path=behind_shims([os.path.basename(command[0]), *INTERPRETERS], environ, cwd),
        package=start.package,
    )


def program_roots(program: str, environ: Mapping[str, str], cwd: str) -> tuple[str, ...]:
    """Return the directories that a *granted* program needs to run: its own installation, beyond the system.

    `program` is absolute. Nothing for what cannot be started at all: then there is nothing to be read.
    """
    try:
        start = launch([program], environ, cwd)
    except Error:
        return ()
    bounds = Bounds(environ.get("HOME", ""), passwd_home(), cwd)
    return _pruned(_roots(start, bounds), system.readable())


def _roots(start: Launch, bounds: Bounds) -> list[str]:
    roots = roots_of_interpreter(start.interpreter, bounds, named_by_script=len(start.files) > 1)
    if start.script:
        roots += roots_of_script(start.script, start.interpreter, bounds)
    return roots


def _landing(start: Launch, readable: tuple[str, ...], environ: Mapping[str, str], cwd: str) -> Launch:
    """Follow the command's own link out of a shared `bin`, into the package or environment it belongs to.

    Not farther: a virtual environment's `bin/python` is a link too, and is what makes it that environment.
    """
    first = path = canonical(start.files[0])
    while os.path.islink(path) and not (
        system.within(path, readable) or virtual_environment(path) or top_node_modules(path)
    ):
        path = canonical(os.path.join(os.path.dirname(path), os.readlink(path)))
    if path == first:
        return Launch(
            (path, *start.files[1:]),
            path if start.script == start.files[0] else start.script,
            start.module,
            start.arguments,
            start.package,
        )
    if len(start.files) > 1:
        return launch([path, *start.arguments], environ, cwd)._replace(package=start.package)
    return Launch((path,), start.script, start.module, start.arguments, start.package)


def _trampoline(script: str, environ: Mapping[str, str]) -> list[str]:
    """Return what a `'''exec'` script runs beside `sh`: its environment's python, and two of coreutils."""
    beside = os.path.join(os.path.dirname(script), "python")
    found = [beside] if executable(beside) else []
    for directory in environ.get("PATH", os.defpath).split(":"):
        found += [path for name in TRAMPOLINE_PROGRAMS if executable(path := os.path.join(directory, name))]
    return found


def _beside(launcher: str, package: Package) -> list[str]:
    """Return the programs that are a launcher's other half: `uvx` starts the `uv` of its own directory."""
    if package.profile != "uvx":
        return []
    directories = dict.fromkeys((os.path.dirname(launcher), os.path.dirname(os.path.realpath(launcher))))
    return [path for each in directories if executable(path := os.path.join(each, "uv"))]


def _environment(start: Launch, python: str) -> str:
    return environment_of(start.files[0]) or environment_of(python)


def _user_site(python: str, environ: Mapping[str, str]) -> str:
    """Return `~/.local/lib/python3.X/site-packages` if a Python outside any environment has one."""
    base = environ.get("PYTHONUSERBASE") or os.path.join(environ.get("HOME", ""), ".local")
    path = os.path.join(base, "lib", os.path.basename(os.path.realpath(python)), "site-packages")
    return path if path.startswith("/") and os.path.isdir(path) else ""


def _name(start: Launch, python: str, user: str) -> str:
    if start.script and (npm := npm_name(os.path.realpath(start.script))):
        return f"npm/{npm}"
    if python and (start.module or start.script == start.files[0]):
        environment = _environment(start, python)
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(python)))
        prefixes = [environment] if environment else [user, prefix]
        if pypi := pypi_name(filter(None, prefixes), start.script, start.module):
            return f"pypi/{pypi}"
    if start.module:
        return f"file/{file_name(f'{start.files[0]}/{start.module}')}"
    # Not the real path: one busybox is many programs.
    return f"file/{file_name(canonical(start.script or start.files[0]))}"


def _pruned(roots: Sequence[str], readable: tuple[str, ...]) -> tuple[str, ...]:
    """Return both spellings of each existing root, without those below another one or below the system's."""
    spellings = [path for root in roots for path in (os.path.normpath(root), os.path.realpath(root))]
    existing = [
        path
        for path in dict.fromkeys(spellings)
        if os.path.lexists(path) and not system.within(path, readable)
    ]
    real = [path for path in existing if os.path.realpath(path) == path]
    return tuple(
        path for path in existing if not any(system.within(path, [other]) and path != other for other in real)
    )
