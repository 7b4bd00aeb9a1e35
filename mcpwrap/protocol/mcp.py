"""What mcpwrap knows of MCP, revisions 2024-11-05 to 2026-07-28, and of its tasks extension.

Methods that open a window: `tools/call`, and every request that makes the server fetch something by a name
the client gives: `resources/read`, `resources/subscribe`, `prompts/get`, `completion/complete`, and
whatever else is below `resources/` and `prompts/`. The lists (`resources/list`, `resources/templates/list`,
`prompts/list`) name nothing, and open one only if the grant has something for it: without, a client may ask for
all of them at once while it connects. `tools/list` opens none.
"""

from __future__ import annotations

from typing import Any, Final

from mcpwrap.protocol.bounded import is_short
from mcpwrap.protocol.jsonrpc import Names, whole
from mcpwrap.protocol.window import Call

TOOLS_CALL: Final = "tools/call"
TOOLS_LIST: Final = "tools/list"
LIST_CHANGED: Final = "notifications/tools/list_changed"
CANCELLED: Final = "notifications/cancelled"
LISTEN: Final = "subscriptions/listen"
"""Stays in flight for the whole connection (2026-07-28)."""

HANDSHAKES: Final = frozenset({"initialize", "server/discover"})
"""A successful answer to one of these says that the server is up."""

CLIENT_WORK: Final = frozenset({"roots/list", "sampling/createMessage", "elicitation/create"})
"""Server requests a call may wait for. A ping is none: any server can send one at any time."""

TASK_NOTICES: Final = frozenset({"notifications/tasks/status", "notifications/tasks"})
"""Of 2025-11-25 and of the 2026-07-28 extension, which also carries the result."""

TASK_REQUESTS: Final = frozenset({"tasks/get", "tasks/result", "tasks/cancel", "tasks/update"})

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
"""Task states that are never left."""

DENIALS_KEY: Final = "mcpwrap/denials"
OUR_PREFIX: Final = "mcpwrap/"
"""`_meta` keys only mcpwrap may write."""

METAS: Final = ("_meta", "meta")
"""mcp 2 (Python) reads the second where the first is absent."""

PARAMS: Final = Names(
    "name", "arguments", "uri", "ref", "argument", "task", "_meta", "requestState", "inputResponses"
)
RESULT: Final = Names(
    "content", "structuredContent", "isError", "_meta", "resultType", "task", "taskId", "requestState"
)
ERROR: Final = Names("code", "message", "data")

_PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"
_LONGEST_MS: Final = 1e12
"""30 years; a float takes no larger integer than 1e308."""
_OUTCOME: Final = frozenset({"content", "structuredContent", "isError"})
"""Members of the outcome of a call."""
_IMMEDIATE: Final = "io.modelcontextprotocol/model-immediate-response"
"""In the `_meta` of an answer that announces a task (2025-11-25): what the model is to read meanwhile."""
_COMPLETE: Final = "completion/complete"
_WINDOWED: Final = {"resources/": "resources", "prompts/": "prompts"}
"""How such methods begin, and the area whose tables hold for them."""
_REFERENCES: Final = {"ref/resource": "resources", "ref/prompt": "prompts"}
_REF: Final = Names("type", "uri", "name")


def opens_window(method: str, listed: frozenset[str] = frozenset()) -> bool:
    """Tell whether a request of this method is a call; a list is one in the areas `listed`."""
    if method in (TOOLS_CALL, _COMPLETE):
        return True
    area = next((area for begins, area in _WINDOWED.items() if method.startswith(begins)), None)
    return area is not None and (area in listed or not method.endswith("/list"))


