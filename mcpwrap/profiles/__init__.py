"""The shipped profiles: grants a grant file can name."""

from __future__ import annotations


def text(name: str) -> str:
    """Return the TOML of a profile that `grant.document.PROFILES` lists. Raises OSError if it is missing."""
    directory = __file__.rpartition("/")[0]
    with open(f"{directory}/{name}.toml", encoding="utf-8") as file:
        return file.read()
