"""Lines of the server that are no message, or not the same one to all: where they go, and what they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.limits import NAME_SHOWN
from mcpwrap.protocol.actions import Noise, Reply
from mcpwrap.protocol.annotate import failure
from mcpwrap.protocol.asking import is_ours
from mcpwrap.protocol.jsonrpc import INTERNAL_ERROR, error_reply, scan_ids
from mcpwrap.protocol.window import Turn

if TYPE_CHECKING:
    from mcpwrap.protocol.bounded import Faults
    from mcpwrap.protocol.calls import Calls
    from mcpwrap.protocol.jsonrpc import Unreadable
    from mcpwrap.protocol.passing import Id

LOST: Final = "The server's answer could not be read with certainty and was withheld by mcpwrap."
_OURS: Final = (b"mcpwrap", b"\\u00")
"""What may spell a key in mcpwrap's name; from a line that is not certain it cannot be taken out."""


class Doubtful:
    """Takes such lines. `faults` keeps a server from filling the audit with them."""

    def __init__(self, calls: Calls, faults: Faults) -> None:
        self._calls = calls
        self._faults = faults

    def noise(self, line: bytes, kind: str, why: str) -> None:
        """Take a line that is no protocol."""
        self._calls.out.append(Noise(line))
        self._calls.out += self._faults.note(kind, f"the server's stdout: {why}", bytes=len(line))

    def forged(self, request_id: object) -> None:
        """Drop an answer to a request that the server was never given."""
        text = "the server answered a request it had not been given; the answer was dropped"
        shown = request_id if type(request_id) is int else str(request_id)[:NAME_SHOWN]
        self._calls.out += self._faults.note("forged", text, loud=True, id=shown)

    def unreadable(self, line: bytes, unreadable: Unreadable) -> None:
        """Take a line that could not be parsed, and goes no further.

        One too deep, or with too many digits, is a message for JavaScript: it ends whatever it may answer.
        """
        ids = scan_ids(line) if unreadable.deep else []
        if any(self._calls.meant(spelled) is not None or is_ours(spelled) for spelled in ids):
            self.uncertain(ids, line, str(unreadable), passes=False)
        else:
            self.noise(line, "noise", str(unreadable))

    def uncertain(self, ids: list[Id], line: bytes, why: str, *, passes: bool = True) -> None:
        """Close every window whose id the line may answer.

        The line is withheld, and answered for, if one of them saw a denial, or if the line may be the answer to
        what nobody asked yet, or one that is to be looked through; without `passes`, always.
        """
        calls = self._calls
        if any(calls.listings.expects(spelled) for spelled in ids):
            calls.listings.take_own(None, "", twice=False, out=calls.out)
        meant = {spelled: calls.meant(spelled) for spelled in ids}
        known = dict.fromkeys(each for each in meant.values() if each is not None)
        if forged := [each for each in known if each in calls.held]:
            self.forged(forged[0])
            return
        closed = [calls.in_flight[each] for each in known if each in calls.in_flight]
        unread = any(map(calls.passing.is_looked_through, known))
        others = [each for each in known if calls.passing.give_up(each)]
        calls.out += self._faults.note(
            "uncertain", f"a line of the server: {why}", loud=True, windows=len(closed)
        )
        for call in closed:
            calls.close(call, Turn.ANSWERED, "uncertain")
        early = any(each is None and not calls.passing.may_answer(spelled) for spelled, each in meant.items())
        withheld = (
            early or unread or not passes or any(map(is_ours, ids)) or any(hint in line for hint in _OURS)
        )
        if withheld or any(call.denials for call in closed):
            calls.out.extend(Reply(failure(call, LOST, call.denials)) for call in closed)
            calls.out.extend(Reply(error_reply(each, INTERNAL_ERROR, LOST)) for each in others)
            if not closed:
                self.noise(line, "noise", why)
        else:
            calls.out.append(Reply(line))
