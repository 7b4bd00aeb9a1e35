"""Each protocol threat against earlier designs is a rule here, and stays one."""

from __future__ import annotations

import json

import pytest

from mcpwrap.limits import MAX_DEPTH, NOISE_NOTED, UNPARSABLE_LINES
from mcpwrap.protocol.actions import Closed, Failed, Forward, Noise, Note, Opened, Reply
from tests.unit.protocol.playbook import (
    Client,
    Denied,
    Playbook,
    Server,
    ServerEof,
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

# 1. A raw CR that is not directly before LF


@pytest.mark.parametrize("at", [0, 1, 30, -2])
def test_a_raw_cr_of_the_client_is_answered_and_not_forwarded(at: int) -> None:
    smuggled = line(request(1, "ping"))
    play = Playbook()
    play >> Client(smuggled[:at] + b"\r" + smuggled[at:] if at >= 0 else smuggled[:-1] + b"\r\r\n")
    play << reply_error(None, -32700) << note("not-forwarded")
    play.done()


def test_a_tools_call_behind_a_raw_cr_is_smuggled_nowhere() -> None:
    play = Playbook()
    play >> Client(line(request(1, "ping"))[:-1] + b"\r" + line(call(2)))
    play << reply_error(None, -32700) << note("not-forwarded")
    play.done()


def test_a_cr_before_lf_is_an_ordinary_line_end_and_kept() -> None:
    play = Playbook()
    crlf = line(call(1))[:-1] + b"\r\n"
    play >> Client(crlf) << opened("w1")
    play.forwards(crlf, "w1")
    crlf = line(answer(1))[:-1] + b"\r\n"
    play >> Server(crlf) << closed("w1", "answered")
    play.replies(crlf).done()


def test_a_raw_cr_of_the_server_is_noise_and_closes_nothing() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    forged = line(answer(1))[:-1] + b"\r" + line(answer(2))
    play >> Server(forged) << Noise(forged) << note("raw-cr")
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    play.done()


def test_the_line_separator_of_unicode_is_an_ordinary_character() -> None:
    play = Playbook()
    message = json.dumps(call(1, path="a\u2028b\u0085c"), ensure_ascii=False).encode() + b"\n"
    play >> Client(message) << opened("w1", arguments={"path": "a\u2028b\u0085c"})
    play.forwards(message, "w1").done()


# 2. Forged answers, ids, unfinished lines, batches


def test_an_answer_to_a_held_call_is_forged_dropped_and_noted() -> None:
    play = Playbook()
    play >> Client(call(1, "a")) << Opened << Forward
    play >> Client(call(2, "b"))
    play >> Server(answer(2)) << note("forged")
    play >> Server(error(2)) << note("forged")
    play >> Server(answer(1)) << closed("w1", "answered") << Reply << opened("w2", "b") << Forward
    play >> Server(answer(2)) << closed("w2", "answered") << Reply
    play.done()


@pytest.mark.parametrize("second", [call(1), request(1, "ping"), request(1, "resources/read", uri="x")])
def test_an_id_in_flight_twice_is_an_invalid_request(second: dict[str, object]) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(second) << reply_error(1, -32600) << note("not-forwarded")
    play.done()


def test_an_id_of_another_open_request_or_of_a_held_call_is_in_flight_too() -> None:
    play = Playbook(startup=True)
    play >> Client(request(1, "tools/list")) << Forward
    play >> Client(call(1)) << reply_error(1, -32600) << note("not-forwarded")
    play >> Server(result(1, tools=[])) << Reply
    play >> Client(call(1))
    play.take()
    play >> Client(call(1)) << reply_error(1, -32600) << note("not-forwarded")
    play.done()


@pytest.mark.parametrize("request_id", [None, 1.0, True, [1], {}, 2**53, "\ud800", "absent"])
def test_a_window_opening_method_without_a_usable_id_is_dropped(request_id: object) -> None:
    play = Playbook()
    message = call(request_id)
    if request_id == "absent":
        del message["id"]
    play >> Client(message) << note("not-forwarded")
    play.done()


@pytest.mark.parametrize("request_id", [None, 1.0, True])
def test_other_messages_with_odd_ids_pass_as_they_are(request_id: object) -> None:
    play = Playbook()
    play >> Client(request(request_id, "ping"))
    play.forwards(request(request_id, "ping")).done()


def test_a_batch_opens_all_its_windows_and_is_one_forward() -> None:
    play = Playbook()
    batch = [call(1), notification("notifications/x"), call(2), request(3, "ping")]
    play >> Client(batch) << opened("w1") << opened("w2")
    play.forwards(batch, "w1", "w2")
    answers = [answer(2), answer(1), result(3)]
    play >> Server(answers) << closed("w2", "answered") << closed("w1", "answered")
    play.replies(answers).done()


def test_a_batch_of_different_tools_is_refused_whole_under_auto() -> None:
    play = Playbook()
    play >> Client([call(1, "a"), request(3, "ping"), call(2, "b")])
    for request_id in (1, 3, 2):
        play << reply_error(request_id, -32600) << note("not-forwarded")
    play.done()


def test_a_batch_is_refused_whole_if_one_call_in_it_is_not_certain() -> None:
    play = Playbook()
    play >> Client(b'[%s,{"id":2,"Method":"tools/call"}]\n' % line(call(1)).strip())
    play << reply_error(1, -32600) << note("not-forwarded")
    play.done()


@pytest.mark.parametrize("batch", [[call(1), call(1)], [call(1), request(1, "ping")]])
def test_a_batch_that_uses_an_id_twice_is_refused(batch: list[object]) -> None:
    play = Playbook()
    play >> Client(batch) << reply_error(1, -32600) << note("not-forwarded")
    play.done()


def test_a_batch_of_several_calls_is_refused_under_serialize_and_waits_under_auto() -> None:
    play = Playbook(overlap="serialize")
    play >> Client([call(1), call(2)]) << reply_error(1, -32600) << Note << reply_error(2, -32600) << Note
    play = Playbook()
    play >> Client(call(0, "a")) << Opened << Forward
    play >> Client([call(1, "b"), call(2, "b")])
    play >> Client(cancel(2))
    play >> Server(answer(0)) << Closed << Reply << opened("w2") << opened("w3")
    play.forwards([call(1, "b"), call(2, "b")], "w2", "w3")
    play.forwards(cancel(2)).done()
    assert play.interposer.deadline() == play.now + 2


def test_a_cancel_inside_a_batch_removes_a_held_call() -> None:
    play = Playbook()
    play >> Client(call(0, "a")) << Opened << Forward
    play >> Client(call(1, "b"))
    play >> Client([cancel(1)]) << note("cancelled-held")
    play.forwards([cancel(1)]).done()


def test_a_forged_answer_is_cut_out_of_a_batch() -> None:
    play = Playbook()
    play >> Client(call(1, "a")) << Opened << Forward
    play >> Client(call(2, "b"))
    play >> Server([answer(2), answer(1)]) << note("forged") << closed("w1", "answered")
    play.replies([answer(1)]) << opened("w2") << Forward
    play.done()


# 3. What cannot be read with certainty

CALL = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"p":"x"}}}'


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"t"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"ping","params":{"name":"t"}}',
        '{"jsonrpc":"2.0","id":1,"Method":"tools/call","params":{"name":"t"}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping","METHOD":"tools/call","params":{"name":"t"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"},"Params":{"name":"u"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"},"param\\u017f":{"name":"u"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","name":"u"}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"p":1,"p":2}}}',
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"p":[{"q":1,"q":2}]}}}',
    ],
)
def test_an_uncertain_call_is_an_invalid_request(text: str) -> None:
    play = Playbook()
    play >> Client(text.encode() + b"\n") << reply_error(1, -32600) << note("not-forwarded")
    play.done()


