"""Which variables the server is given: a safe list, what it was granted, and what its client added for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mcpwrap.errors import CannotConfine
from mcpwrap.grant.grant import NEVER_PASSED

SAFE = frozenset({"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LANGUAGE", "TZ"})
CERTIFICATES = frozenset(
    {
        "AWS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "DENO_CERT",
        "DENO_TLS_CA_STORE",
        "GIT_SSL_CAINFO",
        "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
        "HTTPLIB2_CA_CERTS",
        "NIX_SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
        "NODE_USE_SYSTEM_CA",
        "PIP_CERT",
        "REQUESTS_CA_BUNDLE",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "UV_NATIVE_TLS",
        "UV_SYSTEM_CERTS",
    }
)
"""Where a company's certificate authority is to be found, or that it is in the system's bundle."""

BOOKKEEPING = frozenset({"_", "PWD", "OLDPWD", "SHLVL"})
"""A shell's own: withheld without a word."""

SHELLS = frozenset(
    {"sh", "bash", "dash", "zsh", "fish", "ksh", "mksh", "ash", "tcsh", "csh", "nu", "xonsh", "pwsh"}
)
"""What a shell exports (keys in ~/.bashrc) was meant for everything typed there, not for this server."""

LOADED_IN_SPITE = frozenset({"GCONV_PATH", "LOCPATH", "PYTHONEXECUTABLE", "__PYVENV_LAUNCHER__"})
"""What an isolated Python and the C library below it take code from. The installed command drops them."""


class Environment(NamedTuple):
    """`passed`: the server's environment. `withheld`: names that stay behind and are worth a line on stderr."""

    passed: dict[str, str]
    withheld: tuple[str, ...]


def choose(
    ours: Mapping[str, str],
    parent: Mapping[str, str] | None,
    *,
    named: Iterable[str] = (),
    values: Mapping[str, str] | None = None,
) -> Environment:
    """Return the environment for the server.

    `ours` is mcpwrap's own, `parent` what its parent was started with (None: unknown), `named` the
    names of `env` and `--env`, `values` those of `[server.set]`, which win.
    """
    names = frozenset(named)
    passed: dict[str, str] = {}
    withheld: list[str] = []
    for name, value in ours.items():
        if name.startswith(NEVER_PASSED):
            continue
        added = parent is not None and name not in BOOKKEEPING and parent.get(name) != value
        if name in SAFE or name in CERTIFICATES or name.startswith("LC_") or name in names or added:
            passed[name] = value
        elif name not in BOOKKEEPING:
            withheld.append(name)
    passed |= {name: value for name, value in (values or {}).items() if not name.startswith(NEVER_PASSED)}
    return Environment(passed, tuple(sorted(withheld)))


def refuse_loader_variables(ours: Mapping[str, str]) -> None:
    """Raise CannotConfine if a variable has put code into this process: mcpwrap may not be what it seems."""
    loader = sorted(name for name in ours if name.startswith("LD_"))
    if loader:
        raise CannotConfine(
            f"{', '.join(loader)} is set: code named there runs inside mcpwrap, outside of every sandbox",
            "take it out of the client's env block; for the server alone: [server.set] cannot hold it either,\n"
            "start the server by a script that sets it",
        )
    others = sorted(LOADED_IN_SPITE.intersection(ours))
    if others:
        raise CannotConfine(
            f"{', '.join(others)} is set: Python and the C library take code from there in spite of -I, "
            "outside of every sandbox",
            "start the installed command `mcpwrap`, which drops it; for the server alone: [server.set]",
        )


def start_environment(pid: int) -> dict[str, str] | None:
    """Return what process `pid` was started with; None where that cannot be read, or where it is a shell."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="surrogateescape") as file:
            if file.read().strip().lstrip("-") in SHELLS:
                return None
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        return None
    if not text:
        # Cleared, or overwritten by a process that writes its title there (nothing can be compared).
        return None
    pairs = (pair.partition("=") for pair in text.split("\0"))
    return {name: value for name, separator, value in pairs if separator}
