"""Attacks that went through: what a hostile server may write, and what its client would take it for.

Clients take more for an answer than the specification says: mcp 1.30 and 2.3 read an id with `int()`, the
TypeScript SDK with `Number()`; neither looks at `resultType` unless it was told to. Whatever they would take
for the answer to a call must have closed its window, and must say what was refused in it.
"""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from mcpwrap.protocol.actions import Action, Closed, Reply, StartupArmed
from mcpwrap.protocol.interposer import Interposer
from tests.unit.protocol.playbook import ANY_TOOL, answer, call, denial, line, request, result

if TYPE_CHECKING:
    from collections.abc import Iterable

SENTENCE = "refused by mcpwrap"
AS_TEXT = ['"7"', '" 7"', '"+7"', '"07"', '"7.0"', '"7e0"', '"0x7"']
"""Ids that `int()` of Python or `Number()` of JavaScript reads as 7."""


def interposer(*, startup: bool = False) -> Interposer:
    return Interposer(overlap="auto", terms=ANY_TOOL, lookups=lambda _: (), max_line=1 << 25, startup=startup)


def raw_answer(request_id: str, extra: str = "") -> bytes:
    content = '"content":[{"type":"text","text":"ok"}]'
    return f'{{"jsonrpc":"2.0","id":{request_id},"result":{{{content}{extra}}}}}\n'.encode()


def sent(actions: Iterable[Action]) -> bytes:
    return b"".join(action.data for action in actions if isinstance(action, Reply))


def closes(actions: Iterable[Action]) -> list[str]:
    return [action.window.id for action in actions if isinstance(action, Closed)]


def answered(*, startup: bool = False, by: bytes, first: dict[str, Any] | None = None) -> list[Action]:
    """Return what is done with the line `by` after a call with the id 7 that was refused something."""
    held = interposer(startup=startup)
    held.from_client(line(first or call(7)), 0.0)
    held.denied(("w1",), denial())
    return held.from_server(by, 1.0)


def assert_told(actions: list[Action]) -> None:
    """Nothing went to the client, or the window was closed before and what went holds the sentence."""
    if sent(actions):
        assert closes(actions) == ["w1"]
        assert SENTENCE in sent(actions).decode()


@pytest.mark.parametrize("request_id", AS_TEXT)
def test_an_answer_whose_id_is_the_number_as_text_closes_the_window_and_tells_the_denial(
    request_id: str,
) -> None:
    assert_told(answered(by=raw_answer(request_id)))


@pytest.mark.parametrize("request_id", AS_TEXT)
def test_an_answer_to_a_held_call_is_dropped_if_its_id_is_the_number_as_text(request_id: str) -> None:
    assert not sent(answered(startup=True, by=raw_answer(request_id)))


def test_a_handshake_answered_with_its_number_as_text_lets_calls_go() -> None:
    """Servers that do so by mistake work today: the SDKs made their reading of ids for them."""
    held = interposer(startup=True)
    held.from_client(line(request(0, "initialize")), 0.0)
    actions = held.from_server(line(result("0", protocolVersion="2025-06-18")), 1.0)
    actions += held.from_client(line(call(1)), 2.0)
    assert StartupArmed in map(type, actions) or held.deadline() is not None


def test_an_answer_sent_before_its_call_is_not_what_the_client_is_given() -> None:
    """Ids are counted up: the server can have the answer in the client's pipe before the call is made."""
    held = interposer()
    early = held.from_server(line(answer(7, "forged")), 0.0)
    held.from_client(line(call(7)), 1.0)
    assert not sent(early)


@pytest.mark.parametrize("extra", ['"resultType":"task","taskId":"t"', '"resultType":"input_required"'])
def test_a_client_that_does_not_know_of_result_types_is_told_the_denial_in_the_content(extra: str) -> None:
    """It takes the content for the outcome, and shows the model nothing else."""
    actions = answered(by=raw_answer("7", f",{extra}"))
    assert closes(actions) == ["w1"]
    content = json.loads(sent(actions))["result"]["content"]
    assert SENTENCE in json.dumps(content)


@pytest.mark.parametrize("filler", ["1" * 5_000, "[" * 3_000 + "]" * 3_000])
@pytest.mark.parametrize("request_id", ["7e0", "70e-1", '"7"'])
def test_an_answer_too_large_to_parse_does_not_pass_under_the_id_of_another(
    request_id: str, filler: str
) -> None:
    """JavaScript parses any depth and any number of digits."""
    held = interposer()
    held.from_client(line(call(7)) + line(call(8)), 0.0)
    held.denied(("w1",), denial())
    attack = raw_answer(request_id, f',"x":{{"id":8}},"n":{filler}')
    actions = held.from_server(attack, 1.0)
    if attack in sent(actions):
        assert "w1" in closes(actions)
        assert SENTENCE in sent(actions).decode()


def test_a_line_of_many_repeated_keys_takes_time_in_proportion_to_its_length() -> None:
    held = interposer()
    messages = [b'{"jsonrpc":"2.0","id":1,"id":1}'] * 30_000
    begun = time.monotonic()
    held.from_server(b"[" + b",".join(messages) + b"]\n", 0.0)
    assert time.monotonic() - begun < 2.0


def test_ids_of_open_server_requests_do_not_fill_memory() -> None:
    """A request whose params are no object is answered by no SDK: nothing ever closes it."""
    held = interposer()
    held.from_client(line(call(7)), 0.0)
    tracemalloc.start()
    try:
        for number in range(64):
            asked = {
                "jsonrpc": "2.0",
                "id": f"{number}" + "x" * 1_000_000,
                "method": "roots/list",
                "params": 5,
            }
            held.from_server(line(asked), 1.0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16_000_000
