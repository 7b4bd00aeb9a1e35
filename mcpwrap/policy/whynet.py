"""`mcpwrap why` of hosts, names and sockets: the decisions of enforcement itself, asked without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwrap.operation import Event, Need, Operation
from mcpwrap.policy.active import Active, ActiveWindow
from mcpwrap.policy.hosts import host_of, is_localhost, spelled
from mcpwrap.policy.reasons import denial
from mcpwrap.policy.shown import shown
from mcpwrap.policy.why import Explanation, unbound_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwrap.operation import Decision
    from mcpwrap.policy.active import Bound, Resolved
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.effective import Effective
    from mcpwrap.policy.hosts import Peer

_VERBS: Final = {"connect": "connect to", "send": "send to", "lookup": "look up"}

_PRIVATE: Final = "10.0.0.1"
"""An address of RFC 1918, to ask whether a name may lead to one."""


def why_connect(
    policy: Policy, tool: str, peer: Peer, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]
) -> Explanation:
    """Return whether a call of `tool` with `arguments` may reach `peer`. Nothing is looked up."""
    bound, effective = _call(policy, tool, arguments, resolve)
    decision = effective.connect(peer)
    notes = []
    host = host_of(peer)
    if decision.allowed and isinstance(host, str) and not is_localhost(host):
        private = effective.dial(peer, _PRIVATE).allowed
        notes.append(
            "It may be on a private network, since the name is listed by itself; in no other place that is not public."
            if private
            else "Where it leads is judged as well: an address that is not public is refused."
        )
    act = "connect" if peer.protocol == "tcp" else "send"
    return _explained(policy, tool, act, spelled(peer), decision, bound, notes)


def why_lookup(
    policy: Policy, tool: str, name: str, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]
) -> Explanation:
    """Return whether `name` may be looked up: by any call, for answers are remembered beyond one."""
    bound, _ = _call(policy, tool, arguments, resolve)
    return _explained(policy, tool, "lookup", name, policy.answers(name), bound, [])


def why_socket(
    policy: Policy, tool: str, path: str, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]
) -> Explanation:
    """Return whether a call of `tool` may connect to the user's socket at the absolute `path`."""
    bound, effective = _call(policy, tool, arguments, resolve)
    real = resolve(path).real
    decision = effective.socket(real, path)
    notes = [f'"{shown(path)}" leads there'] if real != path else []
    return _explained(policy, tool, "connect", real, decision, bound, notes)


def _call(
    policy: Policy, tool: str, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]
) -> tuple[Bound, Effective]:
    bound = policy.bind(tool, arguments, resolve)
    window = ActiveWindow("why", tool, bound.paths, bound.hosts)
    return bound, policy.effective(Active(1, False, (window,)))


def _explained(
    policy: Policy, tool: str, act: str, target: str, decision: Decision, bound: Bound, notes: list[str]
) -> Explanation:
    told = denial(Event(Operation(act, Need.CONNECT, target), decision), policy, (tool,), bound=bound)
    what = f'{shown(tool)}: {_VERBS[act]} "{shown(target)}"'
    if decision.allowed:
        lines = [f"{what}: allowed by {decision.rule}", *notes]
        offer = place = ""
    else:
        lines = [f"{what}: refused by {told.rule}", told.sentence, *notes]
        offer, place = told.offer, told.place
    text = "\n".join((*lines, *unbound_lines(bound)))
    return Explanation(decision.allowed, decision.rule, text, target, decision, bound, offer, place)
