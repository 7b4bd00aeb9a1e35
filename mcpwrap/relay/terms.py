"""What the compiled policy asks of the protocol: the questions of `protocol.terms`, answered by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.protocol.mcp import TOOLS_CALL
from mcpwrap.protocol.terms import Objection, Terms

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy
    from mcpwrap.protocol.window import Call


def terms(policy: Policy) -> Terms:
    """Return the terms of one run."""
    grant = policy.grant
    asked = Terms(
        unknown=grant.unknown_tools,
        on_denial=grant.on_denial,
        window_limit=grant.window_limit,
        listed=frozenset(
            area for area, block in (("resources", grant.resources), ("prompts", grant.prompts)) if any(block)
        ),
        pin_of=policy.pin_of,
        names=policy.names_tool,
    )
    if not any(tool.args for tool in grant.tools):
        return asked

    from mcpwrap.policy.args import check  # here only: few grants have conditions

    def permit(call: Call) -> Objection | None:
        rules = policy.args_of(call.tool) if call.method == TOOLS_CALL else ()
        refusal = check(rules, call.arguments) if rules else None
        return Objection(refusal.rule, refusal.why) if refusal is not None else None

    return asked._replace(permit=permit)
