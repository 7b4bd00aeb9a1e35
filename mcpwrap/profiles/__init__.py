"""The shipped profiles: grants a grant file can name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

PUBLIC: Final[dict[str, tuple[str, ...]]] = {
    "NPM_REGISTRY": ("registry.npmjs.org",),
    "JSR_REGISTRY": ("jsr.io", "npm.jsr.io"),
    "PYPI_INDEX": ("pypi.org", "files.pythonhosted.org"),
}
"""Hosts that profiles name by a variable, as the launchers have them where nothing else is configured."""


def text(name: str, hosts: Mapping[str, tuple[str, ...]] = PUBLIC) -> str:
    """Return the TOML of a profile that `grant.document.PROFILES` lists. Raises OSError if it is missing.

    `hosts` are the entries of `net` that stand for a variable: what is configured here, see `packages.registry`.
    """
    directory = __file__.rpartition("/")[0]
    with open(f"{directory}/{name}.toml", encoding="utf-8") as file:
        found = file.read()
    for variable in PUBLIC:
        if f'"${variable}"' in found:
            entries = hosts.get(variable, PUBLIC[variable])
            found = found.replace(f'"${variable}"', ", ".join(f'"{each}"' for each in entries))
    return found
