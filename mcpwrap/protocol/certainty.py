"""Whether every client reads one line of the server alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwrap.protocol.jsonrpc import ENVELOPE, Reading, folded, named, possible_ids
from mcpwrap.protocol.mcp import ERROR, RESULT

if TYPE_CHECKING:
    from collections.abc import Iterator

_TWICE = "its members are named twice"
_ODD = "its members are named in odd case"


def doubt(reading: Reading, messages: list[Any]) -> str:
    """Return why some client may read these messages of one line otherwise than they are read here, or ""."""
    if not reading.exact:
        return "it is not UTF-8"
    for message in messages:
        if type(message) is not dict or message.get("jsonrpc") != "2.0":
            return "not all of the batch is JSON-RPC"
        if ENVELOPE.odd(message):
            return _ODD
        if reading.twice and any(reading.is_twice(part) for part in _carriers(message)):
            return _TWICE
        answers = ("result" in message) + ("error" in message)
        if "method" in message:
            if answers:
                return "it is a request and an answer"
            continue
        if answers != 1:
            return "it has not one of result and error"
        if type(message.get("id")) is float:
            return "its id is a fraction"
        result, error = message.get("result"), message.get("error")
        if (type(result) is dict and RESULT.odd(result)) or (type(error) is dict and ERROR.odd(error)):
            return _ODD
    return ""


def answered_ids(reading: Reading, messages: list[Any]) -> list[int | str]:
    """Return every id of the client's own requests that some client may take these messages to answer."""
    ids: list[int | str] = []
    for message in _each(messages):
        pairs = list(reading.pairs(message))
        keys = {folded(key) for key, _ in pairs}
        if "method" not in keys or "result" in keys or "error" in keys:
            ids += possible_ids(pairs)
    return ids


def lists_tools(reading: Reading, message: object) -> bool:
    """Tell whether some client may take a message for a list of tools, whatever it is the answer to."""
    results = (part for each in _each([message]) for part in named(reading.pairs(each), "result"))
    return any(
        folded(key) == "tools" for part in results if type(part) is dict for key, _ in reading.pairs(part)
    )


def _each(messages: list[Any]) -> Iterator[dict[str, Any]]:
    """Yield every object among the messages of a line, those of a batch in a batch too."""
    for message in messages:
        if type(message) is dict:
            yield message
        elif type(message) is list:
            yield from _each(message)


def _carriers(message: dict[str, Any]) -> Iterator[object]:
    """Yield every object of a message in which a repeated key would matter to a client or to us."""
    yield message
    for key in ("result", "params", "error"):
        part = message.get(key)
        yield part
        if type(part) is dict:
            yield part.get("_meta")
            for outcome in ("result", "error"):
                inner = part.get(outcome)
                yield inner
                if type(inner) is dict:
                    yield inner.get("_meta")
