"""One spelling for what a server says of a tool, and its digest: what a pin pins.

Canonical JSON here is UTF-8 without white space. Names of an object are sorted by code point; arrays keep their
order. Strings are escaped as in RFC 8785: quote, backslash, and control characters (in short form where JSON has
one, else as four lower-case hex digits); so is half a surrogate pair. Text is not normalized. Numbers count by
value and not by spelling: an integral one is written in decimal digits (`1.0` and `1e0` are `1`, as for
JavaScript), any other as Python's `repr` of the double.
"""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

FIELDS: Final = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What the digest is of: all that tells a model or a client what the tool is. An absent one is left out."""

_MAX_EXACT: Final = 2.0**53
_PART_BYTES: Final = 8
"""Kept of each field's own digest, to say which one changed; what holds is the digest of all."""


class Described(NamedTuple):
    """What one listing says of a tool: `digest` is `sha256:` and 64 hex digits, `parts` one for each of `FIELDS`."""

    digest: str
    parts: tuple[bytes, ...]

    def changed(self, other: Described) -> tuple[str, ...]:
        """Return the fields in which `other` differs."""
        pairs = zip(FIELDS, self.parts, other.parts, strict=True)
        return tuple(field for field, mine, its in pairs if mine != its)


def described(entry: dict[str, Any]) -> Described:
    """Return the digest of one entry of `tools/list`. Raises `RecursionError` if it nests too deep."""
    from hashlib import sha256  # here only: 2 ms of start-up, and many a run lists nothing

    spelled = {field: canonical(entry[field]) for field in FIELDS if field in entry}
    parts = tuple(
        sha256(spelled[field]).digest()[:_PART_BYTES] if field in spelled else b"" for field in FIELDS
    )
    # The canonical spelling of the object of all that is there, put together of what is spelled already.
    members = (b'"%s":%s' % (field.encode(), text) for field, text in sorted(spelled.items()))
    return Described("sha256:" + sha256(b"{" + b",".join(members) + b"}").hexdigest(), parts)


def canonical(value: object) -> bytes:
    """Return the canonical spelling of a parsed JSON value."""
    text = json.dumps(
        _by_value(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False
    )
    return text.encode("utf-8", "backslashreplace")


def _by_value(value: object) -> object:
    if type(value) is float:
        return int(value) if abs(value) < _MAX_EXACT and value.is_integer() else value
    if type(value) is dict:
        return {key: _by_value(item) for key, item in value.items()}
    if type(value) is list:
        return [_by_value(item) for item in value]
    return value
