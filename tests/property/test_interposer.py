"""Whole conversations: chunks do not matter, bytes are kept, windows are kept apart."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwrap.operation import Denial
from mcpwrap.protocol.actions import Action, Closed, Forward, Listed, Noise, Opened, Reply
from mcpwrap.protocol.canonical import described
from mcpwrap.protocol.glance import LongText
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.protocol.jsonrpc import as_number
from mcpwrap.protocol.terms import Terms
from tests.unit.protocol.playbook import ANY_TOOL

IDS = st.one_of(st.integers(0, 5), st.sampled_from(["0", "1", "a"]))
ODD_IDS = st.one_of(IDS, st.sampled_from([None, 1.0, True, 2**60]))
OUR_IDS = st.sampled_from(["mcpwrap:list:1", "mcpwrap:list:2"])
TOOLS = st.sampled_from(["read", "write", "ask"])
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


def _dump(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def _message(**members: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", **members}


def _call(request_id: object, tool: str, arguments: object, **params: object) -> dict[str, object]:
    params = {"name": tool, "arguments": arguments, **params}
    return _message(id=request_id, method="tools/call", params=params)


CAPABILITIES = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
CALLS = st.builds(
    lambda request_id, tool, arguments, more: _call(request_id, tool, arguments, **more),
    ODD_IDS,
    TOOLS,
    st.one_of(JSON, st.dictionaries(st.text(max_size=3), JSON, max_size=2)),
    st.sampled_from([{}, {}, {"_meta": CAPABILITIES}, {"task": {"ttl": 1_000}}]),
)
CLIENT = st.one_of(
    CALLS,
    st.builds(
        lambda i, m: _message(id=i, method=m), ODD_IDS, st.sampled_from(["ping", "initialize", "tools/list"])
    ),
    st.builds(lambda i: _message(id=i, method="tools/list"), ODD_IDS),
    st.builds(lambda i: _message(id=i, method="ping"), OUR_IDS),
    st.builds(lambda i: _message(id=i, method="resources/read", params={"uri": "x"}), IDS),
    st.builds(lambda i: _message(method="notifications/cancelled", params={"requestId": i}), ODD_IDS),
    st.builds(lambda i: _message(id=i, result={}), IDS),
    st.lists(CALLS, max_size=3),
    JSON,
)
ENTRIES = st.builds(
    lambda name, description, more: {"name": name, "description": description, **more},
    TOOLS,
    st.sampled_from(["old", "old", "new"]),
    st.sampled_from([{}, {}, {"inputSchema": {"type": "object"}}, {"_meta": {"x": 1}}, {"Title": "t"}]),
)
LISTS = st.builds(
    lambda tools, more: {"tools": tools, **more},
    st.lists(ENTRIES, max_size=3),
    st.sampled_from([{}, {}, {"nextCursor": "c"}, {"Tools": []}]),
)
RESULTS = st.one_of(
    LISTS,
    st.just({"content": []}),
    st.just({"content": [{"type": "text", "text": "x" * 300}], "isError": False}),
    st.just({"isError": True}),
    st.just({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 5_000}),
    st.just({"task": {"taskId": "t", "status": "working"}}),
    st.just({"resultType": "input_required", "requestState": "s"}),
    st.just({"_meta": {"mcpwrap/denials": []}}),
    JSON,
)
AS_TEXT = st.sampled_from([" 1", "1.0", "0x2", "", "+3", "\uff14"])
ANSWERS = st.builds(lambda i, r: _message(id=i, result=r), st.one_of(ODD_IDS, ODD_IDS, AS_TEXT), RESULTS)
OWN_ANSWERS = st.builds(lambda i, r: _message(id=i, result=r), OUR_IDS, LISTS)
SERVER = st.one_of(
    ANSWERS,
    OWN_ANSWERS,
    st.just(_message(method="notifications/tools/list_changed")),
    st.builds(lambda i: _message(id=i, error={"code": 1, "message": "m"}), ODD_IDS),
    st.builds(lambda i, m: _message(id=i, method=m), ODD_IDS, st.sampled_from(["ping", "roots/list"])),
    st.just(_message(method="notifications/tasks", params={"taskId": "t", "status": "completed"})),
    st.lists(ANSWERS, max_size=3),
    JSON,
)
GARBAGE = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b'{"jsonrpc":"2.0","id":1,"id":2,"result":{}}\n',
            b'{"jsonrpc":"2.0","id":1,"ID":1,"result":{}}\n',
            b'{"id":1,"Method":"tools/call","params":{"name":"read"}}\n',
            b'{"jsonrpc":"2.0","id":1,"result":{}}\r{"jsonrpc":"2.0","id":2,"result":{}}\n',
            b'{"jsonrpc":"2.0","id":1,"result":"\xff"}\n',
        ]
    ),
)
EVENT = st.one_of(
    st.tuples(st.just("client"), st.one_of(CLIENT.map(_dump), CLIENT.map(_dump), GARBAGE)),
    st.tuples(st.just("server"), st.one_of(SERVER.map(_dump), SERVER.map(_dump), GARBAGE)),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 2.0, 31.0])),
    st.tuples(st.just("quiet"), st.just(0)),
    st.tuples(st.just("denied"), st.sampled_from(["w1", "w2", "w3"])),
)
LISTING = st.builds(
    lambda request_id, listed: [
        ("client", _dump(_message(id=request_id, method="tools/list"))),
        ("server", _dump(_message(id=request_id, result=listed))),
    ],
    IDS,
    LISTS,
)
EVENTS = st.lists(
    st.one_of(EVENT.map(lambda event: [event]), EVENT.map(lambda event: [event]), LISTING), max_size=20
).map(lambda groups: [event for group in groups for event in group])
MODES = st.sampled_from(["auto", "serialize", "union"])
PIN = described({"name": "read", "description": "old"}).digest
TERMS = st.sampled_from(
    [
        ANY_TOOL,
        Terms(window_limit=1.0),
        Terms(on_denial="error", names=lambda tool: tool == "ask"),
        Terms(unknown="allow", pin_of=lambda tool: PIN if tool == "read" else None),
    ]
)
DENIAL = Denial("read", "/x", "no-grant", ("read",), "read of /x refused")


class Run:
    """One conversation; `cut` splits what a side writes into chunks."""

    def __init__(
        self, mode: str, *, startup: bool, terms: Terms = ANY_TOOL, cut: Any = lambda data: [data]
    ) -> None:
        self.interposer = Interposer(overlap=mode, terms=terms, lookups=lambda _: (DENIAL,), startup=startup)
        self.cut = cut
        self.now = 0.0
        self.actions: list[Action] = []

    def play(self, events: list[tuple[str, Any]]) -> list[Action]:
        for kind, what in events:
            self.event(kind, what)
        self.actions += self.interposer.client_eof(self.now)
        self.actions += self.interposer.server_eof(self.now)
        assert self.interposer.deadline() is None
        return self.actions

    def event(self, kind: str, what: Any) -> None:
        if kind == "client":
            for chunk in self.cut(what):
                self.actions += self.interposer.from_client(chunk, self.now)
        elif kind == "server":
            for chunk in self.cut(what):
                self.actions += self.interposer.from_server(chunk, self.now)
        elif kind == "wait":
            self.now += what
            self.actions += self.interposer.tick(self.now)
            deadline = self.interposer.deadline()
            assert deadline is None or deadline > self.now
        elif kind == "quiet":
            self.actions += self.interposer.startup_quiet(self.now)
        else:
            self.interposer.denied((what,), DENIAL)


@settings(max_examples=300)
@given(EVENTS, MODES, TERMS, st.booleans(), st.integers(1, 9))
def test_any_chunking_gives_the_same_actions(
    events: list[tuple[str, Any]], mode: str, terms: Terms, startup: bool, size: int
) -> None:
    def cut(data: bytes) -> list[bytes]:
        return [data[at : at + size] for at in range(0, len(data), size)]

    whole = Run(mode, startup=startup, terms=terms).play(events)
    assert whole == Run(mode, startup=startup, terms=terms, cut=cut).play(events)


@settings(max_examples=300)
@given(EVENTS, MODES, TERMS, st.booleans())
def test_windows_open_once_close_once_and_are_kept_apart(
    events: list[tuple[str, Any]], mode: str, terms: Terms, startup: bool
) -> None:
    active: dict[str, Opened] = {}
    seen: set[str] = set()
    waiting_for_bytes: set[str] = set()
    for action in Run(mode, startup=startup, terms=terms).play(events):
        if isinstance(action, Opened):
            window = action.window
            assert window.id not in seen
            others = [other.window for other in active.values()]
            strangers = [other.id for other in others if mode == "serialize" or other.tool != window.tool]
            assert [part.split()[0] for part in window.union.split("; ") if part] == strangers
            if mode != "union":
                assert "runs" not in window.union
            if mode == "serialize":
                assert "has become a task" not in window.union
            seen.add(window.id)
            active[window.id] = action
            waiting_for_bytes.add(window.id)
        elif isinstance(action, Forward):
            assert set(action.windows) == (waiting_for_bytes if action.windows else set())
            waiting_for_bytes -= set(action.windows)
        elif isinstance(action, Closed):
            del active[action.window.id]
    assert not active


def _as_read(request_id: object) -> object:
    """Return what a client may take for the id: the number that JavaScript or Python makes of a text."""
    number = as_number(request_id) if isinstance(request_id, str) else None
    return request_id if number is None else number


@settings(max_examples=500)
@given(EVENTS, MODES, TERMS, st.booleans())
def test_no_answer_goes_on_while_the_window_is_open_of_a_call_it_may_be_taken_to_answer(
    events: list[tuple[str, Any]], mode: str, terms: Terms, startup: bool
) -> None:
    by_client = b"".join(what for kind, what in events if kind == "client")
    # A text that the client itself uses as an id is that, whatever number it looks like.
    texts = {text for text in ("0", "1") if json.dumps(text).encode() in by_client}
    active: dict[str, object] = {}
    for action in Run(mode, startup=startup, terms=terms).play(events):
        if isinstance(action, Opened):
            active[action.window.id] = action.window.request_id
        elif isinstance(action, Closed):
            del active[action.window.id]
        elif isinstance(action, Reply) and b"mcpwrap did not forward" not in action.data:
            read = json.loads(action.data.decode(errors="replace"))
            for message in read if isinstance(read, list) else [read]:
                if not isinstance(message, dict) or "method" in message or _is_task(message):
                    continue
                request_id = message.get("id")
                if type(request_id) in (int, float, str) and request_id not in texts:
                    assert _as_read(request_id) not in active.values()


def _is_task(message: dict[str, Any]) -> bool:
    result = message.get("result")
    return isinstance(result, dict) and ("taskId" in result or "task" in result) and "content" not in result


@settings(max_examples=300)
@given(EVENTS, MODES, TERMS, st.booleans())
def test_bytes_are_kept_and_nothing_is_said_twice(
    events: list[tuple[str, Any]], mode: str, terms: Terms, startup: bool
) -> None:
    quiet = [event for event in events if event[0] != "denied"]
    run = Run(mode, startup=startup, terms=terms)
    run.interposer._server._lookups = lambda _: ()
    actions = run.play(quiet)
    from_client = b"".join(what for kind, what in quiet if kind == "client").split(b"\n")
    from_server = b"".join(what for kind, what in quiet if kind == "server").split(b"\n")
    for action in actions:
        if isinstance(action, Forward) and b'"mcpwrap:list:' in action.data:
            assert json.loads(action.data)["method"] == "tools/list"
        elif isinstance(action, Forward):
            from_client.remove(action.data.removesuffix(b"\n"))
        elif isinstance(action, Noise):
            from_server.remove(action.data.removesuffix(b"\n"))
        elif isinstance(action, Reply):
            text = action.data.removesuffix(b"\n")
            if text in from_server:
                from_server.remove(text)
            else:
                assert _is_ours(text), text


@settings(max_examples=500)
@given(EVENTS, MODES, TERMS, st.booleans())
def test_a_tool_is_shown_and_called_as_one_thing_only_and_the_ids_of_mcpwrap_are_seen_by_nobody(
    events: list[tuple[str, Any]], mode: str, terms: Terms, startup: bool
) -> None:
    shown: dict[str, str] = {}
    known: set[str] = set()
    held: set[str] = set()
    of_calls: set[object] = set()
    for action in Run(mode, startup=startup, terms=terms).play(events):
        if isinstance(action, Closed):
            of_calls.add(_as_read(action.window.request_id))
        elif isinstance(action, Listed):
            known.update(action.tools)
            held.update(action.held)
        elif isinstance(action, Opened) and action.window.method == "tools/call":
            tool = action.window.tool
            assert tool not in held
            assert tool in known or (terms.unknown == "allow" or terms.names(tool))
            assert tool in known or terms.pin_of(tool) is None
        elif isinstance(action, Reply):
            read = json.loads(action.data.decode(errors="replace"))
            for message in read if isinstance(read, list) else [read]:
                # What answers a call is no list, whatever it looks like.
                if not isinstance(message, dict) or _as_read(message.get("id")) not in of_calls:
                    _look_at(message, shown, terms)
            of_calls.clear()


def _look_at(message: object, shown: dict[str, str], terms: Terms) -> None:
    """Note what tools an answer shows, and that it is what was shown before."""
    if not isinstance(message, dict) or not isinstance(result := message.get("result"), dict):
        return
    assert not str(message.get("id")).startswith("mcpwrap:")
    for entry in result.get("tools", ()):
        if entry["description"].startswith("held by mcpwrap"):
            assert entry.keys() == {"name", "description", "inputSchema"}
        else:
            digest = described(entry).digest
            assert shown.setdefault(entry["name"], digest) == digest
            assert terms.pin_of(entry["name"]) in (None, digest)


def _is_ours(text: bytes) -> bool:
    """Tell whether a reply was written by mcpwrap, or is a server's without a forged part."""
    message = json.loads(text)
    if isinstance(message, list):
        return True
    said = json.dumps(message.get("error") or message.get("result"))
    return "mcpwrap" in said or message["result"].get("_meta") == {}


