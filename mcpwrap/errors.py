"""The one exception of mcpwrap: what failed, why, and the way out.

Every error that may reach a user derives from `Error`; `cli.main` has the only `except Error`.
Anything else that escapes is a fault of mcpwrap itself and ends it with `EXIT_FAILED`.
"""

from __future__ import annotations

EXIT_FAILED = 125
"""mcpwrap itself failed (the convention of `env`, `timeout` and `docker run`)."""
EXIT_CANNOT_CONFINE = 126
"""The server cannot be confined as asked; it was not started."""
EXIT_NOT_FOUND = 127
"""The command was not found (POSIX shell convention)."""
EXIT_BAD_GRANT = 78
"""The grant file is wrong (`EX_CONFIG` of sysexits.h)."""


class Error(Exception):
    """A failure the user can act on.

    `what` says what failed and why in one sentence; `way_out`, if given, how to get past it.
    """

    exit_status = EXIT_FAILED

    def __init__(self, what: str, way_out: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.way_out = way_out

    def diagnostics(self) -> str:
        """Return the text for stderr, without a trailing newline."""
        lines = [f"mcpwrap: {self.what}"]
        lines += [f"mcpwrap:   {line}" for line in self.way_out.splitlines()]
        return "\n".join(lines)


class GrantError(Error):
    """A grant file that cannot be taken as it is written."""

    exit_status = EXIT_BAD_GRANT


class CannotConfine(Error):
    """A layer that was asked for is not to be had here; nothing was started."""

    exit_status = EXIT_CANNOT_CONFINE


class Lacking(CannotConfine):
    """One layer is refused by this machine, so another tier may be possible.

    `layer` is a name of `sandbox.probe`'s table: "namespaces" or "per call".
    """

    def __init__(self, layer: str, what: str, way_out: str = "") -> None:
        super().__init__(what, way_out)
        self.layer = layer


class CommandNotFound(Error):
    """The server's command names no program."""

    exit_status = EXIT_NOT_FOUND
