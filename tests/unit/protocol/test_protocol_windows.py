"""When windows open and close: plain calls, overlap, cancels, tasks, legs, start-up, ends."""

from __future__ import annotations

import pytest

from mcpwrap.limits import MAX_HELD_CALLS, TASK_WINDOWS
from mcpwrap.protocol.actions import (
    Closed,
    EndInput,
    Forward,
    Noise,
    Opened,
    Reply,
    StartupArmed,
    StartupEnded,
)
from tests.unit.protocol.playbook import (
    ANY_TOOL,
    Client,
    ClientEof,
    Denied,
    Playbook,
    Quiet,
    Server,
    ServerEof,
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


def test_a_call_opens_its_window_before_its_bytes_and_closes_it_before_its_answer() -> None:
    play = Playbook()
    play >> Client(call(1, path="/a")) << opened("w1", "read", arguments={"path": "/a"}, request_id=1)
    play.forwards(call(1, path="/a"), "w1")
    play >> Server(answer(1)) << closed("w1", "answered")
    play.replies(answer(1)).done()


@pytest.mark.parametrize(
    "method",
    ["resources/read", "resources/subscribe", "prompts/get", "completion/complete", "prompts/new"],
)
def test_a_request_that_names_something_is_a_call_of_its_method(method: str) -> None:
    play = Playbook()
    message = request(1, method, uri="file:///a", _meta={"progressToken": 1})
    play >> Client(message) << opened("w1", method, method=method, arguments={"uri": "file:///a"})
    play.forwards(message, "w1").done()


@pytest.mark.parametrize(
    "method",
    ["tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping", "tasks/get", "x/y"],
)
def test_other_requests_open_no_window_and_never_wait(method: str) -> None:
    play = Playbook()
    play >> Client(call("c", "slow")) << Opened << Forward
    play >> Client(request(1, method))
    play.forwards(request(1, method))
    said = result(1, tools=[]) if method == "tools/list" else result(1)
    play >> Server(said)
    play.replies(said).done()


@pytest.mark.parametrize(
    ("method", "area"),
    [
        ("resources/list", "resources"),
        ("resources/templates/list", "resources"),
        ("prompts/list", "prompts"),
    ],
)
def test_a_list_is_a_call_where_the_grant_has_rules_for_its_area(method: str, area: str) -> None:
    play = Playbook(terms=ANY_TOOL._replace(listed=frozenset({area})))
    play >> Client(request(1, method)) << opened("w1", method, method=method, arguments={})
    play.forwards(request(1, method), "w1")
    play >> Server(result(1)) << closed("w1", "answered")
    play.replies(result(1))
    other = "prompts/list" if area == "resources" else "resources/list"
    play >> Client(request(2, other))
    play.forwards(request(2, other)).done()


def test_answers_out_of_order_close_their_own_windows() -> None:
    play = Playbook()
    play >> Client(call(1)) << opened("w1") << Forward
    play >> Client(call(2)) << opened("w2", union="") << Forward
    play >> Server(answer(2)) << closed("w2", "answered") << Reply
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    play.done()


def test_an_id_is_matched_as_it_is_and_else_as_a_client_may_read_it() -> None:
    play = Playbook()
    play >> Client(call(7)) << opened("w1") << Forward
    play >> Client(call("7")) << opened("w2") << Forward
    play >> Server(answer("7")) << closed("w2", "answered") << Reply
    play >> Server(answer("7")) << closed("w1", "answered")
    play.replies(answer("7")).done()


@pytest.mark.parametrize("request_id", [99, "99", "a", True, 1.5e300, None, [1]])
def test_answers_to_nothing_in_flight_are_dropped_and_noted(request_id: object) -> None:
    play = Playbook()
    play >> Client(call(1)) << opened("w1") << Forward
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    play >> Server(answer(1)) << note("forged")
    play >> Server(answer(request_id))
    assert not any(isinstance(action, Reply) for action in play.take())


def test_an_error_about_a_line_whose_id_was_not_read_passes() -> None:
    play = Playbook()
    play >> Server(error(None, -32700))
    play.replies(error(None, -32700)).done()


def test_the_late_answer_to_a_cancelled_request_passes() -> None:
    play = Playbook()
    play >> Client(request(1, "tools/list")) << Forward
    play >> Client(cancel(1)) << Forward
    play >> Server(result(1, tools=[]))
    play.replies(result(1, tools=[])).done()


def test_answers_pass_once_requests_were_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpwrap.protocol.bounded.REMEMBERED", 3)
    play = Playbook()
    for number in range(4):
        play >> Client(request(number, "ping")) << Forward
    play >> Server(result(0))
    play.replies(result(0)).done()


@pytest.mark.parametrize("request_id", [1.0, 2**60, True])
def test_the_answer_to_a_request_with_an_odd_id_passes(request_id: object) -> None:
    play = Playbook()
    play >> Client(request(request_id, "ping")) << Forward
    play >> Server(result(request_id))
    assert play.take()[-1] == Reply(line(result(request_id)))


def test_an_error_answer_asks_for_lookups_and_a_good_one_does_not() -> None:
    asked: list[str] = []

    def lookups(window: object) -> list[object]:
        asked.append(str(getattr(window, "id", "")))
        return [denial("/looked")]

    play = Playbook(lookups=lookups)  # type: ignore[arg-type]
    play >> Client(call(1)) << Opened << Forward
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    play >> Client(call(2)) << Opened << Forward
    play >> Server(answer(2, isError=True)) << closed("w2", "error", denial("/looked")) << Reply
    play >> Client(call(3)) << Opened << Forward
    play >> Server(error(3)) << closed("w3", "error", denial("/looked")) << Reply
    assert asked == ["w2", "w3"]


# Overlap


def test_auto_lets_calls_of_one_tool_run_together_and_others_wait_in_order() -> None:
    play = Playbook()
    play >> Client(call(1, "read")) << opened("w1") << Forward
    play >> Client(call(2, "write"))
    play >> Client(call(3, "read"))
    play >> Client(call(4, "write"))
    play >> Server(answer(1)) << closed("w1", "answered") << Reply << opened("w2", "write", union="")
    play.forwards(call(2, "write"), "w2")
    play >> Server(answer(2)) << closed("w2", "answered") << Reply << opened("w3", "read") << Forward
    play >> Server(answer(3)) << closed("w3", "answered") << Reply << opened("w4", "write") << Forward
    play.done()


def test_a_tool_named_like_a_method_is_another_one() -> None:
    play = Playbook()
    play >> Client(call(1, "resources/read")) << opened("w1", method="tools/call") << Forward
    play >> Client(request(2, "resources/read", uri="x"))
    play >> Server(answer(1)) << Closed << Reply << opened("w2", method="resources/read") << Forward
    play.done()


def test_serialize_runs_one_call_at_a_time() -> None:
    play = Playbook(overlap="serialize")
    play >> Client(call(1)) << opened("w1") << Forward
    play >> Client(call(2))
    play >> Server(request("s", "ping"))
    play.replies(request("s", "ping"))
    play >> Server(answer(1)) << closed("w1", "answered") << Reply << opened("w2", union="") << Forward
    play.done()


@pytest.mark.parametrize("tool", ["read", "other"])
def test_serialize_lets_a_call_pass_that_the_client_may_need_to_answer_another(tool: str) -> None:
    """The client that is asked for a sampling may call a tool for it: the two would wait for each other."""
    play = Playbook(overlap="serialize")
    play >> Client(call(1)) << opened("w1") << Forward
    play >> Client(call(2, tool))
    play >> Server(request("s", "sampling/createMessage")) << Reply
    play << opened("w2", tool, union="w1 (read) waits for the client") << Forward
    play >> Client(call(3, tool))
    play >> Server(answer(2)) << closed("w2", "answered") << Reply << opened("w3") << Forward
    play >> Client(result("s")) << Forward
    play >> Client(call(4, tool))
    play >> Server(answer(3)) << closed("w3", "answered") << Reply
    play.done()


def test_serialize_waits_for_a_task() -> None:
    play = Playbook(overlap="serialize")
    play >> Client(task_call(1)) << Opened << Forward
    play >> Server(result(1, task={"taskId": "t", "status": "working"})) << Reply
    play >> Client(call(2, "read"))
    play.done()


def test_union_runs_all_and_says_with_whom() -> None:
    play = Playbook(overlap="union")
    play >> Client(call(1, "read")) << opened("w1", union="") << Forward
    play >> Client(call(2, "write")) << opened("w2", union="w1 (read) runs (overlap = union)") << Forward
    play.done()


def test_a_held_call_is_answered_after_thirty_seconds() -> None:
    play = Playbook()
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Client(call(2, "other"))
    assert play.interposer.deadline() == play.now + 30
    play >> Wait(29.9)
    play >> Wait(0.1) << reply_failure(2, "waited 30 s for 'slow', which still runs") << note("held-too-long")
    assert play.interposer.deadline() == 100.0 + ANY_TOOL.window_limit
    play >> Server(answer(1)) << Closed << Reply
    play.done()


def test_a_held_request_that_is_no_tool_call_is_answered_with_an_error() -> None:
    play = Playbook()
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Client(request(2, "resources/read", uri="x"))
    play >> Wait(30) << reply_error(2, -32000) << note("held-too-long")


def test_the_bytes_of_held_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpwrap.protocol.held.MAX_HELD_BYTES", 200)
    play = Playbook()
    play >> Client(call("first", "slow")) << Opened << Forward
    play >> Client(call(1, "other", text="x" * 50))
    play >> Client(call(2, "other", text="x" * 50)) << reply_failure(2, "1 calls already wait")
    play << note("held-full")
    play.done()


def test_what_peers_make_us_remember_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpwrap.protocol.bounded.REMEMBERED", 3)
    play = Playbook()
    for number in range(9):
        play >> Client(request(number, "ping")) << Forward
    assert list(play.interposer._calls.passing) == [6, 7, 8]


def test_the_queue_of_held_calls_is_bounded() -> None:
    play = Playbook()
    play >> Client(call("first", "slow")) << Opened << Forward
    for number in range(MAX_HELD_CALLS):
        play >> Client(call(number, "other"))
    play >> Client(call("more", "other")) << reply_failure("more", "1024 calls already wait")
    play << note("held-full")
    play.done()


@pytest.mark.parametrize("method", ["roots/list", "sampling/createMessage", "elicitation/create"])
def test_no_call_waits_behind_one_that_waits_for_the_client(method: str) -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << opened("w1") << Forward
    play >> Client(call(2, "read"))
    play >> Server(request(1, method)) << Reply << opened("w2", union="w1 (ask) waits for the client")
    play.forwards(call(2, "read"), "w2")
    play >> Server(answer(2)) << closed("w2", "answered") << Reply
    play >> Client(result(1, roots=[]))
    play.forwards(result(1, roots=[]))
    play >> Client(call(3, "read"))
    play >> Server(answer(1)) << closed("w1", "answered") << Reply << opened("w3", union="") << Forward
    play.done()


def test_a_ping_or_a_progress_notification_is_not_waiting_for_the_client() -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << Opened << Forward
    play >> Client(call(2, "read"))
    play >> Server(request("p", "ping")) << Reply
    play >> Server(notification("notifications/progress", progress=1)) << Reply
    play.done()


def test_a_server_request_is_ascribed_to_all_calls_in_flight_if_there_are_several() -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << Opened << Forward
    play >> Client(call(2, "ask")) << Opened << Forward
    play >> Server(request("s", "roots/list")) << Reply
    play >> Client(call(3, "read"))
    play << opened("w3", union="w1 (ask) waits for the client; w2 (ask) waits for the client") << Forward
    play.done()


def test_a_call_waits_for_the_client_until_the_last_question_is_answered() -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << Opened << Forward
    play >> Server(request("s1", "roots/list")) << Reply
    play >> Server(request("s2", "roots/list")) << Reply
    play >> Client(result("s1")) << Forward
    play >> Client(call(2, "read")) << opened("w2", union="w1 (ask) waits for the client") << Forward
    play >> Server(answer(2)) << Closed << Reply
    play >> Client(error("s2")) << Forward
    play >> Client(call(3, "read"))
    play.done()


@pytest.mark.parametrize("fields", [{"params": 5}, {"params": None}, {"params": []}, {"id": "s" * 2_000}])
def test_a_request_no_client_answers_keeps_no_call_waiting(fields: dict[str, object]) -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << Opened << Forward
    play >> Server(request("s", "roots/list") | fields) << Reply
    play >> Client(call(2, "read"))
    play.done()


def test_a_server_that_withdraws_its_request_no_longer_waits() -> None:
    play = Playbook()
    play >> Client(call(1, "ask")) << Opened << Forward
    play >> Server(request("s", "roots/list")) << Reply
    play >> Server(cancel("s")) << Reply
    play >> Client(call(2, "read"))
    play.done()


# Cancels


def test_a_cancel_passes_at_once_and_its_window_drains_until_the_answer() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(cancel(1))
    play.forwards(cancel(1))
    assert play.interposer.deadline() == play.now + 2
    play >> Wait(1)
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    assert play.interposer.deadline() is None


def test_a_cancelled_window_closes_after_two_seconds() -> None:
    play = Playbook()
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Client(call(2, "next"))
    play >> Client(cancel(1)) << Forward
    play >> Wait(1)
    play >> Client(cancel(1)) << Forward
    play >> Wait(1) << closed("w1", "cancelled") << opened("w2", "next") << Forward
    play >> Server(answer(1))
    play.replies(answer(1)).done()


def test_a_cancel_of_a_held_call_removes_it_and_nobody_is_answered() -> None:
    play = Playbook()
    play >> Client(call(1, "slow")) << Opened << Forward
    play >> Client(call(2, "other"))
    play >> Client(call(3, "slow"))
    play >> Client(cancel(2)) << note("cancelled-held") << opened("w2", "slow") << Forward
    play.done()


def test_the_id_of_a_cancelled_request_may_be_used_again() -> None:
    play = Playbook()
    play >> Client(request(1, "tools/list")) << Forward
    play >> Client(cancel(1)) << Forward
    play >> Client(call(1)) << Opened << Forward
    play.done()


@pytest.mark.parametrize("request_id", ["1", 1.0, None, True, 99])
def test_a_cancel_of_another_id_passes_and_cancels_nothing(request_id: object) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(cancel(request_id)) << Forward
    assert play.interposer.deadline() == 100.0 + ANY_TOOL.window_limit
    play.done()


# Tasks


def task_call(request_id: int) -> dict[str, object]:
    message = call(request_id, "build")
    message["params"]["task"] = {"ttl": 60_000}
    return message


def extended_call(request_id: object) -> dict[str, object]:
    """A call whose client says that it may become a task (2026-07-28)."""
    message = call(request_id, "build")
    message["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    }
    return message


def test_a_task_of_2025_11_25_keeps_its_window_until_its_status_is_terminal() -> None:
    play = Playbook()
    play >> Client(task_call(1)) << opened("w1", "build") << Forward
    created = result(1, task={"taskId": "t", "status": "working", "ttl": 60_000})
    play >> Server(created)
    play.replies(created)
    assert play.interposer.deadline() == play.now + 60
    play >> Client(call(2, "read")) << opened("w2", union="w1 (build) has become a task") << Forward
    play >> Server(answer(2)) << Closed << Reply
    play >> Client(request(3, "tasks/get", taskId="t")) << Forward
    play >> Server(result(3, taskId="t", status="working")) << Reply
    play >> Client(request(4, "tasks/get", taskId="t")) << Forward
    play >> Server(result(4, taskId="t", status="completed")) << closed("w1", "task") << Reply
    assert play.interposer.deadline() is None


def test_a_tasks_result_ends_the_task_and_carries_its_denials() -> None:
    play = Playbook()
    play >> Client(task_call(1)) << Opened << Forward
    play >> Server(result(1, task={"taskId": "t", "status": "working", "ttl": None})) << Reply
    play >> Client(request(2, "tasks/result", taskId="t")) << Forward
    play >> Denied(("w1",), denial())
    play >> Server(answer(2)) << closed("w1", "task", denial())
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    assert b"refused by mcpwrap" in reply.data


def test_a_task_of_the_2026_07_28_extension_is_ended_by_a_notification_with_its_result() -> None:
    play = Playbook()
    play >> Client(extended_call(1)) << Opened << Forward
    play >> Server(result(1, resultType="task", taskId="t", status="working", ttlMs=5_000)) << Reply
    play >> Denied(("w1",), denial())
    outcome = {"content": [{"type": "text", "text": "done"}]}
    play >> Server(notification("notifications/tasks", taskId="t", status="completed", result=outcome))
    play << closed("w1", "task", denial())
    (reply,) = play.take()
    assert isinstance(reply, Reply)
    assert b"refused by mcpwrap" in reply.data
    play >> Client(request(2, "tasks/get", taskId="t")) << Forward
    play >> Server(result(2, taskId="t", status="completed", result=outcome))
    (again,) = play.take()
    assert isinstance(again, Reply)
    assert b"refused by mcpwrap" in again.data


def test_a_result_that_merely_holds_a_task_key_is_an_answer() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(answer(1, task={"taskId": "t", "status": "working"})) << closed("w1", "answered") << Reply


@pytest.mark.parametrize(
    "task", [{"taskId": "t" * 2_000}, {"taskId": "t", "content": []}, {"taskId": 1}, {"status": "working"}]
)
def test_what_is_no_task_for_every_client_closes_the_window(task: dict[str, object]) -> None:
    play = Playbook()
    play >> Client(extended_call(1)) << Opened << Forward
    play >> Server(result(1, resultType="task", **task)) << closed("w1", "answered") << Reply


def test_a_task_nobody_asked_for_closes_the_window() -> None:
    play = Playbook()
    play >> Client(call(1, "build")) << Opened << Forward
    (
        play
        >> Server(result(1, resultType="task", taskId="t", status="working"))
        << closed("w1", "answered")
        << Reply
    )


def test_a_tasks_ttl_closes_its_window() -> None:
    play = Playbook()
    play >> Client(extended_call(1)) << Opened << Forward
    play >> Server(result(1, resultType="task", taskId="t", status="working", ttlMs=1_500)) << Reply
    play >> Wait(1.5) << closed("w1", "ttl")


def test_tasks_without_end_are_bounded() -> None:
    play = Playbook()
    for number in range(TASK_WINDOWS):
        play >> Client(extended_call(number)) << Opened << Forward
        play >> Server(result(number, resultType="task", taskId=f"t{number}", status="working", ttlMs=None))
        play << Reply
    play >> Client(extended_call("last")) << Opened << Forward
    play >> Server(result("last", resultType="task", taskId="last", status="working", ttlMs=None))
    play << closed("w1", "crowded") << Reply
    play.done()


# Legs


def test_input_required_ends_a_leg_and_the_retry_is_joined_by_its_state() -> None:
    play = Playbook()
    play >> Client(call(1, "book")) << opened("w1") << Forward
    play >> Denied(("w1",), denial())
    play >> Server(result(1, resultType="input_required", inputRequests={}, requestState="S"))
    play << closed("w1", "input_required", denial()) << Reply
    retry = call(2, "book")
    retry["params"] |= {"requestState": "S", "inputResponses": {}}
    play >> Client(retry) << opened("w2", joined="w1") << Forward
    play >> Server(answer(2)) << closed("w2", "answered", denial()) << Reply
    other = call(3, "book")
    other["params"]["requestState"] = "S"
    play >> Client(other) << opened("w3", joined=None) << Forward
    play.done()


# Start-up


def test_calls_are_held_until_start_up_is_over() -> None:
    play = Playbook(startup=True)
    play >> Client(request(0, "initialize")) << Forward
    play >> Client(call(1))
    play >> Client(request(2, "tools/list")) << Forward
    play >> Server(result(0, capabilities={})) << StartupArmed() << Reply
    play >> Wait(100)
    play >> Quiet() << StartupEnded() << opened("w1") << Forward
    play >> Quiet()
    play.done()


def test_a_failed_handshake_does_not_end_start_up() -> None:
    play = Playbook(startup=True)
    play >> Client(request(0, "server/discover")) << Forward
    play >> Server(error(0, -32601)) << Reply
    play >> Client(request(1, "initialize")) << Forward
    play >> Server(result(1)) << StartupArmed() << Reply
    play.done()


def test_a_first_call_without_any_handshake_starts_the_end_of_start_up() -> None:
    play = Playbook(startup=True)
    play >> Client(call(1)) << StartupArmed()
    play >> Client(call(2))
    play >> Quiet() << StartupEnded() << opened("w1") << Forward << opened("w2") << Forward
    play.done()


def test_a_call_held_behind_a_handshake_that_fails_is_not_held_for_ever() -> None:
    play = Playbook(startup=True)
    play >> Client(request(0, "initialize")) << Forward
    play >> Client(call(1))
    play >> Server(error(0)) << Reply << StartupArmed()
    play.done()


def test_the_thirty_seconds_of_a_turn_begin_when_start_up_ends() -> None:
    play = Playbook(startup=True)
    play >> Client(call(1, "a")) << StartupArmed
    play >> Client(call(2, "b"))
    play >> Wait(100)
    assert play.interposer.deadline() is None
    play >> Quiet() << StartupEnded << opened("w1") << Forward
    assert play.interposer.deadline() == play.now + 30


# Ends


def test_input_ends_behind_the_last_held_call() -> None:
    play = Playbook(startup=True)
    play >> Client(call(1)) << StartupArmed
    play >> ClientEof()
    play >> Quiet() << StartupEnded << opened("w1") << Forward << EndInput()
    play.done()


def test_input_ends_at_once_if_nothing_is_held() -> None:
    play = Playbook()
    play >> ClientEof() << EndInput()
    play.done()


def test_an_unfinished_line_at_the_clients_end_is_dropped_and_noted() -> None:
    play = Playbook()
    play >> Client(line(call(1))[:-1])
    play >> ClientEof() << note("unfinished") << EndInput()
    play.done()


def test_the_servers_end_closes_every_window_and_makes_nothing_up() -> None:
    play = Playbook()
    play >> Client(call(1, "a")) << Opened << Forward
    play >> Client(call(2, "a")) << Opened << Forward
    play >> Client(call(3, "b"))
    play >> Server(b"Traceback") >> ServerEof() << Noise(b"Traceback") << note("unfinished")
    play << closed("w1", "eof") << closed("w2", "eof") << note("held-lost")
    play >> Client(call(4))
    play.done()


def test_a_refused_window_is_closed_and_answered_in_the_servers_place() -> None:
    play = Playbook()
    play >> Client(call(1, "a")) << Opened << Forward
    play >> Client(call(2, "b"))
    window = play.interposer._calls.in_flight[1].window
    assert window is not None
    play.refuse(window, "the disk is full") << closed("w1", "refused") << reply_failure(1, "the disk is full")
    play << opened("w2", "b") << Forward
    play.refuse(window, "again")
    play.done()


def test_denials_of_several_candidates_go_to_each_and_to_no_closed_window() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(call(2)) << Opened << Forward
    play >> Denied(("w1", "w2"), denial(count=2))
    play >> Denied(("w1", "w2", "w9"), denial())
    play >> Server(answer(1)) << closed("w1", "answered", denial(count=3)) << Reply
    play >> Denied(("w1",), denial("/late"))
    play >> Server(answer(2)) << closed("w2", "answered", denial(count=3)) << Reply
    play.done()
