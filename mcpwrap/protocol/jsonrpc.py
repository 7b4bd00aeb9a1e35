"""Reading one line of JSON-RPC 2.0 with certainty, or saying that it cannot be.

Two peers may read one text differently: duplicate keys (first or last wins), keys that differ in case (Go
matches them without regard to it) or behind a NUL (cJSON ends them there), ids written `1.0`, `null` or `true`,
bad UTF-8 (refused, replaced, or left out), deep nesting, half surrogate pairs. What is read here is only
looked at; the bytes themselves go on unchanged.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32000
"""Refused by mcpwrap: the first code of JSON-RPC's range for implementations."""

MAX_EXACT_INTEGER: Final = 2**53 - 1
"""Integers beyond come back from JavaScript as another number (ECMA-262, Number.MAX_SAFE_INTEGER)."""

BLANK: Final = " \t\r\n"
"""White space of RFC 8259; `str.strip()` alone takes more."""

_BEGIN: Final = re.compile(r"[ \t\r\n]*")
_BASES: Final = ("0x", "0o", "0b")
_ID: Final = re.compile(
    r'"id"[ \t]*:[ \t]*(-?\d{1,400}(?:\.\d{1,400})?(?:e[+-]?\d{1,400})?(?![\d.e])|"(?:[^"\\]|\\.)*")',
    re.IGNORECASE,
)

Pairs = list[tuple[str, Any]]
Twice = dict[int, tuple[dict[str, Any], Pairs]]
"""Objects that named a key twice, by `id()`: each is kept here, so that no other can have its number."""


class Unreadable(ValueError):
    """No JSON text (`deep` false), or one that nests or counts beyond what can be read (`deep` true)."""

    def __init__(self, reason: str, *, deep: bool = False) -> None:
        super().__init__(reason)
        self.deep = deep


class Reading:
    """One line, parsed: `value`, its `text`, and every object that named a key twice.

    `exact` is false if the bytes were no UTF-8 and were replaced by U+FFFD to be read at all.
    """

    __slots__ = ("exact", "text", "twice", "value")

    def __init__(self, value: Any, text: str, twice: Twice, exact: bool) -> None:
        self.value = value
        self.text = text
        self.twice = twice
        self.exact = exact

    def pairs(self, of: dict[str, Any]) -> Iterable[tuple[str, Any]]:
        """Return the members of an object of this reading as written, repeated ones included."""
        found = self.twice.get(id(of))
        return of.items() if found is None else found[1]

    def is_twice(self, of: object) -> bool:
        """Tell whether this very object named a key twice."""
        return id(of) in self.twice


class Reader:
    """A JSON parser that remembers duplicate keys. 1 µs for a small call, 2 ms for a megabyte of text."""

    def __init__(self, constant: Callable[[str], object] | None = None) -> None:
        """`constant` is called for each NaN, Infinity and -Infinity, in order, and returns its value."""
        self._twice: Twice = {}
        self._decode = json.JSONDecoder(object_pairs_hook=self._object, parse_constant=constant).raw_decode

    def _object(self, pairs: Pairs) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            self._twice[id(made)] = (made, pairs)
        return made

    def read(self, line: bytes) -> Reading:
        """Parse one line.

        Raises `Unreadable` if it is no JSON text (RFC 8259), or one beyond the parser's depth or digits.
        """
        exact = True
        try:
            text = line.decode()
        except UnicodeDecodeError:
            text = line.decode(errors="replace")
            exact = False
        start = 0 if text.startswith("{") else len(_BEGIN.match(text).group())  # type: ignore[union-attr]
        self._twice = twice = Twice()
        try:
            value, end = self._decode(text, start)
        except json.JSONDecodeError:
            raise Unreadable("it is not JSON") from None
        except RecursionError:
            raise Unreadable("it nests too deep", deep=True) from None
        except ValueError:
            raise Unreadable("it holds a number of too many digits", deep=True) from None
        if text[end:].strip(BLANK):
            raise Unreadable("it is not JSON")
        return Reading(value, text, twice, exact)


