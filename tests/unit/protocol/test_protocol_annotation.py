"""What is written on an answer, where, and that every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpwrap.limits import DENIALS_TOLD, RECORDS_PER_WINDOW
from mcpwrap.operation import Denial
from mcpwrap.protocol.actions import Closed, Forward, Opened, Reply
from tests.unit.protocol.playbook import (
    Client,
    Denied,
    Playbook,
    Server,
    answer,
    call,
    closed,
    denial,
    line,
    request,
    result,
)


def annotated(reply: object, *, message: dict[str, Any] | None = None, denials: int = 1) -> bytes:
    """Return the reply to a call during which something was refused."""
    play = Playbook()
    play >> Client(message or call(1)) << Opened << Forward
    for number in range(denials):
        play >> Denied(("w1",), denial(f"/secret/{number}"))
    play >> Server(reply) << Closed
    (action,) = play.take()
    assert isinstance(action, Reply)
    return action.data


def test_one_text_block_is_appended_and_no_other_byte_changes() -> None:
    before = b'{ "jsonrpc" : "2.0","id":1, "result":{"x":1.0e0, "content" : [ '
    before += b'{"type":"image","data":"\\u00e9"} ] ,"isError":false } }'
    after = annotated(before + b"\n")
    cut = after.index(b',{"type":"text"')
    assert before.startswith(after[:cut])
    assert b'"data":"\\u00e9"} ' in after
    assert b'"x":1.0e0, "content" : [ ' in after
    message = json.loads(after)
    assert message["result"]["content"][0] == {"type": "image", "data": "é"}
    assert "read of /secret/0 refused by mcpwrap" in message["result"]["content"][1]["text"]
    assert message["result"]["_meta"]["mcpwrap/denials"] == [
        {"act": "read", "object": "/secret/0", "rule": "no-grant", "tools": ["read"], "count": 1}
    ]


@pytest.mark.parametrize("content", ["[]", "[ ]", None])
def test_an_empty_or_absent_content_gets_the_block(content: str | None) -> None:
    member = f'"content":{content}' if content else ""
    after = annotated(f'{{"jsonrpc":"2.0","id":1,"result":{{{member}}}}}\n'.encode())
    assert len(json.loads(after)["result"]["content"]) == 1


@pytest.mark.parametrize("meta", ['{"a":1}', "{}", "null", '{"a":1,"b":"\\u00e9"}'])
def test_the_servers_own_meta_is_kept(meta: str) -> None:
    after = annotated(f'{{"jsonrpc":"2.0","id":1,"result":{{"_meta":{meta},"content":[]}}}}\n'.encode())
    kept = json.loads(after)["result"]["_meta"]
    assert kept.pop("mcpwrap/denials")
    assert kept == (json.loads(meta) or {})


@pytest.mark.parametrize("broken", ['"text"', "null", "[]", '{"content":"text"}', '{"content":{}}'])
def test_a_result_that_can_bear_no_block_is_replaced(broken: str) -> None:
    message = json.loads(annotated(f'{{"jsonrpc":"2.0","id":1,"result":{broken}}}\n'.encode()))
    assert message["result"]["isError"] is True
    assert "withheld" in message["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("error", "begins"),
    [
        ('{"code":-1,"message":"no \\u00e9","data":1.0}', "no é\n"),
        ('{"code":-1,"message":""}', "\n"),
        ('{"code":-1}', ""),
        ('{"code":-1,"message":null}', ""),
        ('"boom"', ""),
    ],
)
def test_an_error_carries_the_sentence_in_its_message(error: str, begins: str) -> None:
    after = annotated(f'{{"jsonrpc":"2.0","id":1,"error":{error}}}\n'.encode())
    message = json.loads(after)["error"]["message"]
    assert message.startswith(begins + "[mcpwrap] refused during this call:")
    assert "read of /secret/0 refused by mcpwrap" in message
    if "data" in error:
        assert b'"data":1.0' in after


def test_the_model_is_never_handed_the_line_that_widens_its_grant() -> None:
    assert b"fs_read" not in annotated(answer(1))


def test_results_of_other_methods_carry_the_denials_in_meta_only() -> None:
    after = annotated(result(1, contents=[]), message=request(1, "resources/read", uri="file:///a"))
    message = json.loads(after)
    assert message["result"].keys() == {"contents", "_meta"}


def test_a_leg_that_needs_input_carries_its_denials_in_meta_only() -> None:
    after = annotated(result(1, resultType="input_required", requestState="S"))
    assert "content" not in json.loads(after)["result"]


def test_a_thousand_denials_are_counted_and_only_the_first_spelled_out() -> None:
    after = annotated(answer(1), denials=RECORDS_PER_WINDOW + 10)
    text = json.loads(after)["result"]["content"][1]["text"]
    assert text.count("\n") == DENIALS_TOLD + 1
    assert f"and {RECORDS_PER_WINDOW + 10 - DENIALS_TOLD} more" in text


def test_equal_denials_are_merged_with_their_count() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    for _ in range(3):
        play >> Denied(("w1",), denial())
    play >> Server(answer(1)) << closed("w1", "answered", denial(count=3))
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    assert b"refused by mcpwrap (3 times)" in reply.data


def test_file_names_that_are_no_unicode_reach_the_client_as_ascii() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    odd = Denial("read", "/a\udcff", "no-grant", ("t",), "read of /a\udcff refused")
    play >> Denied(("w1",), odd)
    play >> Server(answer(1)) << Closed
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    json.loads(reply.data)["result"]["content"][1]["text"].encode()


def test_only_the_denied_answer_of_a_batch_changes() -> None:
    play = Playbook()
    play >> Client([call(1), call(2)]) << Opened << Opened << Forward
    play >> Denied(("w2",), denial())
    play >> Server([answer(1), answer(2)]) << closed("w1", "answered") << closed("w2", "answered", denial())
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    first, second = json.loads(reply.data)
    assert first == answer(1)
    assert len(second["result"]["content"]) == 2


def test_a_modern_client_gets_a_result_type_in_answers_of_mcpwraps_own() -> None:
    play = Playbook()
    message = call(1)
    message["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    play >> Client(message) << Opened << Forward
    window = play.interposer._calls.in_flight[1].window
    assert window is not None
    play.refuse(window, "no") << Closed
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    assert json.loads(reply.data)["result"]["resultType"] == "complete"


def test_a_large_answer_without_a_denial_is_not_changed_and_with_one_is() -> None:
    big = answer(1, "line\n" * 100_000, isError=False)
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(big) << closed("w1", "answered")
    play.replies(big)
    play >> Client(call(1)) << Opened << Forward
    play >> Denied(("w2",), denial())
    play >> Server(big) << closed("w2", "answered", denial())
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    assert len(reply.data) > len(line(big))


@pytest.mark.parametrize(
    "odd",
    [
        {"isError": True},
        {"_meta": {"mcpwrap/denials": []}},
        {"resultType": "input_required", "requestState": "S"},
        {"resultType": "task", "taskId": "t", "status": "working"},
    ],
)
def test_a_large_answer_that_needs_a_closer_look_gets_one(odd: dict[str, object]) -> None:
    small, large = Playbook(), Playbook()
    for play, text in ((small, "x"), (large, "x" * 100_000)):
        play >> Client(call(1)) << Opened << Forward
        play >> Server(answer(1, text, **odd))
    assert [_kind(action) for action in small.take()] == [_kind(action) for action in large.take()]


def _kind(action: object) -> tuple[str, str]:
    return type(action).__name__, getattr(action, "how", "")
