"""What a grant allows that the one of an earlier run did not, line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Block, Grant

_INDEX = re.compile(r"\[\d+\]$")


def rules_of(grant: Grant) -> list[str]:
    """Return every line of `grant` that allows something, as `table.noun text`; positions do not count."""
    rules = [*_block(grant.server), *_block(grant.startup)]
    for tool in grant.tools:
        rules += _block(tool.block)
    rules += [f"policy.within {root}" for root in grant.within]
    rules += [f"server.env {name}" for name in grant.env]
    if grant.overlap != "auto":
        rules.append(f"policy.overlap {grant.overlap}")
    return list(dict.fromkeys(rules))


def wider(last: Mapping[str, object], now: list[str]) -> list[str]:
    """Return what `now` has and the `run` record `last` has not, in order."""
    before = last.get("rules")
    if not isinstance(before, list):
        return []
    known = set(map(str, before))
    return [rule for rule in now if rule not in known and rule != "policy.overlap serialize"]


def _block(block: Block) -> list[str]:
    paths = [f"{_INDEX.sub('', rule.id)} {rule.text}" for rule in block.paths if rule.noun != "fs_deny"]
    return paths + [f"{_INDEX.sub('', rule.id)} {rule.text}" for rule in block.execs]