@pytest.mark.parametrize(
    "params",
    [
        None,
        [],
        "x",
        {},
        {"name": 5},
        {"name": ""},
        {"name": "\ud800"},
        {"name": "t", "arguments": []},
        {"name": "t", "arguments": "x"},
        {"name": "t", "Arguments": {}},
        {"Name": "u", "name": "t"},
    ],
)
def test_a_call_whose_tool_or_arguments_cannot_be_read_has_invalid_params(params: object) -> None:
    play = Playbook()
    play >> Client({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    play << reply_error(1, -32602) << note("not-forwarded")
    play.done()


def test_two_ids_are_answered_with_none_of_them() -> None:
    play = Playbook()
    play >> Client(b'{"id":1,"id":2,"method":"tools/call","params":{"name":"t"}}\n')
    play << reply_error(None, -32600) << note("not-forwarded")
    play >> Client(b'{"Method":"tools/call"}\n') << note("not-forwarded")
    play.done()


@pytest.mark.parametrize(
    "data",
    [
        b"hello\n",
        b"{'id':1}\n",
        b"\xef\xbb\xbf" + CALL.encode() + b"\n",
        CALL.encode("utf-16-le").replace(b"\n", b"") + b"\n",
        CALL.replace('"x"', '"\xff"').encode("latin-1") + b"\n",
        CALL.encode() + b" x\n",
        CALL.replace('"x"', "[" * 100_000 + "]" * 100_000).encode() + b"\n",
        CALL.replace('"x"', "9" * 5_000).encode() + b"\n",
    ],
)
def test_what_is_no_json_in_utf_8_is_answered_and_not_forwarded(data: bytes) -> None:
    play = Playbook()
    play >> Client(data) << reply_error(None, -32700) << note("not-forwarded")
    play.done()


def test_a_call_nests_at_most_so_deep() -> None:
    def nested(levels: int) -> bytes:
        return CALL.replace('"x"', "[" * levels + "]" * levels).encode() + b"\n"

    play = Playbook()
    play >> Client(nested(MAX_DEPTH - 3)) << Opened << Forward
    play >> Server(answer(1)) << Closed << Reply
    play >> Client(nested(MAX_DEPTH - 2)) << reply_error(1, -32600) << note("not-forwarded")
    play.done()


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b" \t\r\n",
        b"[]\n",
        b'{"id":1,"result":{},"result":{}}\n',
        b'{"id":1,"Result":{}}\n',
        b'{"jsonrpc":"2.0","id":5,"method":"ping","params":{"a":1,"a":2}}\n',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"requestId":2}}\n',
    ],
)
def test_what_is_certainly_no_call_passes(data: bytes) -> None:
    play = Playbook()
    play >> Client(data)
    play.forwards(data).done()


