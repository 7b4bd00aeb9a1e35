"""`mcpwrap check FILE`: read a grant file as a run would, and say what it grants. Starts nothing."""

from __future__ import annotations

import os
import pwd
import sys

from mcpwrap.cli.arguments import UsageError
from mcpwrap.errors import EXIT_BAD_GRANT, GrantError
from mcpwrap.grant.lookup import instance_name, places
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.summary import summary
from mcpwrap.grantfile import load
from mcpwrap.prepare import working_directory

USAGE = """\
usage: mcpwrap check FILE [--name NAME]

Reads a grant file and prints what it grants, or what is wrong in it and where.
$STATE and $CACHE are those of NAME (default: check). Exit status: 0, or 78 if the file is wrong.
"""
_DEFAULT_NAME = "check"


def run(argv: list[str]) -> int:
    """Check the file `argv` names; return the exit status."""
    if argv in (["-h"], ["--help"]):
        print(USAGE, end="")
        return 0
    match argv:
        case [file] if not file.startswith("-"):
            name = _DEFAULT_NAME
        case [file, "--name", name] | ["--name", name, file]:
            pass
        case _:
            raise UsageError("`mcpwrap check` takes one file", USAGE)
    try:
        lines = summary(load(file, _variables(instance_name(name))))
    except GrantError as error:
        print(error.diagnostics(), file=sys.stderr)
        return EXIT_BAD_GRANT
    print("\n".join(lines))
    return 0


def _variables(name: str) -> Variables:
    try:
        passwd_home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        passwd_home = ""
    home = os.path.normpath(os.environ.get("HOME") or passwd_home or "/nonexistent")
    found = places(os.environ, home, name)
    return Variables(home, passwd_home, working_directory(), "/tmp", found.state, found.cache, os.environ)
