"""What a grant asks of a call beside its paths: its arguments, its time, and what becomes of its answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpwrap.protocol.actions import Closed, Forward, Opened, Refused, Reply, Withdrawn
from mcpwrap.protocol.terms import Objection, Terms
from mcpwrap.protocol.window import Call
from tests.unit.protocol.playbook import (
    ANY_TOOL,
    Client,
    Denied,
    Like,
    Playbook,
    Server,
    Wait,
    answer,
    call,
    cancel,
    closed,
    denial,
    error,
    line,
    note,
    notification,
    opened,
    reply_error,
    reply_failure,
    request,
    result,
)

# Arguments


def strict(call: Call) -> Objection | None:
    """Refuse whatever a call says in `sql` but one thing."""
    good = call.arguments.get("sql", "select 1") == "select 1"
    return None if good else Objection('tools."query".args.sql', 'the argument "sql" must match')


CHECKED = ANY_TOOL._replace(permit=strict)


def test_a_call_whose_arguments_fail_is_answered_and_never_reaches_the_server() -> None:
    play = Playbook(terms=CHECKED)
    play >> Client(call(1, "query", sql="drop table x"))
    play << Refused("query", 1, Objection('tools."query".args.sql', 'the argument "sql" must match'))
    (action,) = play.take()
    assert isinstance(action, Reply)
    message = json.loads(action.data)
    assert message["id"] == 1
    assert message["result"]["isError"] is True
    said = message["result"]["content"][0]["text"]
    assert 'the argument "sql" must match (rule tools."query".args.sql)' in said
    assert said.endswith("refused by mcpwrap, not an outage; do not retry; ask the user")
    denials = message["result"]["_meta"]["mcpwrap/denials"]
    assert denials == [
        {"act": "call", "object": "query", "rule": 'tools."query".args.sql', "tools": ["query"], "count": 1}
    ]
    # Its id is free again.
    play >> Client(call(1, "query", sql="select 1")) << Opened << Forward


def test_a_call_that_meets_its_conditions_goes_on_byte_for_byte() -> None:
    play = Playbook(terms=CHECKED)
    message = b' {"id":1,"method":"tools/call","params":{"arguments":{"sql":"select \\u0031"},"name":"q"}}\n'
    (play >> Client(message) << Opened).forwards(message, "w1")


def test_in_the_stateless_revision_the_refusal_is_complete() -> None:
    message = call(1, "query", sql="drop")
    message["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    play = Playbook(terms=CHECKED)
    play >> Client(message) << Refused
    play << Like("complete", lambda action: json.loads(action.data)["result"]["resultType"] == "complete")


def test_it_is_refused_at_once_even_while_another_call_runs() -> None:
    play = Playbook(terms=CHECKED)
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Client(call(2, "query", sql="drop")) << Refused << reply_failure(2, "must match")
    play.done()


def test_a_batch_is_refused_as_a_whole() -> None:
    play = Playbook(terms=CHECKED)
    play >> Client([call(1, "query", sql="drop"), call(2, "query", sql="select 1")])
    play << Refused << reply_failure(1, "must match") << Refused << reply_failure(2, "its batch")
    play.done()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ('{"id":1,"method":"tools/call","params":{"name":"q","arguments":{"sql":"a","sql":"b"}}}', -32600),
        ('{"id":1,"method":"tools/call","params":{"name":"q","arguments":{"o":[{"k":1,"k":2}]}}}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"q","Arguments":{"sql":"b"}}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"q","arguments":["b"]}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"q","arguments":"b"}}', -32602),
        ('{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"q"}}', -32600),
        ('{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"q"}}', -32600),
        ('{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{"name":"q"}}', 0),
        ('{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"q"}}', 0),
        ('{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"q"}}', 0),
    ],
)  # fmt: skip
def test_what_servers_read_in_different_ways_never_has_a_window(message: str, code: int) -> None:
    play = Playbook(terms=CHECKED)
    play >> Client(message.encode() + b"\n")
    if code:
        play << reply_error(1, code)
    play << note("not-forwarded")
    play.done()


# Areas

COMPLETE = "completion/complete"


@pytest.mark.parametrize(
    ("method", "params", "area"),
    [
        ("resources/read", {"uri": "file:///a"}, "resources"),
        ("resources/subscribe", {"uri": "file:///a"}, "resources"),
        ("prompts/get", {"name": "p"}, "prompts"),
        (COMPLETE, {"ref": {"type": "ref/prompt", "name": "p"}}, "prompts"),
        (COMPLETE, {"ref": {"type": "ref/resource", "uri": "a"}}, "resources"),
        (COMPLETE, {"ref": {"type": "ref/resource", "Type": "ref/prompt"}}, ""),
        (COMPLETE, {"ref": {"type": ["ref/prompt"]}}, ""),
        (COMPLETE, {"ref": "ref/prompt"}, ""),
        (COMPLETE, {}, ""),
    ],
)
def test_a_window_says_which_tables_of_the_grant_hold(method: str, params: dict[str, Any], area: str) -> None:
    play = Playbook(terms=Terms())
    play >> Client(request(1, method, **params)) << opened("w1", method, area=area) << Forward


def test_what_has_one_grant_runs_together_and_what_has_not_waits() -> None:
    play = Playbook()
    play >> Client(request(1, "resources/read", uri="a")) << Opened << Forward
    play >> Client(request(2, "resources/subscribe", uri="a")) << opened("w2", union="") << Forward
    play >> Client(request(3, "prompts/get", name="resources/read"))
    play >> Client(call(4, "resources/read"))
    play.done()


# Time

SHORT = ANY_TOOL._replace(window_limit=60.0)


def withdrawn(window_id: str) -> Like:
    return Like(
        f"withdrawn({window_id})",
        lambda action: isinstance(action, Withdrawn) and action.window.id == window_id,
    )


def test_a_call_that_has_had_its_time_goes_on_without_its_grant() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1)) << Opened << Forward
    assert play.interposer.deadline() == play.now + 60
    play >> Wait(59.9)
    play >> Wait(0.1) << withdrawn("w1")
    assert play.interposer.deadline() is None
    play >> Wait(3600)
    play >> Denied(("w1",), denial())
    play >> Server(answer(1)) << closed("w1", "answered", denial())
    play << Like("told", lambda action: b"refused by mcpwrap" in action.data)


def test_each_call_has_its_own_time() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1)) << Opened << Forward
    play >> Wait(30)
    play >> Client(call(2)) << Opened << Forward
    play >> Wait(30) << withdrawn("w1")
    (play >> Server(answer(1)) << closed("w1", "answered")).replies(answer(1))
    assert play.interposer.deadline() == play.now + 30
    play >> Wait(30) << withdrawn("w2")
    play.done()


def test_the_time_of_a_call_begins_when_its_window_opens() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Wait(20)
    play >> Client(call(2, "read"))
    play >> Wait(20)
    play >> Server(answer(1)) << Closed << Reply << Opened << Forward
    assert play.interposer.deadline() == play.now + 60


@pytest.mark.parametrize("mode", ["auto", "serialize"])
def test_nobody_waits_for_a_call_that_has_no_grant_any_more(mode: str) -> None:
    play = Playbook(terms=SHORT, overlap=mode)
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Wait(50)
    play >> Client(call(2, "read"))
    play >> Wait(10) << withdrawn("w1") << opened("w2", union="w1 (slow) has had its time") << Forward
    play.done()


@pytest.mark.parametrize("end", [answer(1), error(1)])
def test_a_call_answered_in_time_is_not_withdrawn(end: object) -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1)) << Opened << Forward
    play >> Server(end) << Closed << Reply
    assert play.interposer.deadline() is None
    play >> Wait(60)
    play.done()


def test_a_call_that_waits_for_the_client_has_its_time_too() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1)) << Opened << Forward
    asking = request(9, "elicitation/create")
    (play >> Server(asking)).replies(asking)
    play >> Wait(60) << withdrawn("w1")
    (play >> Client(result(9))).forwards(result(9))
    (play >> Server(answer(1)) << closed("w1", "answered")).replies(answer(1))


def test_a_cancelled_call_is_closed_and_not_only_withdrawn() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(call(1)) << Opened << Forward
    play >> Wait(59)
    play >> Client(cancel(1)) << Forward
    play >> Wait(1) << withdrawn("w1")
    play >> Wait(1) << closed("w1", "cancelled")
    assert play.interposer.deadline() is None


def task_call(request_id: int) -> dict[str, Any]:
    message = call(request_id)
    message["params"]["task"] = {"ttl": None}
    return message


def test_a_task_has_its_time_from_the_call_on_and_its_outcome_still_tells() -> None:
    play = Playbook(terms=SHORT)
    play >> Client(task_call(1)) << Opened << Forward
    play >> Wait(10)
    created = result(1, task={"taskId": "t", "status": "working"})
    (play >> Server(created)).replies(created)
    play >> Wait(50) << withdrawn("w1")
    play >> Denied(("w1",), denial())
    play >> Client(request(2, "tasks/result", taskId="t")) << Forward
    play >> Server(answer(2)) << closed("w1", "task", denial())
    play << Like("told", lambda action: b"refused by mcpwrap" in action.data)


# What becomes of an answer

WITHHOLDING = ANY_TOOL._replace(on_denial="error")
SECRET = "what the server says"
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def withheld(reply: object, message: dict[str, Any] | None = None, how: str = "withheld") -> dict[str, Any]:
    """Return the reply to a call during which something was refused."""
    play = Playbook(terms=WITHHOLDING)
    play >> Client(message or call(1)) << Opened << Forward
    play >> Denied(("w1",), denial())
    play >> Server(reply) << closed("w1", how, denial())
    return only(play)


def only(play: Playbook) -> dict[str, Any]:
    (action,) = play.take()
    assert isinstance(action, Reply)
    assert SECRET.encode() not in action.data
    message: dict[str, Any] = json.loads(action.data)
    return message


def assert_sentences(outcome: dict[str, Any]) -> None:
    assert outcome["isError"] is True
    (block,) = outcome["content"]
    assert denial().sentence in block["text"]
    assert "withheld" in block["text"]
    assert outcome["_meta"]["mcpwrap/denials"][0]["object"] == denial().object
    assert outcome.keys() <= {"content", "isError", "_meta", "resultType"}


@pytest.mark.parametrize(
    "reply",
    [
        answer(1, SECRET),
        answer(1, SECRET, structuredContent={"said": SECRET}),
        answer(1, SECRET, isError=True),
        answer(1, SECRET, _meta={"said": SECRET}),
        result(1, structuredContent={"said": SECRET}),
        {"jsonrpc": "2.0", "id": 1, "result": SECRET},
        result(1, resultType="input_required", requestState=SECRET, inputRequests={"a": SECRET}),
        line(answer("1", SECRET)),
    ],
)
def test_the_result_of_a_call_in_which_something_was_refused_is_replaced(reply: object) -> None:
    message = withheld(reply)
    assert_sentences(message["result"])
    assert "resultType" not in message["result"]


def test_in_the_stateless_revision_it_is_replaced_by_a_complete_one() -> None:
    message = call(1)
    message["params"]["_meta"] = MODERN
    outcome = withheld(answer(1, SECRET, resultType="complete"), message)["result"]
    assert_sentences(outcome)
    assert outcome["resultType"] == "complete"


def test_a_call_without_a_denial_is_answered_byte_for_byte() -> None:
    play = Playbook(terms=WITHHOLDING)
    play >> Client(call(1)) << Opened << Forward
    reply = b'{"jsonrpc":"2.0", "id":1,"result":{"content":[], "structuredContent":{"x":1.0}}}\n'
    play >> Server(reply) << closed("w1", "answered")
    play.replies(reply).done()


def test_an_error_is_replaced_by_one_that_only_tells() -> None:
    failed: dict[str, Any] = error(1, -5, SECRET)
    failed["error"]["data"] = {"said": SECRET}
    message = withheld(failed)
    assert message["error"].keys() == {"code", "message"}
    assert denial().sentence in message["error"]["message"]


def test_the_answer_of_another_method_becomes_an_error() -> None:
    read = request(1, "resources/read", uri="file:///a")
    message = withheld(result(1, contents=[{"uri": "file:///a", "text": SECRET}]), read)
    assert denial().sentence in message["error"]["message"]


def test_in_a_batch_only_the_answer_of_that_call_is_replaced() -> None:
    play = Playbook(terms=WITHHOLDING, overlap="union")
    play >> Client(call(1)) << Opened << Forward
    play >> Client(call(2)) << Opened << Forward
    play >> Denied(("w1",), denial())
    play >> Server([answer(1, SECRET), answer(2, "mine")]) << Closed << Closed
    (action,) = play.take()
    assert isinstance(action, Reply)
    first, second = json.loads(action.data)
    assert_sentences(first["result"])
    assert second == answer(2, "mine")


def test_the_outcome_of_a_task_is_replaced_and_stays_related_to_it() -> None:
    play = Playbook(terms=WITHHOLDING)
    play >> Client(task_call(1)) << Opened << Forward
    created = result(1, task={"taskId": "t", "status": "working"})
    (play >> Server(created)).replies(created)
    play >> Denied(("w1",), denial())
    play >> Client(request(2, "tasks/result", taskId="t")) << Forward
    related = {"io.modelcontextprotocol/related-task": {"taskId": "t"}, "said": SECRET}
    play >> Server(answer(2, SECRET, _meta=related)) << Closed
    message = only(play)
    assert message["id"] == 2
    assert_sentences(message["result"])
    assert message["result"]["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": "t"}


def modern_task(play: Playbook) -> None:
    message = call(1)
    extensions: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    message["params"]["_meta"] = {**MODERN, "io.modelcontextprotocol/clientCapabilities": extensions}
    play >> Client(message) << Opened << Forward
    created = result(1, resultType="task", taskId="t", status="working")
    (play >> Server(created)).replies(created)
    play >> Denied(("w1",), denial())


OUTCOME = {"content": [{"type": "text", "text": SECRET}], "structuredContent": {"a": SECRET}}


def test_the_outcome_inside_a_tasks_status_is_replaced_and_the_status_stays() -> None:
    play = Playbook(terms=WITHHOLDING)
    modern_task(play)
    play >> Client(request(2, "tasks/get", taskId="t")) << Forward
    (
        play
        >> Server(result(2, taskId="t", status="completed", result=OUTCOME))
        << closed("w1", "task", denial())
    )
    message = only(play)
    assert_sentences(message["result"]["result"])
    assert message["result"]["status"] == "completed"
    assert message["result"]["result"]["resultType"] == "complete"


def test_the_outcome_inside_a_tasks_notice_is_replaced() -> None:
    play = Playbook(terms=WITHHOLDING)
    modern_task(play)
    (
        play
        >> Server(notification("notifications/tasks", taskId="t", status="completed", result=OUTCOME))
        << Closed
    )
    assert_sentences(only(play)["params"]["result"])


@pytest.mark.parametrize("asked", [False, True])
def test_the_error_of_a_task_is_replaced_by_one_that_only_tells(asked: bool) -> None:
    play = Playbook(terms=WITHHOLDING)
    modern_task(play)
    failure = {"code": -1, "message": SECRET, "data": SECRET}
    if asked:
        play >> Client(request(2, "tasks/result", taskId="t")) << Forward
        play >> Server({"jsonrpc": "2.0", "id": 2, "error": failure}) << Closed
        told = only(play)["error"]
    else:
        failed = notification("notifications/tasks", taskId="t", status="failed", error=failure)
        play >> Server(failed) << Closed
        told = only(play)["params"]["error"]
    assert told.keys() == {"code", "message"}
    assert denial().sentence in told["message"]


@pytest.mark.parametrize("how", ["answer", "notice", "failure"])
def test_what_a_tasks_last_status_says_is_replaced(how: str) -> None:
    play = Playbook(terms=WITHHOLDING)
    modern_task(play)
    status: dict[str, Any] = {"taskId": "t", "status": "failed", "statusMessage": SECRET}
    if how == "notice":
        play >> Server(notification("notifications/tasks", **status)) << Closed
        said = only(play)["params"]["statusMessage"]
    else:
        play >> Client(request(2, "tasks/get", taskId="t")) << Forward
        if how == "answer":
            play >> Server(result(2, **status)) << Closed
            said = only(play)["result"]["statusMessage"]
        else:
            play >> Server(error(2, -1, SECRET))
            said = only(play)["error"]["message"]
    assert denial().sentence in said


def test_what_a_task_says_while_it_works_passes() -> None:
    play = Playbook(terms=WITHHOLDING)
    modern_task(play)
    notice = notification("notifications/tasks", taskId="t", status="working", statusMessage="half done")
    (play >> Server(notice)).replies(notice)
    play.done()


def test_the_answer_of_a_cancelled_call_is_replaced_too() -> None:
    play = Playbook(terms=WITHHOLDING)
    play >> Client(call(1)) << Opened << Forward
    play >> Denied(("w1",), denial())
    play >> Client(cancel(1)) << Forward
    play >> Server(answer(1, SECRET)) << closed("w1", "withheld", denial())
    assert_sentences(only(play)["result"])


def test_what_an_earlier_leg_was_refused_is_known_to_the_model_before_it_is_asked_anything() -> None:
    message = call(1)
    message["params"]["_meta"] = MODERN
    asks = result(1, resultType="input_required", requestState="s", inputRequests={"a": {"message": SECRET}})
    assert_sentences(withheld(asks, message)["result"])


def test_an_answer_about_what_was_only_looked_up_is_replaced() -> None:
    play = Playbook(terms=WITHHOLDING, lookups=lambda _: [denial()])
    play >> Client(call(1)) << Opened << Forward
    play >> Server(answer(1, SECRET, isError=True)) << closed("w1", "withheld", denial())
    assert_sentences(only(play)["result"])
