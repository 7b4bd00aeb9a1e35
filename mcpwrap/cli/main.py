"""The command line: which command is meant, and the only place where errors become text and a status."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

from mcpwrap import __version__
from mcpwrap.errors import EXIT_FAILED, Error
from mcpwrap.sandbox.environment import refuse_loader_variables

COMMANDS: Final = {
    "enforce": "run a server, each call held to its own grant (the default)",
    "show": "print what a server would be held to; starts nothing",
    "why": "ask whether a call of a tool may do something, and which rule decides",
    "check": "read a grant file and say what is wrong in it",
    "audit": "print what happened in the last run",
    "doctor": "print which protections this machine allows",
}

HELP: Final = """\
usage: mcpwrap [OPTIONS] -- COMMAND [ARGUMENT...]
       mcpwrap {show,why,check,audit,doctor} ...      (each has --help)

Put `mcpwrap --` before the command of an MCP server in your client's config: the server runs as it is,
and while a tool is called it may do what that tool was granted, with that call's own arguments.

Five words:
  grant        what a tool may do: lines in a TOML file of yours; what is not in it is refused
  call window  the time from a call to its answer, while the grant of its tool is in force
  denial       what was refused: the server gets an errno, the model a sentence, you the line to add
  audit        the record of a run: every call, what it did, what it was refused
  tier         how strongly this machine can hold a server: B, C without namespaces, B- (`mcpwrap doctor`)

Commands:
{commands}

Options:
  --grant FILE          the grant (default: $XDG_CONFIG_HOME/mcpwrap/grants/NAME.toml)
  --name NAME           another instance of the same server, with its own grant, state and audit
  --env NAME[,NAME]     pass these variables on
  --require TIER        refuse to start (126) where only a weaker tier than this is to be had: B, C or B-
  --allow-degraded per-call
                        start at tier B- where no broker is to be had: all calls then share all grants
  --overlap MODE        calls of different tools: auto (wait), serialize, union
  --max-line SIZE       longest line of JSON-RPC (default 16M)
  --limit-memory SIZE, --limit-processes N, --limit-files N
                        bounds on the server and all it starts
  --audit-arguments     record the arguments of calls as they are (default: only their types and sizes)
  --version, --help

Exit status: the server's own (128+N for signal N); 125 mcpwrap failed; 126 the server cannot be held as
asked, and was not started; 127 no such command; 78 the grant file is wrong.
"""


def main(argv: list[str]) -> int:
    """Run the command `argv` (without the program's name) asks for; return the exit status. Never raises."""
    try:
        return _dispatch(argv)
    except Error as error:
        print(error.diagnostics(), file=sys.stderr)
        return error.exit_status
    except BrokenPipeError:
        return EXIT_FAILED
    except KeyboardInterrupt:
        return 130
    except Exception:
        import traceback

        traceback.print_exc()
        print("mcpwrap: this is a fault of mcpwrap itself; the server was ended", file=sys.stderr)
        return EXIT_FAILED


def _dispatch(argv: list[str]) -> int:
    before = argv[: argv.index("--")] if "--" in argv else argv
    if before[:1] in (["-h"], ["--help"]):
        print(help_text(), end="")
        return 0
    if before[:1] == ["--version"]:
        print(f"mcpwrap {__version__}")
        return 0
    if not argv:
        print(help_text(), end="", file=sys.stderr)
        return EXIT_FAILED
    name, rest = ("enforce", argv) if not before or before[0].startswith("-") else (argv[0], argv[1:])
    if name not in COMMANDS:
        raise _unknown(name, argv)
    if name == "enforce" and ("--help" in before or "-h" in before):
        print(help_text(), end="")
        return 0
    refuse_loader_variables(os.environ)
    command = importlib.import_module(f"mcpwrap.cli.{name}")
    status: int = command.run(rest)
    return status


def help_text() -> str:
    """Return what `--help` prints; README quotes it."""
    commands = "\n".join(f"  {name:11}  {what}" for name, what in COMMANDS.items())
    return HELP.replace("{commands}", commands)


def _unknown(name: str, argv: list[str]) -> Error:
    from difflib import get_close_matches  # only needed once something is wrong

    near = get_close_matches(name[:64], COMMANDS, n=1)
    way_out = (
        f"did you mean `mcpwrap {near[0]}`?" if near else f"did you mean `mcpwrap -- {' '.join(argv[:3])}`?"
    )
    return Error(f"there is no command {name!a}", way_out)