def test_nan_odd_numbers_and_half_surrogates_in_arguments_pass_byte_for_byte() -> None:
    data = CALL.replace('"x"', '[NaN,1.0e0,-0,1e400,"\\ud800",123456789012345678901]').encode() + b"\n"
    play = Playbook()
    play >> Client(data) << Opened
    play.forwards(data, "w1").done()


OF_TWO = [
    '{"jsonrpc":"2.0","id":1,"id":2,"result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":2,"id":1,"result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":1,"ID":2,"result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":1,"id":"2","result":{"content":[]}}',
]
UNCERTAIN = [
    '{"jsonrpc":"2.0","id":1,"result":{"content":[]},"result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[]},"Result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"content":[]}}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"Content":[]}}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{},"_meta":{}}}',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[],"_meta":{"a":1,"a":2}}}',
    '{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a","message":"b"}}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"a"}}',
    '{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}',
    '{"jsonrpc":"2.0","id":1.0,"result":{"content":[]}}',
    '{"jsonrpc":"2.0","id":1}',
    '[{"jsonrpc":"2.0","id":1,"result":{}},7]',
    '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\xff"}]}}',
]


@pytest.mark.parametrize("text", UNCERTAIN)
def test_an_uncertain_answer_closes_its_windows_and_passes_if_nothing_was_denied(text: str) -> None:
    data = text.encode("latin-1") + b"\n"
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(data) << note("uncertain") << closed("w1", "uncertain")
    play.replies(data).done()


@pytest.mark.parametrize("text", OF_TWO)
def test_an_uncertain_answer_passes_if_it_is_to_nothing_but_what_is_in_flight(text: str) -> None:
    data = text.encode() + b"\n"
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(request(2, "ping")) << Forward
    play >> Server(data) << note("uncertain") << closed("w1", "uncertain")
    play.replies(data).done()