def _unread(value: object) -> object:
    """Return a value as a reading leaves it that does not read its strings."""
    if isinstance(value, str | LongText):
        return "a string"
    if isinstance(value, list):
        return [_unread(item) for item in value]
    return {key: _unread(item) for key, item in value.items()} if isinstance(value, dict) else repr(value)


def _with_unread_arguments(actions: list[Action]) -> list[object]:
    return [
        (type(action), action.window._replace(arguments={}), _unread(action.window.arguments))
        if isinstance(action, Opened | Closed)
        else (type(action), action)
        for action in actions
    ]


@settings(max_examples=200)
@given(EVENTS, MODES)
def test_looking_at_outlines_of_calls_does_what_parsing_does(
    events: list[tuple[str, Any]], mode: str
) -> None:
    with patch("mcpwrap.protocol.client.LONG_TEXT_BYTES", 1 << 40):
        parsed = Run(mode, startup=False).play(events)
    with (
        patch("mcpwrap.protocol.client.LONG_TEXT_BYTES", 0),
        patch("mcpwrap.protocol.glance.LONG_TEXT_BYTES", 2),
        patch("mcpwrap.protocol.glance._DENSE_BYTES", 0),
    ):
        glanced = Run(mode, startup=False).play(events)
    assert _with_unread_arguments(glanced) == _with_unread_arguments(parsed)


