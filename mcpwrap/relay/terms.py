"""What the compiled policy asks of the protocol: the questions of `protocol.terms`, answered by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.protocol.terms import Terms

if TYPE_CHECKING:
    from mcpwrap.policy.compile import Policy


def terms(policy: Policy) -> Terms:
    """Return the terms of one run."""
    grant = policy.grant

    def names(tool: str) -> bool:
        return any(not table.every and table.matches.fullmatch(tool) for table in policy.tools)

    return Terms(
        unknown=grant.unknown_tools,
        on_denial=grant.on_denial,
        window_limit=grant.window_limit,
        names=names,
    )
