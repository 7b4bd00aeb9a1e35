"""mcpwrap's own `tools/list`: asked once, when a call comes before anybody has listed the server's tools.

Its ids begin with `mcpwrap:`, which no id of the client may; its answers go no further.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, TypeGuard

from mcpwrap.limits import LIST_PAGES, LIST_SECONDS
from mcpwrap.protocol.bounded import is_short
from mcpwrap.protocol.jsonrpc import dump

OUR_IDS: Final = "mcpwrap:"
_LIST: Final = OUR_IDS + "list:"
_SPOKEN: Final = "io.modelcontextprotocol/"
"""How the keys of `_meta` begin that each request of 2026-07-28 must carry (version, client, capabilities)."""


def is_ours(request_id: object) -> TypeGuard[str]:
    """Tell whether an id may only be one of mcpwrap's own."""
    return type(request_id) is str and request_id.startswith(OUR_IDS)


class Asking:
    """One listing, page by page. `begun`: it was asked for. `failed`: why it is not to be had, "" as long as it may."""

    def __init__(self) -> None:
        self.begun = False
        self.failed = ""
        self._expected = ""
        self._pages = 0
        self._since = 0.0
        self._meta: dict[str, Any] = {}

    def begin(self, meta: object, now: float) -> bytes:
        """Return the first request. `meta` is the `_meta` of the call it is asked for, where there is one."""
        self.begun = True
        self._since = now
        if type(meta) is dict:
            spoken = {key: value for key, value in meta.items() if key.startswith(_SPOKEN)}
            with suppress(TypeError):  # A string in it was too long to be read: no server needs that.
                dump(spoken)
                self._meta = spoken
        return self._request({})

    def expects(self, request_id: object) -> bool:
        """Tell whether this is the id of the page that is still to be answered."""
        return bool(self._expected) and request_id == self._expected

    def answered(self, result: object) -> bytes | None:
        """The expected page has come, None for one that cannot be used: return the request of the next, or None."""
        self._expected = ""
        if type(result) is not dict:
            self.failed = "was answered with an error, or with what cannot be read with certainty"
            return None
        cursor = result.get("nextCursor")
        if cursor is None:
            return None
        if type(cursor) is not str or not is_short(cursor) or self._pages >= LIST_PAGES:
            self.failed = f"was answered with more than {LIST_PAGES} pages, or a cursor that is none"
            return None
        return self._request({"cursor": cursor})

    def deadline(self) -> float | None:
        """Return until when a call waits for the answer, None if none does."""
        return self._since + LIST_SECONDS if self._expected and not self.failed else None

    def tick(self, now: float) -> None:
        """Let no call wait any longer, if the time is up. An answer that comes later is taken all the same."""
        deadline = self.deadline()
        if deadline is not None and deadline <= now:
            self.failed = f"was not answered within {LIST_SECONDS:.0f} s"

    def end(self) -> None:
        """No answer comes any more."""
        self._expected = ""

    def _request(self, params: dict[str, Any]) -> bytes:
        self._pages += 1
        self._expected = f"{_LIST}{self._pages}"
        if self._meta:
            params["_meta"] = self._meta
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._expected, "method": "tools/list"}
        if params:
            message["params"] = params
        return (dump(message) + "\n").encode()