@pytest.mark.parametrize("text", OF_TWO)
def test_an_uncertain_answer_is_replaced_if_it_may_be_to_what_nobody_asked_yet(text: str) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(text.encode() + b"\n") << note("uncertain") << closed("w1", "uncertain")
    play << reply_failure(1, "withheld")
    play >> Client(request(1, "ping")) << Forward
    play >> Server(text.encode() + b"\n") << note("uncertain") << reply_error(1, -32603)
    play << Noise << note("noise")
    play.done()


def test_the_answer_to_a_call_that_an_uncertain_line_closed_still_passes() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(call(2)) << Opened << Forward
    play >> Server(OF_TWO[0].encode() + b"\n") << note("uncertain") << Closed << Closed << Reply
    play >> Server(answer(2))
    play.replies(answer(2))
    play >> Client([request(1, "ping"), request(2, "ping")]) << Forward
    play >> Server(OF_TWO[0].encode() + b"\n") << note("uncertain") << Reply
    play >> Server(result(2))
    play.replies(result(2)).done()


@pytest.mark.parametrize("text", OF_TWO + UNCERTAIN)
def test_an_uncertain_answer_is_replaced_if_its_window_saw_a_denial(text: str) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Denied(("w1",), denial())
    play >> Server(text.encode("latin-1") + b"\n") << note("uncertain")
    play << closed("w1", "uncertain", denial()) << reply_failure(1, "refused by mcpwrap")
    play.done()


def test_an_uncertain_answer_closes_every_window_whose_id_it_holds() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Client(call(2)) << Opened << Forward
    play >> Denied(("w2",), denial())
    play >> Server(OF_TWO[0].encode() + b"\n") << note("uncertain")
    play << closed("w1", "uncertain") << closed("w2", "uncertain", denial())
    play << reply_failure(1, "withheld") << reply_failure(2, "refused by mcpwrap")
    play.done()


def test_an_uncertain_answer_to_a_held_call_is_forged() -> None:
    play = Playbook()
    play >> Client(call(1, "a")) << Opened << Forward
    play >> Client(call(2, "b"))
    play >> Server(OF_TWO[0].encode() + b"\n") << note("forged")
    play.done()


def test_an_answer_too_deep_to_read_never_passes() -> None:
    deep = '{"jsonrpc":"2.0","id":1,"result":%s}' % ("[" * 100_000 + "]" * 100_000)
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(deep.encode() + b"\n") << note("uncertain") << closed("w1", "uncertain")
    play << reply_failure(1, "withheld")
    play >> Client(request(1, "tools/list")) << Forward
    play >> Server(deep.encode() + b"\n") << note("uncertain") << reply_error(1, -32603)
    play << Noise << note("noise")
    play >> Client(call(1)) << Opened << Forward
    play >> Denied(("w2",), denial())
    play >> Server(deep.encode() + b"\n") << note("uncertain") << closed("w2", "uncertain", denial())
    play << reply_failure(1, "refused by mcpwrap")
    play >> Server(deep.encode() + b"\n") << Noise << note("noise")
    play.done()


def test_duplicate_keys_deep_in_an_answer_are_not_ours_to_judge() -> None:
    data = b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"a":1,"a":2,"Id":1}}}\n'
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(data) << closed("w1", "answered")
    play.replies(data).done()


def test_meta_in_mcpwraps_name_is_removed_and_noted() -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    data = b'{"jsonrpc":"2.0","id":1,"result":{"content":[ ],"_meta":{ "x/y" : 1.0,"\\u006dcpwrap/denials":[]}}}\n'
    play >> Server(data) << note("meta-removed") << closed("w1", "answered")
    play.replies(b'{"jsonrpc":"2.0","id":1,"result":{"content":[ ],"_meta":{"x/y" : 1.0}}}\n')
    data = line(notification("notifications/message", _meta={"mcpwrap/denials": []}))
    play >> Server(data) << note("meta-removed")
    play.replies(notification("notifications/message", _meta={})).done()


