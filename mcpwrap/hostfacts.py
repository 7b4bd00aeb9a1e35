"""The facts a policy is compiled against, looked up on this machine."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcpwrap.errors import CommandNotFound, Error
from mcpwrap.policy.facts import Facts
from mcpwrap.sandbox.launch import launch, program
from mcpwrap.sandbox.roots import Bounds, roots_of_interpreter

LINKED_ENTRIES = 512
"""Entries of one private place looked at for second names, the uppermost first: ~/.ssh has ten, a browser's
profile its cookies among the first few hundred. 1 ms at most."""

if TYPE_CHECKING:
    from mcpwrap.grant.lookup import Places
    from mcpwrap.grant.paths import Variables
    from mcpwrap.policy.active import Kind
    from mcpwrap.sandbox.installation import Installation


def facts_of(
    found: Installation,
    variables: Variables,
    places: Places,
    name: str,
    grant: str,
    environ: Mapping[str, str],
) -> Facts:
    """Return the facts for one command filed under `name`; `grant` is the path of its grant file.

    Reads names and attributes, opens nothing.
    """
    bounds = Bounds(variables.home, variables.passwd_home, variables.cwd)

    def on_path(name: str) -> str | None:
        try:
            return program(name, environ, variables.cwd)
        except CommandNotFound:
            return None

    def program_roots(program: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(map(os.path.realpath, roots_of_interpreter(program, bounds))))

    def interpreters(program: str) -> tuple[str, ...]:
        if os.path.isdir(program) or program == os.path.realpath(places.cache):
            # What the scripts among a program's helpers, and the commands of packages, are written for.
            return tuple(map(os.path.realpath, ("/bin/sh", "/usr/bin/env")))
        try:
            return tuple(map(os.path.realpath, launch([program], environ, variables.cwd).files[1:]))
        except Error:
            return ()  # nothing that can be run

    return Facts(
        home=variables.home,
        passwd_home=variables.passwd_home,
        cwd=variables.cwd,
        state=places.state,
        cache=places.cache,
        uid=os.geteuid(),
        system=found.system,
        installation=found.roots,
        programs=found.programs,
        loaders=found.loaders,
        config=places.config,
        find=on_path,
        real=_real,
        identity=_identity,
        linked=_linked,
        kind=kind_of,
        program_roots=program_roots,
        interpreters=interpreters,
        own=_own_code(),
        path=tuple(entry for entry in environ.get("PATH", "").split(":") if entry.startswith("/")),
        withheld=(
            os.path.dirname(places.state),
            os.path.dirname(places.cache),
            places.audit.removesuffix(f"/audit/{name}"),
            grant,
        ),
    )


def kind_of(path: str) -> Kind:
    """Return what is at `path`, links followed."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return "missing"
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except RecursionError:
        raise Error(
            f"{path} leads through too many links", "look at it with `namei`; the kernel follows 40"
        ) from None


def _linked(path: str) -> tuple[tuple[int, int], ...]:
    """Return the identities of the files below `path` that have a second name, which may lie in a granted place."""
    found: list[tuple[int, int]] = []
    directories = [path]
    seen = 0
    while directories:
        try:
            with os.scandir(directories.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > LINKED_ENTRIES:
                        return tuple(found)
                    if entry.is_dir(follow_symlinks=False):
                        directories.insert(0, entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        if status.st_nlink > 1:
                            found.append((status.st_dev, status.st_ino))
        except OSError:
            continue  # no directory, or closed to this user: then closed to the server, too
    return tuple(found)


def _own_code() -> tuple[str, ...]:
    """Return where mcpwrap's own code and interpreter are: who writes there runs outside of every sandbox."""
    package = os.path.dirname(os.path.abspath(__file__))
    code = [package, sys.executable, os.path.realpath(sys.executable), os.path.dirname(os.__file__)]
    if sys.prefix != sys.base_prefix:
        code.append(sys.prefix)
    return tuple(dict.fromkeys(filter(None, code)))
