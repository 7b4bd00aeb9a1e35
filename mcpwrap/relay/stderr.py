"""Everything that is said on standard error: the server's own output, live, and mcpwrap's lines.

Writing never blocks: a client that does not read its server's stderr must not stop the server. A line of the
server's that looks like one of ours is marked.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.offer import INDENT
from mcpwrap.relay.imitation import Imitations
from mcpwrap.relay.streams import Outbox

if TYPE_CHECKING:
    from mcpwrap.relay.streams import Sink

UNREAD_BYTES: Final = 256 * 1024
"""Kept for a client that does not read; what comes on top is dropped and counted."""
TAIL_LINES: Final = 20
"""Last lines of the server's stderr that are kept to be quoted."""
TAIL_LINE_BYTES: Final = 1_000
"""Bytes of one quoted line."""


class Tail:
    """The last lines of a stream, bounded whatever comes."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._begun = b""

    def add(self, data: bytes) -> None:
        # Only the last lines can matter: a flood costs no more than its end.
        *ended, begun = data.rsplit(b"\n", TAIL_LINES + 1)
        if ended:
            ended[0] = (self._begun + ended[0]).rsplit(b"\n", 1)[-1]
            self._lines.extend(line[:TAIL_LINE_BYTES] for line in ended)
            self._begun = b""
        self._begun = (self._begun + begun)[:TAIL_LINE_BYTES]

    def lines(self) -> list[str]:
        """Return the lines, oldest first, without control characters."""
        lines = [*self._lines, self._begun] if self._begun else list(self._lines)
        return [plain(line.decode("utf-8", "replace")) for line in lines[-TAIL_LINES:]]


def plain(text: str) -> str:
    """Return `text` without what could move a terminal's cursor or its reader's eye."""
    return "".join(character if character.isprintable() else "�" for character in text.rstrip("\r\n"))


class ErrorOutput:
    """Our standard error. `sink` is None if there is none."""

    def __init__(self, sink: Sink | None) -> None:
        self.tail = Tail()
        self.dropped = 0
        self._box = Outbox(sink) if sink is not None else None
        self._missing = 0
        self._mid_line = False
        self._imitations = Imitations()

    @property
    def fd(self) -> int | None:
        return self._box.sink.fd if self._box is not None else None

    @property
    def waiting(self) -> int:
        """Bytes that have not been taken yet."""
        return self._box.size if self._box is not None else 0

    def server(self, data: bytes) -> None:
        """Pass on what the server wrote, and remember its end."""
        self.tail.add(data)
        self._put(self._imitations.passed(data))

    def noise(self, data: bytes) -> None:
        """Pass on what the server wrote to stdout and is no protocol; a line of its own."""
        self._end_line()
        self._put(self._imitations.passed(data if data.endswith(b"\n") else data + b"\n"))

    def say(self, text: str) -> None:
        """Say one or more lines of our own, each begun with `mcpwrap: ` but for the indented ones, to be pasted.

        The last line must not be one of those: what follows is the server's, and would be pasted with it.
        """
        self._end_line()
        lines = "".join(
            f"{line}\n" if line.startswith(INDENT) else f"mcpwrap: {line}\n" for line in text.splitlines()
        )
        self._put(lines.encode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        """Write what is kept when nothing more will come, as far as it is taken now."""
        self._put(self._imitations.line_ended())
        self.flush()

    def flush(self) -> None:
        """Write what is kept, as far as it is taken now."""
        if self._box is None:
            return
        try:
            self._box.flush()
        except OSError:
            self._box = None
            return
        if self._missing and not self._box.size:
            missing, self._missing = self._missing, 0
            self.say(f"{missing} bytes of stderr were not read in time")

    def _end_line(self) -> None:
        self._put(self._imitations.line_ended())
        if self._mid_line:
            self._put(b"\n")

    def _put(self, data: bytes) -> None:
        if self._box is None or not data:
            return
        if self._box.size + len(data) > UNREAD_BYTES and self._box.size:
            # Behind what is left out, a line may begin.
            lost = len(data) + len(self._imitations.line_ended())
            self.dropped += lost
            self._missing += lost
            return
        self._mid_line = not data.endswith(b"\n")
        try:
            self._box.put(data)
        except OSError:
            self._box = None  # Nobody will read it any more; the run goes on.