@settings(max_examples=200)
@given(EVENTS, MODES)
def test_looking_at_outlines_does_what_parsing_does(events: list[tuple[str, Any]], mode: str) -> None:
    with patch("mcpwrap.protocol.server.GLANCE_BYTES", 1 << 40):
        parsed = Run(mode, startup=False).play(events)
    with (
        patch("mcpwrap.protocol.server.GLANCE_BYTES", 0),
        patch("mcpwrap.protocol.glance.CUT_BYTES", 2),
        patch("mcpwrap.protocol.glance._DENSE_BYTES", 0),
    ):
        assert Run(mode, startup=False).play(events) == parsed


@given(st.dictionaries(st.text(max_size=4), JSON, max_size=3), st.lists(JSON, max_size=3), st.booleans())
def test_an_annotated_answer_differs_by_the_annotation_only(
    fields: dict[str, Any], content: list[Any], spaced: bool
) -> None:
    result = {key: value for key, value in fields.items() if key.isalpha()} | {"content": content}
    separators = (" ,\t", " : ") if spaced else (",", ":")
    message = _message(id=1, result=result)
    run = Run("auto", startup=False)
    run.event("client", _dump(_call(1, "read", {})))
    run.event("denied", "w1")
    run.event("server", json.dumps(message, separators=separators).encode() + b"\n")
    reply = run.actions[-1]
    assert isinstance(reply, Reply)
    got = json.loads(reply.data)
    block = got["result"]["content"].pop()
    assert DENIAL.sentence in block["text"]
    assert got["result"].pop("_meta")["mcpwrap/denials"][0]["object"] == "/x"
    assert json.dumps(got) == json.dumps(message)
