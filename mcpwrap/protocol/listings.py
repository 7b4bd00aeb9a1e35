"""`tools/list`: what its answers say goes into the manifest, and what is held there is not shown to the client.

Also the judge of a call by its tool: is it known, is it what it was, and must the server be asked first.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Final

from mcpwrap.limits import LIST_BYTES
from mcpwrap.protocol.actions import Forward, Listed, Note, Reply
from mcpwrap.protocol.asking import Asking
from mcpwrap.protocol.bounded import Faults
from mcpwrap.protocol.jsonrpc import INTERNAL_ERROR, error_reply, usable_id
from mcpwrap.protocol.manifest import Manifest, doubt, marked
from mcpwrap.protocol.mcp import TOOLS_CALL
from mcpwrap.protocol.terms import ALLOW, Objection, Terms

if TYPE_CHECKING:
    from mcpwrap.protocol.actions import Action
    from mcpwrap.protocol.window import Call

_WITHHELD: Final = "The server's list of tools cannot be read with certainty and was withheld by mcpwrap: "


class Wait(Enum):
    """The call is to be judged again when the server's list has come."""

    FOR_THE_LIST = auto()


class Listings:
    """The listings of one connection. What is to be done is returned."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._manifest = Manifest(terms.pin_of)
        self._asking = Asking()
        self._complete = False
        self._faults = Faults()

    # Towards the server

    def judge(self, call: Call, now: float, out: list[Action]) -> Objection | Wait | None:
        """Return what stands against starting this call, None if nothing does. May ask the server, once."""
        if call.method != TOOLS_CALL:
            return None
        manifest, tool = self._manifest, call.tool
        held = manifest.held.get(tool)
        if held is not None:
            return Objection("pin" if held.pinned else "changed-tool", held.why)
        if tool in manifest:
            return None
        pin = self._terms.pin_of(tool)
        if pin is None and (self._terms.unknown == ALLOW or self._terms.names(tool)):
            return None
        asking = self._asking
        if not self._complete:
            if not asking.begun:
                out.append(Forward(asking.begin(call.meta, now)))
                text = "a call came before the server's tools were listed; mcpwrap asked for the list itself"
                out.append(Note("list-asked", text))
            if asking.deadline() is not None:
                return Wait.FOR_THE_LIST
        return Objection("unknown-tool" if pin is None else "pin", self._unlisted(pin))

    def _unlisted(self, pin: str | None) -> str:
        failed = "" if self._complete else self._asking.failed
        why = f"mcpwrap's own tools/list {failed}" if failed else "the server has not listed this tool"
        return why if pin is None else f"{why}, so that it cannot be compared with its pin, {pin}"

    def deadline(self) -> float | None:
        """Return when `tick` has something to do, or None."""
        return self._asking.deadline()

    def tick(self, now: float) -> None:
        """Let no call wait any longer for a list that does not come."""
        self._asking.tick(now)

    def end(self) -> None:
        """The server's stream has ended: no list comes any more."""
        self._asking.end()

    # Towards the client

    def changed(self) -> None:
        """The server says that its list is another now."""
        self._complete = False

    def expects(self, request_id: object) -> bool:
        """Tell whether an answer with this id is the one to mcpwrap's own request."""
        return self._asking.expects(request_id)

    def take_own(self, message: dict[str, Any] | None, text: str, *, twice: bool, out: list[Action]) -> None:
        """Take the answer to mcpwrap's own request; None stands for one in a line that is not certain."""
        result = message.get("result") if message is not None and not twice else None
        if type(result) is not dict or self._doubt(result, text):
            result = None
        else:
            self._take(result, out)
        request = self._asking.answered(result)
        if request is not None:
            out.append(Forward(request))

    def take(self, message: dict[str, Any], text: str, *, twice: bool, out: list[Action]) -> str | None:
        """Take an answer to a request of the client: return what goes on of it, None for nothing.

        `twice`: an object in its line names a key twice.
        """
        if "result" not in message:
            return text
        result = message["result"]
        if why := "it names a key twice" if twice else self._doubt(result, text):
            out += self._faults.note("uncertain", f"the server's list of tools: {why}", loud=True)
            request_id = message.get("id")
            if usable_id(request_id):
                out.append(Reply(error_reply(request_id, INTERNAL_ERROR, _WITHHELD + why)))
            return None
        marks = self._take(result, out)
        return marked(text, marks) if marks else text

    def _doubt(self, result: object, text: str) -> str:
        if len(text) > LIST_BYTES:
            return f"it is longer than {LIST_BYTES} bytes"
        try:
            return doubt(result)
        except RecursionError:
            return "it nests too deep"

    def _take(self, result: dict[str, Any], out: list[Action]) -> dict[int, str]:
        page = self._manifest.take(result["tools"])
        if result.get("nextCursor") is None:
            self._complete = True
        if page.new or page.held:
            out.append(Listed(page.new, page.held))
        return page.marked