def call_of(method: str, request_id: int | str, params: object) -> Call | str:
    """Return the call these params make, or why they cannot be read as one."""
    if params is None and method != TOOLS_CALL:
        params = {}
    if type(params) is not dict:
        return "params must be an object"
    if odd := PARAMS.doubtful(params):
        return f"the key {odd[:40]!r} of params is read differently by different servers"
    if method == TOOLS_CALL:
        tool = params.get("name")
        if type(tool) is not str or not is_name(tool):
            return "params.name must be the name of a tool"
        arguments: Any = params.get("arguments")
        if arguments is None:
            arguments = {}
        if type(arguments) is not dict:
            return "params.arguments must be an object"
    else:
        tool = method
        arguments = {key: value for key, value in params.items() if key != "_meta"}
    call = Call(method, request_id, tool, arguments, _area(method, params))
    call.meta = meta = params.get("_meta")
    if type(meta) is dict:
        call.modern = _PROTOCOL_VERSION in meta
        call.knows_tasks = _declares_tasks(meta.get(_CLIENT_CAPABILITIES))
    call.wants_task = type(params.get("task")) is dict
    state = params.get("requestState")
    call.request_state = state if type(state) is str else None
    return call


def is_name(tool: str) -> bool:
    """Tell whether a text is the same name to all, and no longer than any tool's (C ends it at its first NUL)."""
    return tool != "" and whole(tool) and "\0" not in tool and is_short(tool)


def _area(method: str, params: dict[str, Any]) -> str:
    """Return which tables of the grant hold for a call: a completion has those of what it refers to."""
    if method == TOOLS_CALL:
        return "tools"
    if method == _COMPLETE:
        ref = params.get("ref")
        kind = ref.get("type") if type(ref) is dict and not _REF.odd(ref) else None
        return _REFERENCES.get(kind, "") if type(kind) is str else ""
    return next(area for begins, area in _WINDOWED.items() if method.startswith(begins))


def _declares_tasks(capabilities: object) -> bool:
    """Tell whether these capabilities, which every request of 2026-07-28 carries itself, name the extension."""
    extensions = capabilities.get("extensions") if type(capabilities) is dict else None
    return type(extensions) is dict and _TASKS_EXTENSION in extensions


def is_error(result: object) -> bool:
    """Tell whether a result says of itself that the call failed."""
    return type(result) is dict and result.get("isError") is True


def is_ordinary(call: Call, result: object) -> bool:
    """Tell whether a result is a successful, final one that names nothing mcpwrap must act upon."""
    if type(result) is not dict or is_error(result) or created_task(call, result) is not None:
        return False
    if result.get("resultType", "complete") != "complete":
        return False
    meta = result.get("_meta")
    return type(meta) is not dict or not any(key.startswith(OUR_PREFIX) for key in meta)


def created_task(call: Call, result: object) -> dict[str, Any] | None:
    """Return the task a result announces instead of the call's outcome, or None.

    A client that did not ask for one takes the result for the outcome, and each takes `content` for it.
    """
    if type(result) is not dict or not (call.wants_task or call.knows_tasks):
        return None
    if not _OUTCOME.isdisjoint(result):
        return None
    extended = call.knows_tasks and result.get("resultType") == "task"
    task = result if extended else result.get("task") if call.wants_task else None
    if type(task) is not dict:
        return None
    task_id = task.get("taskId")
    return task if type(task_id) is str and is_short(task_id) else None


def speaks(result: object) -> bool:
    """Tell whether a result that announces a task says something to the model beside that."""
    metas = (result.get(name) for name in METAS) if type(result) is dict else ()
    return any(type(meta) is dict and _IMMEDIATE in meta for meta in metas)


def spoken_for_us(holder: dict[str, Any]) -> list[str]:
    """Return which members of an object are a `_meta` that holds keys only mcpwrap may write."""
    metas = ((name, holder.get(name)) for name in METAS)
    return [
        name for name, meta in metas if type(meta) is dict and any(key.startswith(OUR_PREFIX) for key in meta)
    ]


def ttl_seconds(task: dict[str, Any]) -> float | None:
    """Return how long a task is kept, in seconds, or None for no end. Both revisions count milliseconds."""
    for key in ("ttlMs", "ttl"):
        ttl = task.get(key)
        if (type(ttl) is int or type(ttl) is float) and ttl >= 0:
            return min(ttl, _LONGEST_MS) / 1_000
    return None
