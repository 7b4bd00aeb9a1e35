"""`mcpwrap why`: the decision of enforcement itself, asked without a server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Event, Need, Operation
from mcpwrap.policy.active import Active, ActiveWindow
from mcpwrap.policy.bind import REASONS
from mcpwrap.policy.reasons import denial, is_told
from mcpwrap.policy.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.operation import Decision
    from mcpwrap.policy.active import Bound, Resolved
    from mcpwrap.policy.compile import Policy

_MEANINGS: Final = {
    "system": "every server may read the system's libraries and tables",
    "installation": "it belongs to the server's own installation",
    "command": "it is a program of the server's own command",
    "state": "it is the server's own $STATE",
    "cache": "it is the server's own $CACHE",
    "device": "it is one of the harmless devices",
}
_OWN: Final = {
    "home": "in a private HOME of its own",
    "temporary": "in a private directory of its own",
    "view": "as an empty directory that only holds what is granted",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """`text`: lines for people. `path`: the real path that was decided on. `offer`, `place`: as in a `Denial`."""

    allowed: bool
    rule: str
    text: str
    path: str
    decision: Decision
    bound: Bound
    offer: str = ""
    place: str = ""


def why(
    policy: Policy,
    tool: str,
    need: Need,
    path: str,
    arguments: Mapping[str, object],
    resolve: Callable[[str], Resolved],
    identity: Callable[[str], tuple[int, int] | None],
) -> Explanation:
    """Return whether a call of `tool` with `arguments` may do `need` to the absolute `path`.

    Decided by `Effective.decide` for that one window after start-up, with host=True: the user's own
    object at that path is meant, not what the server keeps there in its private HOME and /tmp.
    """
    bound = policy.bind(tool, arguments, resolve)
    effective = policy.effective(Active(1, False, (ActiveWindow("why", tool, bound.paths),)))
    target = resolve(path)
    exists = target.kind != "missing"
    found, creating = identity(target.real), not exists and need is Need.WRITE
    regular = target.kind in ("file", "missing")
    decision, own = (
        effective.decide(need, target.real, identity=found, creating=creating, regular=regular, host=host)
        for host in (True, False)
    )
    lines: list[str] = []
    offer = place = ""
    verb = {Need.READ: "read", Need.WRITE: "write", Need.EXEC: "execute", Need.CONNECT: "connect to"}[need]
    what = f'{shown(tool)}: {verb} "{shown(target.real)}"'
    if decision.allowed:
        lines.append(f"{what}: allowed by {decision.rule}")
        if decision.rule in _MEANINGS:
            lines.append(_MEANINGS[decision.rule])
    else:
        told = denial(Event(Operation(verb, need, target.real), decision), policy, (tool,))
        offer, place = told.offer, told.place
        lines.append(f"{what}: refused by {told.rule}")
        lines.append(told.sentence)
        if own.allowed and own.rule in _OWN:
            lines.append(f"The server may use that name {_OWN[own.rule]}: what it finds there is not yours.")
    if target.real != path:
        lines.append(f'"{shown(path)}" leads there')
    text = "\n".join((*lines, *unbound_lines(bound)))
    return Explanation(decision.allowed, decision.rule, text, target.real, decision, bound, offer, place)


def unbound_lines(bound: Bound) -> list[str]:
    """Return a line for each argument that granted nothing and should have."""
    lines = []
    for each in filter(is_told, bound.unbound):
        reason = REASONS.get(each.reason, each.reason)
        lines.append(f'argument {shown(each.argument)} = "{shown(each.value)}" binds nothing: {reason}')
    return lines
