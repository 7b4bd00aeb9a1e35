"""`mcpwrap check FILE`: read a grant file as a run would, and say what it grants. Starts nothing."""

from __future__ import annotations

import os
import pwd
import sys

from mcpwrap.cli.arguments import UsageError
from mcpwrap.errors import EXIT_BAD_GRANT, GrantError
from mcpwrap.grant.lookup import Places, instance_name, places
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.summary import summary
from mcpwrap.grantfile import check_trust, load
from mcpwrap.hostfacts import facts_of
from mcpwrap.policy.compile import compile as compile_policy
from mcpwrap.policy.doubts import doubts
from mcpwrap.prepare import working_directory
from mcpwrap.sandbox.installation import NO_INSTALLATION

USAGE = """\
usage: mcpwrap check FILE [--name NAME]

Reads a grant file and prints what it grants, or what is wrong in it and where; and warns of what grants
nothing, or more than it looks.
$STATE and $CACHE are those of NAME (default: check). Exit status: 0, or 78 if a run would refuse the file.
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
        variables, found = _variables(instance_name(name))
        grant = load(file, variables)
    except GrantError as error:
        print(error.diagnostics(), file=sys.stderr)
        return EXIT_BAD_GRANT
    print("\n".join(summary(grant)))
    status = 0
    try:
        check_trust(os.path.abspath(file), grant, found, variables)
    except GrantError as error:
        print(f"a run refuses this file: {error.what}", file=sys.stderr)
        print("".join(f"  {line}\n" for line in error.way_out.splitlines()), end="", file=sys.stderr)
        status = error.exit_status
    facts = facts_of(NO_INSTALLATION, variables, found, name, os.path.abspath(file), os.environ)
    for line in doubts(compile_policy(grant, facts)):
        print(f"warning: {line}", file=sys.stderr)
    return status


def _variables(name: str) -> tuple[Variables, Places]:
    try:
        passwd_home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        passwd_home = ""
    home = os.path.normpath(os.environ.get("HOME") or passwd_home or "/nonexistent")
    found = places(os.environ, home, name)
    cwd = working_directory()
    return Variables(home, passwd_home, cwd, "/tmp", found.state, found.cache, os.environ), found
