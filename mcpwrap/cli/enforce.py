"""`mcpwrap [enforce] [OPTIONS] -- COMMAND`: run a server, each call of it held to its own grant."""

from __future__ import annotations

import os
import sys

from mcpwrap.cli.arguments import UsageError, parse
from mcpwrap.errors import CannotConfine
from mcpwrap.run import run as run_server
from mcpwrap.sandbox import identity
from mcpwrap.sandbox.inherited import occupy_standard


def run(argv: list[str]) -> int:
    """Run the server `argv` names; return its exit status, or one of mcpwrap's."""
    parsed = parse(argv)
    if parsed.words:
        raise UsageError(
            f"{parsed.words[0]!a} is neither an option nor behind `--`",
            "mcpwrap [OPTIONS] -- COMMAND [ARGUMENT...]",
        )
    occupy_standard()
    if not sys.flags.isolated:
        raise CannotConfine(
            "mcpwrap runs in a Python that is not isolated: PYTHON* variables and the working directory could "
            "have put other code into it",
            "start the installed command `mcpwrap`, or `python -I -m mcpwrap`",
        )
    told = identity.settle(os.environ, [parsed.options.grant] if parsed.options.grant else [])
    if told:
        print(f"mcpwrap: {told}", file=sys.stderr)
    return run_server(parsed.options)
