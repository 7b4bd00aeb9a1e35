"""What the command line asks of one run, parsed; shared by every command that loads a grant."""

from __future__ import annotations

from typing import NamedTuple

from mcpwrap.limits import MAX_LINE


class Options(NamedTuple):
    """The options of `enforce`, `show` and `why`.

    `command`: the server's command, empty if none was given. `grant`: a grant file, `name`: the
    instance name; None stands for the name of the package. `env`: names passed on besides those of
    the grant. `require`: the tier that must be had; `allow_degraded`: what may be given up for a weaker one.
    `overlap`: overrides the grant's. `max_line`:
    bytes of one JSON-RPC line. `limit_memory`: bytes; the other limits are counts; None stands for
    the sandbox's own default. `audit_arguments`: write the arguments of calls to the audit as they are.
    """

    command: tuple[str, ...] = ()
    grant: str | None = None
    name: str | None = None
    env: tuple[str, ...] = ()
    require: str | None = None
    overlap: str | None = None
    max_line: int = MAX_LINE
    limit_memory: int | None = None
    limit_processes: int | None = None
    limit_files: int | None = None
    audit_arguments: bool = False
    allow_degraded: tuple[str, ...] = ()
