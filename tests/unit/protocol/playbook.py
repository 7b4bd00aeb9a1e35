"""A script of what both sides say, and of what the interposer must do: `>> event`, `<< action`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcpwrap.operation import Denial
from mcpwrap.protocol.actions import Action, Closed, Forward, Note, Opened, Reply
from mcpwrap.protocol.interposer import Interposer
from mcpwrap.protocol.terms import Terms

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.protocol.window import Window


ANY_TOOL = Terms(unknown="allow")
"""The terms of conversations in which nobody lists tools."""


def line(message: object) -> bytes:
    """Return one message as a line."""
    return (json.dumps(message, separators=(",", ":")) + "\n").encode()


def as_bytes(message: object) -> bytes:
    return message if isinstance(message, bytes) else line(message)


@dataclass
class Client:
    message: object


@dataclass
class Server:
    message: object


@dataclass
class Denied:
    windows: tuple[str, ...]
    denial: Denial


@dataclass
class Wait:
    seconds: float


class ClientEof: ...


class ServerEof: ...


class Quiet: ...


Event = Client | Server | Denied | Wait | ClientEof | ServerEof | Quiet


class Like:
    """An expected action given by what must hold of it."""

    def __init__(self, what: str, holds: Callable[[Any], bool]) -> None:
        self.what = what
        self.holds = holds

    def __repr__(self) -> str:
        return self.what


Expected = Action | type[Action] | Like


def opened(window_id: str, tool: str | None = None, **fields: object) -> Like:
    def holds(action: object) -> bool:
        return (
            isinstance(action, Opened)
            and action.window.id == window_id
            and tool in (None, action.window.tool)
            and all(getattr(action.window, name) == value for name, value in fields.items())
        )

    return Like(f"opened({window_id}, {tool}, {fields})", holds)


def closed(window_id: str, how: str, *denials: Denial) -> Like:
    return Like(
        f"closed({window_id}, {how}, {denials})",
        lambda action: (
            isinstance(action, Closed)
            and (action.window.id, action.how, action.denials) == (window_id, how, denials)
        ),
    )


def note(kind: str) -> Like:
    return Like(f"note({kind})", lambda action: isinstance(action, Note) and action.kind == kind)


def reply_error(request_id: object, code: int) -> Like:
    def holds(action: object) -> bool:
        if not isinstance(action, Reply):
            return False
        message = json.loads(action.data)
        return bool(message["id"] == request_id and message["error"]["code"] == code)

    return Like(f"reply_error({request_id!r}, {code})", holds)


def reply_failure(request_id: object, text: str) -> Like:
    """An `isError` result in the server's place, whose text holds `text`."""

    def holds(action: object) -> bool:
        if not isinstance(action, Reply):
            return False
        message = json.loads(action.data)
        result = message.get("result", {})
        return bool(
            message["id"] == request_id
            and type(message["id"]) is type(request_id)
            and result.get("isError") is True
            and text in result["content"][0]["text"]
        )

    return Like(f"reply_failure({request_id!r}, {text!r})", holds)


class Playbook:
    """Feeds events at a made-up clock and checks every action, in order, none left over."""

    def __init__(
        self,
        *,
        overlap: str = "auto",
        terms: Terms = ANY_TOOL,
        startup: bool = False,
        max_line: int = 1 << 20,
        lookups: Callable[[Window], list[Denial]] = lambda window: [],  # noqa: ARG005
    ) -> None:
        self.interposer = Interposer(
            overlap=overlap, terms=terms, lookups=lookups, max_line=max_line, startup=startup
        )
        self.now = 100.0
        self._left: list[Action] = []

    def __rshift__(self, event: Event) -> Playbook:
        assert not self._left, f"unexpected before {event!r}: {self._left!r}"
        match event:
            case Client(message):
                self._left = self.interposer.from_client(as_bytes(message), self.now)
            case Server(message):
                self._left = self.interposer.from_server(as_bytes(message), self.now)
            case Denied(windows, denial):
                self.interposer.denied(windows, denial)
            case Wait(seconds):
                self.now += seconds
                self._left = self.interposer.tick(self.now)
            case ClientEof():
                self._left = self.interposer.client_eof(self.now)
            case ServerEof():
                self._left = self.interposer.server_eof(self.now)
            case Quiet():
                self._left = self.interposer.startup_quiet(self.now)
        return self

    def __lshift__(self, expected: Expected) -> Playbook:
        assert self._left, f"expected {expected!r}, nothing was done"
        action = self._left.pop(0)
        if isinstance(expected, Like):
            assert expected.holds(action), f"expected {expected!r}, got {action!r}"
        elif isinstance(expected, type):
            assert isinstance(action, expected), f"expected {expected!r}, got {action!r}"
        else:
            assert (type(action), action) == (type(expected), expected)
        return self

    def forwards(self, message: object, *windows: str) -> Playbook:
        return self << Forward(as_bytes(message), windows)

    def replies(self, message: object) -> Playbook:
        return self << Reply(as_bytes(message))

    def take(self) -> list[Action]:
        """Return the actions not yet checked."""
        left, self._left = self._left, []
        return left

    def refuse(self, window: Window, why: str) -> Playbook:
        self._left += self.interposer.refuse(window, why, self.now)
        return self

    def done(self) -> None:
        assert not self._left, f"unexpected: {self._left!r}"


def call(request_id: object, tool: str = "read", **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def request(request_id: object, method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification(method: str, **params: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def answer(request_id: object, text: str = "ok", **result: object) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"jsonrpc": "2.0", "id": request_id, "result": {"content": content, **result}}


def result(request_id: object, **fields: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": fields}


def error(request_id: object, code: int = -32603, message: str = "boom") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


def cancel(request_id: object) -> dict[str, Any]:
    return notification("notifications/cancelled", requestId=request_id)


def denial(path: str = "/home/u/secret", rule: str = "no-grant", count: int = 1) -> Denial:
    return Denial(
        act="read",
        object=path,
        rule=rule,
        tools=("read",),
        sentence=f"read of {path} refused by mcpwrap",
        offer=f'fs_read = ["{path}"]',
        times=count,
    )
