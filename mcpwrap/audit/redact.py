"""What may be written down of a command and of arguments: shapes and names, no secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from mcpwrap.protocol.glance import LongText

MASK: Final = "***"

KEYS_SHOWN: Final = 64
"""Argument names recorded of one call; a page of names helps nobody."""
NAME_LENGTH: Final = 100
"""Characters of one argument name that are recorded."""

_SECRET_NAME: Final = re.compile(r"key|token|passw|secret|credential|auth(?!or)", re.IGNORECASE)
_OPTION: Final = re.compile(r"(?s)(--?[^=\s]+)(?:=(.*))?")
_ASSIGNMENT: Final = re.compile(r"(?s)([A-Za-z_][A-Za-z0-9_]*)=(.+)")
_USERINFO: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/?#\s]*@")
_QUERY: Final = re.compile(
    r"([?&#][^=&#\s]*(?:key|token|passw|secret|sig|auth)[^=&#\s]*=)[^&#\s]+", re.IGNORECASE
)
_BEARER: Final = re.compile(r"\b(bearer|basic)(\s+)\S+", re.IGNORECASE)


def mask_text(text: str) -> str:
    """Return `text` without URL passwords, secret query values and bearer tokens."""
    text = _USERINFO.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(rf"\1{MASK}", text)
    return _BEARER.sub(rf"\1\2{MASK}", text)


def mask_command(command: Sequence[str]) -> tuple[str, ...]:
    """Return the argument vector as it may be recorded and printed.

    Masked: the userinfo of URLs, and the values of options and assignments whose name speaks of a
    key, token, password or secret (`--api-key X`, `--api-key=X`, `API_KEY=X`).
    """
    masked: list[str] = []
    secret_follows = False
    for word in command:
        option = _OPTION.fullmatch(word)
        if secret_follows and option is None:
            masked.append(MASK)
            secret_follows = False
            continue
        secret_follows = False
        if option is not None and _SECRET_NAME.search(option[1]):
            if option[2] is None:
                masked.append(word)
                secret_follows = True
            else:
                masked.append(f"{option[1]}={MASK}")
            continue
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment is not None and _SECRET_NAME.search(assignment[1]):
            masked.append(f"{assignment[1]}={MASK}")
            continue
        masked.append(mask_text(word))
    return tuple(masked)


def shape(value: object) -> object:
    """Return what is recorded of one argument: its type and size, never its content."""
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    if isinstance(value, str):
        return f"string of {len(value)}"
    if isinstance(value, LongText):
        return f"string of {value.size} bytes"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, Mapping):
        return f"object of {len(value)}"
    if isinstance(value, Sequence):
        return f"array of {len(value)}"
    return type(value).__name__


def shapes(arguments: Mapping[str, object]) -> dict[str, object]:
    """Return the shape of every argument by name (at most `KEYS_SHOWN` of them)."""
    recorded: dict[str, object] = {}
    for name in list(arguments)[:KEYS_SHOWN]:
        recorded[name[:NAME_LENGTH]] = shape(arguments[name])
    if len(arguments) > KEYS_SHOWN:
        recorded["…"] = f"{len(arguments) - KEYS_SHOWN} more"
    return recorded