def usable_id(value: object) -> TypeGuard[int | str]:
    """Tell whether every peer reads this id alike and can echo it: an exact integer, or Unicode text."""
    if type(value) is int:
        return -MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER
    return type(value) is str and whole(value)


def whole(text: str) -> bool:
    """Tell whether `text` holds no half of a surrogate pair (`"\\ud800"` in JSON)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


PROTOTYPE: Final = "__proto__"
"""What is copied by `Object.assign()` has the members of such a member, where it has none of its own."""


def folded(key: str) -> str:
    """Return how a key is compared by the loosest of readers: without regard to case, and up to its first NUL."""
    return key.partition("\0")[0].casefold()


def _loose(key: str) -> str:
    """Return the same without underscores: mcp 2 (Python) takes `input_schema` for `inputSchema`."""
    return folded(key[:1] + key[1:].replace("_", ""))


class Names:
    """Keys that mean something in one object, and how others may spell them."""

    __slots__ = ("_exact", "_folded")

    def __init__(self, *keys: str) -> None:
        self._exact = frozenset(keys)
        self._folded = frozenset(_loose(key) for key in keys)

    def odd(self, keys: Iterable[str]) -> str:
        """Return the first key that equals one of these as some reader compares them, or ""."""
        for key in keys:
            if key not in self._exact and _loose(key) in self._folded:
                return key
        return ""

    def doubtful(self, keys: Collection[str]) -> str:
        """Return the first odd key, or `__proto__`, whose members some readers take for the object's own, or ""."""
        return self.odd(keys) or (PROTOTYPE if PROTOTYPE in keys else "")


ENVELOPE: Final = Names("jsonrpc", "id", "method", "params", "result", "error")
"""The members of a JSON-RPC message."""


def named(pairs: Iterable[tuple[str, Any]], name: str) -> list[Any]:
    """Return the values of all members some reader takes for `name`."""
    return [value for key, value in pairs if key == name or folded(key) == name]


def as_number(text: str) -> int | None:
    """Return the integer that some client reads an id as which is a text, None if there is none.

    `int()` of Python (mcp 1.30 and 2.3) and `Number()` of JavaScript (the TypeScript SDK): white space around,
    signs, leading zeros, `7.0`, `7e0`, `0x7`, underscores, digits of other scripts; `Number("")` is 0.
    """
    text = text.replace("\ufeff", " ").strip()
    try:
        value = int(text, 0) if text[:2].lower() in _BASES else float(text or "0")
    except ValueError:
        return None
    return int(value) if abs(value) <= MAX_EXACT_INTEGER and value == int(value) else None


def possible_ids(pairs: Iterable[tuple[str, Any]]) -> list[int | str]:
    """Return every id these members spell; `7.0` is 7 to JavaScript. What a text may mean, `as_number` tells."""
    ids: list[int | str] = []
    for value in named(pairs, "id"):
        if type(value) is int or type(value) is str:
            ids.append(value)
        elif type(value) is float and value.is_integer():
            ids.append(int(value))
    return ids


def scan_ids(line: bytes) -> list[int | str]:
    """Return every id spelled anywhere in a line that cannot be parsed."""
    ids: list[int | str] = []
    for match in _ID.finditer(line.decode(errors="replace")):
        try:
            ids += possible_ids([("id", json.loads(match[1]))])
        except ValueError:
            continue
    return ids


def deeper_than(limit: int, value: object) -> bool:
    """Tell whether containers nest more than `limit` levels below and including `value`."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if type(outer) is dict or type(outer) is list
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def dump(value: object) -> str:
    """Return compact ASCII JSON."""
    return json.dumps(value, separators=(",", ":"))


def error_reply(request_id: int | str | None, code: int, message: str) -> bytes:
    """Return the line of a JSON-RPC error answer."""
    return (
        dump({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}) + "\n"
    ).encode()
