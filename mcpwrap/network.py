"""Joins egress to a run. Imported only where a grant has a rule of the network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from mcpwrap.egress.egress import Egress

if TYPE_CHECKING:
    from mcpwrap.audit.journal import Journal
    from mcpwrap.egress.given import Ended
    from mcpwrap.policy.compile import Policy
    from mcpwrap.relay.calls import OpenCalls
    from mcpwrap.relay.relay import Relay
    from mcpwrap.relay.startup import StartupWatch
    from mcpwrap.relay.stderr import ErrorOutput


def open_way_out(
    channel: int,
    relay: Relay,
    startup: StartupWatch,
    policy: Policy,
    calls: OpenCalls,
    journal: Journal,
    output: ErrorOutput,
    tier: str,
) -> Egress:
    """Return the way out of a run, with everything it needs; `channel` is the relay's end of it to the broker."""
    # A port of the host that leads to nobody would be worse than none.
    listens = policy.listens if tier == "B" else ()
    if policy.listens and not listens:
        output.say(
            f"at tier {tier} no server can be reached: the `listen` rules of its grant are not in force, "
            "and no port of this machine is opened"
        )

    def ended(stream: Ended) -> None:
        journal.stream(
            stream.windows,
            stream.target,
            stream.rule,
            address=stream.address,
            via=stream.via,
            sent=stream.sent,
            received=stream.received,
            seconds=stream.seconds,
            how=stream.how,
        )

    egress = Egress(
        channel,
        relay.traffic.pumps,
        effective=calls.effective,
        event=calls.event,
        ended=ended,
        say=output.say,
        answers=policy.answers,
        any_server_name=policy.grant.sni == "any",
        listens=listens,
        listening=lambda rule: calls.effective().listen(rule.port, everywhere=rule.everywhere),
        environ=os.environ,
    )
    calls.published = egress.changed
    startup.moving = lambda: egress.moving
    relay.traffic.way_out = egress
    return egress
