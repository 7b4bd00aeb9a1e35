"""Writing what was refused during a call on the answer of that call; every other byte stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwrap.limits import DENIALS_TOLD, NAME_SHOWN
from mcpwrap.operation import ADVICE
from mcpwrap.protocol import splice
from mcpwrap.protocol.jsonrpc import INTERNAL_ERROR, REFUSED, dump, error_reply
from mcpwrap.protocol.mcp import DENIALS_KEY, OUR_PREFIX, TOOLS_CALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcpwrap.operation import Denial
    from mcpwrap.protocol.terms import Objection
    from mcpwrap.protocol.window import Call

_HEAD: Final = "[mcpwrap] refused during this call:"
_WITHHELD_HEAD: Final = "[mcpwrap] the server's answer is withheld; refused during this call:"
_RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""In the `_meta` of a task's outcome (2025-11-25): the client may refuse one without it."""


def told(denials: Sequence[Denial], untold: int = 0, head: str = _HEAD) -> str:
    """Return the text for the model: one sentence a line."""
    lines = [head]
    for denial in denials[:DENIALS_TOLD]:
        lines.append(_clean(denial.sentence) + (f" ({denial.times} times)" if denial.times > 1 else ""))
    if more := len(denials[DENIALS_TOLD:]) + untold:
        lines.append(f"... and {more} more; all are in mcpwrap's audit.")
    return "\n".join(lines)


def as_meta(denials: Sequence[Denial]) -> list[dict[str, Any]]:
    """Return what goes below `_meta["mcpwrap/denials"]`: never the TOML that would grant it."""
    return [
        {
            "act": denial.act,
            "object": _clean(denial.object),
            "rule": _clean(denial.rule),
            "tools": [_clean(tool) for tool in denial.tools],
            "count": denial.times,
        }
        for denial in denials[:DENIALS_TOLD]
    ]


def annotated(text: str, path: Sequence[str], call: Call, *, block: bool) -> str | None:
    """Return the message `text` with the call's denials written on the result at `path`.

    With `block`, a text block is appended to `content`. None if the result there cannot bear it (no object,
    or `content` no array). `text` must be valid JSON that names nothing twice on the way to the result.
    """
    span = splice.at_path(text, path)
    if text[span.start] != "{":
        return None
    found = splice.members(text, span)
    edits: list[splice.Edit] = []
    new: list[str] = []
    if block:
        item = dump({"type": "text", "text": told(call.denials, call.untold)})
        content = found.get("content")
        if content is None:
            new.append(f'"content":[{item}]')
        elif text[content.start] == "[":
            edits.append(splice.appended(text, content, item))
        else:
            return None
    ours = f'"{DENIALS_KEY}":{dump(as_meta(call.denials))}'
    meta = found.get("_meta")
    if meta is None:
        new.append(f'"_meta":{{{ours}}}')
    elif text[meta.start] == "{":
        edits.append(splice.without_prefix(text, meta, OUR_PREFIX, plus=ours))
    else:
        edits.append(splice.Edit(meta, f"{{{ours}}}"))
    if new:
        edits.append(splice.appended(text, span, *new))
    return splice.apply(text, edits)


def annotated_error(text: str, path: Sequence[str], call: Call) -> str:
    """Return the message `text` with the sentences put behind `message` of the JSON-RPC error at `path`."""
    span = splice.at_path(text, path)
    said = told(call.denials, call.untold)
    if text[span.start] == "{":
        message = splice.members(text, span).get("message")
        if message is None:
            return splice.apply(text, [splice.appended(text, span, f'"message":{dump(said)}')])
        if text[message.start] == '"':
            own = message.of(text)[:-1]
            return splice.apply(text, [splice.Edit(message, own + dump("\n" + said)[1:])])
    return splice.apply(text, [splice.Edit(span, dump({"code": INTERNAL_ERROR, "message": said}))])


def stripped(text: str, path: Sequence[str]) -> str:
    """Return the message `text` without the `mcpwrap/` keys of the `_meta` object at `path`."""
    return splice.apply(text, [splice.without_prefix(text, splice.at_path(text, path), OUR_PREFIX)])


def withheld(text: str, path: Sequence[str], call: Call, task_id: str = "") -> str:
    """Return the message `text` with the result at `path` replaced by an `isError` one that tells the denials only.

    If it said that it is related to a task, it still does: to `task_id`.
    """
    span = splice.at_path(text, path)
    meta: dict[str, Any] = {DENIALS_KEY: as_meta(call.denials)}
    members = splice.members(text, span) if text[span.start] == "{" else {}
    own = members.get("_meta")
    if task_id and own is not None and text[own.start] == "{" and _RELATED_TASK in splice.members(text, own):
        meta[_RELATED_TASK] = {"taskId": task_id}  # And nothing else of what the server put there.
    result = _failed(call, told(call.denials, call.untold, _WITHHELD_HEAD), meta)
    return splice.apply(text, [splice.Edit(span, dump(result))])


def withheld_error(text: str, path: Sequence[str], call: Call) -> str:
    """Return the message `text` with the JSON-RPC error at `path` replaced by one that tells the denials only."""
    own = {"code": REFUSED, "message": told(call.denials, call.untold, _WITHHELD_HEAD)}
    return splice.apply(text, [splice.Edit(splice.at_path(text, path), dump(own))])


def withheld_message(text: str, path: Sequence[str], call: Call) -> str:
    """Return the message `text` with the text at `path` replaced by one that tells the denials only."""
    own = told(call.denials, call.untold, _WITHHELD_HEAD)
    return splice.apply(text, [splice.Edit(splice.at_path(text, path), dump(own))])


def refusal(call: Call, objection: Objection) -> bytes:
    """Return the line that answers a call which was not given to the server."""
    rule, why = objection
    text = f"[mcpwrap] this call was not started: {_clean(why)} (rule {_clean(rule)}); {ADVICE}"
    denial = {
        "act": "call",
        "object": call.tool[:NAME_SHOWN],
        "rule": rule,
        "tools": [call.tool[:NAME_SHOWN]],
    }
    return _answer(call, text, {DENIALS_KEY: [{**denial, "count": 1}]})


def failure(call: Call, why: str, denials: Sequence[Denial] = ()) -> bytes:
    """Return the line that answers a call in the server's place: an `isError` result, or a JSON-RPC error."""
    text = f"{why}\n{told(denials, call.untold)}" if denials else why
    return _answer(call, text, {DENIALS_KEY: as_meta(denials)} if denials else {})


def _answer(call: Call, text: str, meta: dict[str, Any]) -> bytes:
    if call.method != TOOLS_CALL:
        return error_reply(call.request_id, REFUSED, text)
    return (
        dump({"jsonrpc": "2.0", "id": call.request_id, "result": _failed(call, text, meta)}) + "\n"
    ).encode()


def _failed(call: Call, text: str, meta: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if call.modern:
        result["resultType"] = "complete"
    if meta:
        result["_meta"] = meta
    return result


def _clean(text: str) -> str:
    """Spell out what is no Unicode text: some clients end a connection over half a surrogate pair."""
    return text.encode("utf-8", "backslashreplace").decode()
