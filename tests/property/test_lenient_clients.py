"""Whatever a server writes, no client, however it reads, is told by it what mcpwrap did not judge."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.operation import Denial
from mcpwrap.protocol.actions import Action, Reply
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.protocol.terms import Terms

EVIL = "EVIL"
DENIAL = Denial(act="read", object="/x", rule="r", tools=("read",), sentence="refused", offer="", times=1)
NO_UTF_8 = "\u2603"
"""Stands for a byte that is no UTF-8 until the line is made."""
Ways = list[tuple[str, str]]


def reader(
    spelled: Callable[[str], str], first: bool, errors: str
) -> Callable[[bytes], Iterator[dict[str, Any]]]:
    """Return a client's reader: what it takes for a key, which of two it keeps, and what it does with bad bytes."""

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        named = [(spelled(key), value) for key, value in pairs]
        return dict(reversed(named) if first else named)

    def messages(value: object) -> Iterator[dict[str, Any]]:
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, list):
                yield from messages(each)
            elif isinstance(each, dict) and "method" not in each:
                yield each

    def read(line: bytes) -> Iterator[dict[str, Any]]:
        try:
            yield from messages(json.loads(line.decode("utf-8", errors), object_pairs_hook=made))
        except ValueError:
            return

    return read


SPELLINGS: list[Callable[[str], str]] = [
    str,
    str.casefold,
    lambda key: key.partition("\0")[0].casefold(),
    lambda key: key if key.startswith("_") else key.replace("_", "").casefold(),
]
READERS = [
    reader(spelled, first, errors)
    for spelled in SPELLINGS
    for first in (False, True)
    for errors in ("strict", "replace", "ignore")
]


def results(line: bytes, request_id: int) -> Iterator[object]:
    """Yield every result that some client takes from the line as the answer to its request."""
    for read in READERS:
        for message in read(line):
            try:
                answers = float(message.get("id") or 0) == request_id
            except (TypeError, ValueError):
                continue
            if answers:
                yield message.get("result")


def told(actions: list[Action], request_id: int) -> str:
    """Return all that clients read as the answer to a request."""
    lines = [action.data for action in actions if isinstance(action, Reply)]
    return json.dumps([each for line in lines for each in results(line, request_id)])


def key(random: Random, name: str) -> str:
    spelled = [name] * 6 + [name.upper(), name + "\0", name + "\0x", name[:1] + NO_UTF_8 + name[1:]]
    spelled += [name.replace("S", "_s").replace("C", "_c"), name.replace("s", "\u017f"), "__proto__"]
    return json.dumps(random.choice(spelled), ensure_ascii=False)


def written(random: Random, members: Ways) -> str:
    """Return an object with these members, each perhaps spelled oddly, or beside another of its name."""
    parts = [f"{key(random, name)}:{value}" for name, value in members]
    parts += [f"{key(random, name)}:[]" for name, _ in members if random.random() < 0.1]
    random.shuffle(parts)
    return "{" + ",".join(parts) + "}"


def said(random: Random, request_id: int, result: str) -> bytes:
    ids = [str(request_id)] * 3 + [
        f'"{request_id}"',
        f"{request_id}.0",
        f"{request_id}0e-1",
        f'" {request_id}"',
    ]
    message = written(random, [("jsonrpc", '"2.0"'), ("id", random.choice(ids)), ("result", result)])
    notice = '{"jsonrpc":"2.0","method":"x"}'
    shapes = [message] * 4 + [
        f"[{message}]",
        f"[[{message}]]",
        f"[{notice},{message}]",
        f"[{notice},[{message}]]",
    ]
    return random.choice(shapes).encode().replace(NO_UTF_8.encode(), b"\xff") + b"\n"


def asked(play: Interposer, request_id: int, method: str, **params: object) -> None:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    play.from_client(json.dumps(message).encode() + b"\n", 0)


@given(st.randoms(use_true_random=False))
def test_no_client_reads_a_description_that_was_not_compared(random: Random) -> None:
    play = Interposer(overlap="auto", terms=Terms(), lookups=lambda _: [], startup=False)
    asked(play, 1, "tools/list")
    first = {"name": "read", "description": "Reads", "inputSchema": {}}
    play.from_server(
        json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": [first]}}).encode() + b"\n", 0
    )
    asked(play, 2, "tools/list")
    entry = written(
        random, [("name", '"read"'), ("description", f'"{EVIL}"'), ("inputSchema", f'["{EVIL}"]')]
    )
    line = said(random, 2, written(random, [("tools", f"[{entry}]"), ("nextCursor", '"x"')]))
    assert EVIL not in told(play.from_server(line, 0), 2)


@given(st.randoms(use_true_random=False), st.booleans())
def test_no_client_reads_a_result_that_is_withheld(random: Random, as_task: bool) -> None:
    terms = Terms(unknown="allow", on_denial="error")
    play = Interposer(overlap="auto", terms=terms, lookups=lambda _: [], startup=False)
    asked(play, 1, "tools/call", name="read", task={"ttl": None})
    play.denied(("w1",), DENIAL)
    if as_task:
        task = {"taskId": "t", "status": "working"}
        play.from_server(
            json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"task": task}}).encode() + b"\n", 0
        )
        asked(play, 3, "tasks/result", taskId="t")
    members = [
        ("content", f'[{{"type":"text","text":"{EVIL}"}}]'),
        ("structuredContent", f'{{"a":"{EVIL}"}}'),
    ]
    members += [("task", '{"taskId":"u","status":"working"}'), ("tools", "[]"), ("resultType", '"task"')]
    kept = [member for member in members if random.random() < 0.6]
    request_id = 3 if as_task else 1
    line = said(random, request_id, written(random, kept))
    assert EVIL not in told(play.from_server(line, 0), request_id)
