"""The values of arguments, as conditions speak of them: their types, and when two are the same."""

from __future__ import annotations

from typing import Final

NUMBERS: Final = ("integer", "number")
TYPES: Final = ("string", *NUMBERS, "boolean", "array", "object", "null")
"""The types of JSON Schema; as there, an integer is a number without a fraction, and also a number."""

OTHERS: Final = "*"
"""The argument that stands for every one no other rule of the table names."""


def same(value: object, other: object) -> bool:
    """Whether two JSON values that are no arrays or objects are equal: 1 is 1.0, and true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def fits(value: object, name: str) -> bool:
    """Whether a JSON value is of the type of this name."""
    if isinstance(value, bool):
        return name == "boolean"
    if isinstance(value, int):
        return name in NUMBERS
    if isinstance(value, float):
        return name == "number" or (name == "integer" and value.is_integer())
    return {"string": str, "array": list, "object": dict, "null": type(None)}.get(name) is type(value)
