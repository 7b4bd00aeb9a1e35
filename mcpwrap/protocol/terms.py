"""What a grant asks of the calls of one connection, as plain values and questions: the policy answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from mcpwrap.protocol.window import Call

REFUSE: Final = "refuse"
ALLOW: Final = "allow"
"""`unknown`: what becomes of a call of a tool that was never listed and that the grant does not name."""

ANNOTATE: Final = "annotate"
WITHHOLD: Final = "error"
"""`on_denial`: what becomes of the result of a call in which something was refused."""


class Objection(NamedTuple):
    """Why a call is not given to the server: the `rule` it fails and, in a few printable words, `why`."""

    rule: str
    why: str


def _nothing(_: object) -> None:
    return None


def _never(_: object) -> bool:
    return False


class Terms(NamedTuple):
    """Without arguments: the terms of a server that has no grant.

    `permit(call)` judges its arguments; very long strings in them may be unread (`glance.LongText`).
    `pin_of(tool)`: the digest its description must have, None if it has no pin. `names(tool)`: the grant names it,
    in a header other than "*". `window_limit`: how long a call keeps its grant, in seconds. `listed`: the areas
    ("resources", "prompts") in which lists are calls as well, because the grant has rules for them.
    """

    unknown: str = REFUSE
    on_denial: str = ANNOTATE
    window_limit: float = 600.0
    listed: frozenset[str] = frozenset()
    permit: Callable[[Call], Objection | None] = _nothing
    pin_of: Callable[[str], str | None] = _nothing
    names: Callable[[str], bool] = _never
