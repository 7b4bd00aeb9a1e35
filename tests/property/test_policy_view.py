"""What the view shows of the host is never taken for the server's own ground."""

from __future__ import annotations

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpwrap.errors import GrantError
from mcpwrap.operation import Need
from mcpwrap.policy.active import Active
from mcpwrap.sandbox.entries import Entry
from mcpwrap.sandbox.plan import Wanted, plan
from mcpwrap.sandbox.steps import Bind
from tests.property.test_policy_why import NOUNS, TREES, grant, machine
from tests.unit.policy.machine import STATE, Machine

OWN = ("home", "temporary")


def looker(host: Machine, path: str) -> Entry:
    if path in host.links:
        return Entry("link", host.links[path])
    kind = host.kinds.get(path, "missing")
    return Entry("other" if kind == "other" else kind)


@settings(max_examples=300, deadline=None)
@given(NOUNS, st.lists(st.sampled_from(["git", "/data/*", "/data/a"]), max_size=2, unique=True), TREES)
def test_every_mount_that_shows_the_host_is_host_ground_for_the_policy(
    nouns: dict[str, list[str]], execs: list[str], files: list[str]
) -> None:
    host = machine(files)
    try:
        policy = host.policy(grant(nouns, execs))
    except GrantError:
        assume(False)
    made = plan(
        policy.floor, policy.facts, Wanted("/usr/bin/python3.11", look=lambda path: looker(host, path))
    )
    effective = policy.effective(Active(1, False))
    shown = [
        step.path
        for step in made.steps
        if isinstance(step, Bind) and step.source == step.path and not step.device
    ]
    for root in shown:
        if root.startswith(STATE) or root == policy.facts.cache:
            continue
        for path in (root, f"{root}/anything"):
            assert policy.grounds.of(path).owner not in OWN
            assert effective.decide(Need.READ, path).rule not in OWN
