"""What a record must have to be printed: a file may be damaged, edited, or of another version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

Shape: TypeAlias = "type | list[Shape] | dict[str, Shape]"
"""A type; a list of what all fit one shape; fields of a table, those that end with `?` may be missing."""

_FIELDS: Final[Mapping[str, Shape]] = {
    "run": {"at": str, "command?": [str], "looked_for?": str, "keeps?": str, "withheld?": [str]},
    "protections": {"protections?": dict},
    "opened": {
        "at": str,
        "window": str,
        "tool": str,
        "bound?": [{"need": str, "path": str, "rule": str}],
    },
    "closed": {
        "at": str,
        "window": str,
        "tool": str,
        "how": str,
        "ms": object,
        "denials?": [{"act": str, "object": str, "rule": str, "count": int, "offer": str, "place?": str}],
        "not_written?": dict,
    },
    "operation": {
        "at": str,
        "windows": [str],
        "act": str,
        "object": str,
        "rule": str,
        "allowed": bool,
    },
    "stream": {
        "at": str,
        "windows": [str],
        "host": str,
        "address": str,
        "via?": str,
        "sent": int,
        "received": int,
        "how": str,
    },
    "withdrawn": {"at": str, "window": str, "tool": str},
    "refused": {"at": str, "tool": str, "rule": str, "why": str},
    "manifest": {
        "at": str,
        "tools": dict,
        "held?": [{"tool": str, "was": str, "now": str, "pinned": bool, "changed": [str]}],
    },
    "package": {"at": str, "package": str, "version": str, "was?": str},
    "note": {"at": str},
    "exit": {"seconds": object, "status": object, "reason": object, "stderr?": list},
}


def is_whole(record: Mapping[str, object]) -> bool:
    """Whether `record` has the fields of its kind. A kind that is not known here has none."""
    kind = record.get("kind")
    return isinstance(kind, str) and _fits(record, _FIELDS.get(kind, {}))


def _fits(value: object, shape: Shape) -> bool:
    if isinstance(shape, type):
        return isinstance(value, shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(item, shape[0]) for item in value)
    if not isinstance(value, Mapping):
        return False
    for name, wanted in shape.items():
        field = name.removesuffix("?")
        if field in value:
            if not _fits(value[field], wanted):
                return False
        elif field == name:
            return False
    return True