@pytest.mark.parametrize("name", ["mcpwrap/denials", "\\u006dcpwrap/denials"])
def test_an_uncertain_line_with_meta_in_mcpwraps_name_is_withheld(name: str) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(f'{{"jsonrpc":"2.0","id":1,"result":{{"_meta":{{}},"_meta":{{"{name}":[]}}}}}}\n'.encode())
    play << note("uncertain") << closed("w1", "uncertain") << reply_failure(1, "withheld")
    play.done()


# Noise, size and garbage


@pytest.mark.parametrize(
    "data",
    [
        b"Server running on stdio\n",
        b"\x00" * 36 + b"text\n",
        b"12\n",
        b"null\n",
        b'"text"\n',
        b"[1,2]\n",
        b"{\n",
        b'  "jsonrpc": "2.0",\n',
        b"}\n",
        b"{}\n",
        b'{"level":"info","msg":"started","id":1}\n',
        b"\n",
        b"\xff\xfe\n",
    ],
)
def test_what_is_no_json_rpc_goes_to_stderr_untouched_and_noted(data: bytes) -> None:
    play = Playbook()
    play >> Client(call(1)) << Opened << Forward
    play >> Server(data) << Noise(data) << note("noise")
    play >> Server(answer(1)) << closed("w1", "answered") << Reply
    play.done()


def test_a_flood_of_noise_is_noted_a_bounded_number_of_times() -> None:
    play = Playbook()
    play >> Server(b"50%\n" * 10_000)
    actions = play.take()
    assert sum(isinstance(action, Noise) for action in actions) == 10_000
    assert sum(isinstance(action, Note) for action in actions) < NOISE_NOTED + 14


@pytest.mark.parametrize(
    "message", [answer(9), {"jsonrpc": "2.0", "x": 1}, notification("n", _meta={"mcpwrap/denials": []})]
)
def test_a_flood_of_one_fault_is_noted_a_bounded_number_of_times(message: dict[str, object]) -> None:
    play = Playbook()
    play >> Server(line(message) * 10_000)
    notes = [action for action in play.take() if isinstance(action, Note)]
    assert 0 < len(notes) < NOISE_NOTED + 14
    assert notes[-1].fields["lines_so_far"] == 8_192


def test_a_flood_of_what_is_no_json_ends_in_one_named_error() -> None:
    play = Playbook()
    play >> Client(line(request(1, "ping")) + b"GET / HTTP/1.1\n" * 10_000 + line(request(2, "ping")))
    first, *actions = play.take()
    assert first == Forward(line(request(1, "ping")))
    replies = [action.data for action in actions if isinstance(action, Reply)]
    assert len(replies) == UNPARSABLE_LINES + 1
    assert f"{UNPARSABLE_LINES} lines in a row" in json.loads(replies[-1])["error"]["message"]
    assert isinstance(actions[-1], Failed)
    assert not any(isinstance(action, Forward) for action in actions)
    play >> Client(line(request(3, "ping")))
    play.done()


def test_garbage_between_messages_is_answered_line_by_line_however_much_it_is() -> None:
    play = Playbook()
    for number in range(3 * UNPARSABLE_LINES):
        play >> Client(b"what?\n") << reply_error(None, -32700) << note("not-forwarded")
        if number % (UNPARSABLE_LINES - 1) == 0:
            play >> Client(request(number, "ping")) << Forward
    play.done()


@pytest.mark.parametrize("cut", [1, 7, 100, 1000])
def test_a_line_without_end_is_a_named_error_and_all_before_it_is_delivered(cut: int) -> None:
    play = Playbook(max_line=200)
    data = line(request(1, "ping")) + b"x" * 201
    actions = []
    for start in range(0, len(data), cut):
        actions += play.interposer.from_client(data[start : start + cut], play.now)
    assert actions[0] == Forward(line(request(1, "ping")))
    assert isinstance(actions[1], Failed)
    assert "200 bytes" in actions[1].text
    assert len(actions) == 2
    play >> Client(b"\n" + line(request(2, "ping")))
    play.done()


def test_a_server_line_without_end_fails_and_a_line_of_the_limit_does_not() -> None:
    play = Playbook(max_line=200)
    play >> Server(b"x" * 200 + b"\n") << Noise << Note
    play >> Server(b"x" * 201 + b"\n" + line(result(1))) << Failed
    play >> ServerEof()
    play.done()
