"""Every text mcpwrap puts into a conversation, as it reads on the wire.

`MCPWRAP_UPDATE_SNAPSHOTS=1 pytest tests/snapshot` writes the file anew; look at the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

from mcpwrap.protocol.actions import Note, Refused, Reply
from mcpwrap.protocol.terms import Objection, Terms
from mcpwrap.protocol.window import Call
from tests.unit.protocol.playbook import (
    ANY_TOOL,
    Client,
    Denied,
    Playbook,
    Server,
    Wait,
    answer,
    call,
    denial,
    error,
    line,
    notification,
    request,
    result,
)

SNAPSHOT = Path(__file__).parent / "protocol" / "messages.txt"


def modern(request_id: int, tool: str) -> dict[str, object]:
    message = call(request_id, tool)
    message["params"]["_meta"] = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    return message


def judged(call: Call) -> Objection | None:
    if "sql" not in call.arguments:
        return None
    return Objection("tools.query.args.sql", 'the argument "sql" must be one of: "select 1"')


PIN = "sha256:" + "0" * 64
STRICT = Terms(permit=judged, pin_of=lambda tool: PIN if tool == "pinned" else None)
LISTS: dict[str, list[Client | Server | Denied | Wait]] = {
    "arguments that fail a condition": [Client(call(1, "query", sql="drop"))],
    "a tool that changes": [
        Client(request(1, "tools/list")),
        Server(result(1, tools=[{"name": "read", "description": "old"}])),
        Client(request(2, "tools/list")),
        Server(result(2, tools=[{"name": "read", "description": "new", "title": "t"}])),
        Client(call(3)),
    ],
    "a tool that is not what is pinned": [
        Client(request(1, "tools/list")),
        Server(result(1, tools=[{"name": "pinned"}])),
        Client(modern(2, "pinned")),
    ],
    "a tool nobody listed": [
        Client(request(1, "tools/list")),
        Server(result(1, tools=[])),
        Client(call(2)),
        Client(call(3, "pinned")),
    ],
    "a list that does not come": [Client(call(1)), Wait(2)],
    "a list that is not certain": [
        Client(request(1, "tools/list")),
        Server(result(1, tools=[{"name": "read", "Name": "write"}])),
    ],
    "an id of mcpwrap's own": [Client(request("mcpwrap:list:1", "ping"))],
}
WITHHELD: dict[str, list[Client | Server | Denied | Wait]] = {
    "an answer in the place of which the refusal is told": [
        Client(call(1)),
        Denied(("w1",), denial()),
        Server(answer(1)),
    ],
    "a resource in the place of which the refusal is told": [
        Client(request(1, "resources/read", uri="file:///a")),
        Denied(("w1",), denial()),
        Server(result(1, contents=[])),
    ],
}
SCENES: dict[str, list[Client | Server | Denied | Wait]] = {
    "a tool result with a denial": [Client(call(1)), Denied(("w1",), denial()), Server(answer(1))],
    "a denial seen three times, and another": [
        Client(call(1)),
        Denied(("w1",), denial(count=3)),
        Denied(("w1",), denial("/home/u/.ssh/id", "private:.ssh")),
        Server(answer(1, isError=True, _meta={"own": 1})),
    ],
    "a JSON-RPC error with a denial": [Client(call(1)), Denied(("w1",), denial()), Server(error(1))],
    "a resource with a denial": [
        Client(request(1, "resources/read", uri="file:///a")),
        Denied(("w1",), denial()),
        Server(result(1, contents=[])),
    ],
    "an uncertain answer after a denial": [
        Client(call(1)),
        Denied(("w1",), denial()),
        Server(b'{"jsonrpc":"2.0","id":1,"result":{},"result":{}}\n'),
    ],
    "a call that waited too long": [Client(call(1, "slow")), Client(modern(2, "read")), Wait(30)],
    "a request that waited too long": [
        Client(call(1, "slow")),
        Client(request(2, "prompts/get", name="p")),
        Wait(30),
    ],
    "a raw carriage return": [Client(line(call(1))[:-1] + b"\r" + line(call(2)))],
    "no JSON": [Client(b"hello\n")],
    "members in odd case": [Client(b'{"id":1,"Method":"tools/call"}\n')],
    "a key named twice": [Client(b'{"id":1,"method":"tools/call","params":{"name":"t","name":"u"}}\n')],
    "an id in flight twice": [Client(call(1)), Client(call(1))],
    "a call without an id": [Client(notification("tools/call", name="t"))],
    "arguments that are no object": [
        Client(b'{"id":1,"method":"tools/call","params":{"name":"t","arguments":[]}}\n')
    ],
    "a batch of two tools": [Client([call(1, "a"), call(2, "b")])],
    "a forged answer": [Client(call(1, "a")), Client(call(2, "b")), Server(answer(2))],
    "noise": [Server(b"Server running on stdio\n")],
    "_meta in mcpwrap's name": [Server(notification("notifications/x", _meta={"mcpwrap/denials": []}))],
}


def test_the_texts_of_mcpwrap_are_as_reviewed() -> None:
    parts: list[str] = []
    books = [(SCENES, ANY_TOOL), (LISTS, STRICT), (WITHHELD, ANY_TOOL._replace(on_denial="error"))]
    for (name, events), terms in ((scene, terms) for scenes, terms in books for scene in scenes.items()):
        parts.append(f"# {name}")
        play = Playbook(terms=terms)
        for event in events:
            play >> event
            for action in play.take():
                if isinstance(action, Reply):
                    parts.append(f"client < {action.data.decode()}".rstrip("\n"))
                elif isinstance(action, Refused):
                    parts.append(f"refused  {action.tool} {action.request_id} {tuple(action.objection)}")
                elif isinstance(action, Note):
                    loud = ", loud" if action.loud else ""
                    parts.append(f"note     {action.kind}{loud}: {action.text} {dict(action.fields)}")
        parts.append("")
    text = "\n".join(parts)
    if os.environ.get("MCPWRAP_UPDATE_SNAPSHOTS"):
        SNAPSHOT.parent.mkdir(exist_ok=True)
        SNAPSHOT.write_text(text, encoding="utf-8")
    assert text == SNAPSHOT.read_text(encoding="utf-8")
