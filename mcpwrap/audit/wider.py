"""What a grant allows that the one of an earlier run did not, line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcpwrap.grant.grant import WINDOW_LIMIT
from mcpwrap.grant.render import key_text
from mcpwrap.grant.words import condition_words, duration_text

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Block, Grant

_CONDITION = "condition "
_INDEX = re.compile(r"\[\d+\]$")


def rules_of(grant: Grant) -> list[str]:
    """Return every line of `grant` that allows something, as `table.noun text`; positions do not count.

    What a call is asked for is among them, marked as a condition: it is missed where it is no more.
    """
    rules = [*_block(grant.server), *_block(grant.startup), *_block(grant.resources), *_block(grant.prompts)]
    for tool in grant.tools:
        rules += _block(tool.block)
        rules += [f"{_CONDITION}{rule.id} {': '.join(condition_words(rule))}" for rule in tool.args]
        if tool.pin:
            rules.append(f"{_CONDITION}tools.{key_text(tool.header)}.pin {tool.pin}")
    rules += [f"policy.within {root}" for root in grant.within]
    rules += [f"server.env {name}" for name in grant.env]
    if grant.overlap != "auto":
        rules.append(f"policy.overlap {grant.overlap}")
    if grant.window_limit > WINDOW_LIMIT:
        rules.append(f"policy.window_limit {duration_text(grant.window_limit)}")
    if grant.unknown_tools == "allow":
        rules.append("policy.unknown_tools allow")
    if grant.sni == "any":
        rules.append("policy.sni any")
    if grant.nested_sandbox:
        rules.append("server.nested_sandbox")
    if grant.install_write:
        rules.append(f"server.install_write {grant.install_write}")
    return list(dict.fromkeys(rules))


def wider(last: Mapping[str, object], now: list[str]) -> list[str]:
    """Return what `now` has and the `run` record `last` has not, in order, and which conditions it has no more."""
    before = last.get("rules")
    if not isinstance(before, list):
        return []
    known = set(map(str, before))
    stricter = ("policy.overlap serialize", _CONDITION)
    added = [rule for rule in now if rule not in known and not rule.startswith(stricter)]
    gone = [rule for rule in known if rule.startswith(_CONDITION) and rule not in now]
    return added + [f"no more {rule}" for rule in sorted(gone)]


def _block(block: Block) -> list[str]:
    paths = [f"{_INDEX.sub('', rule.id)} {rule.text}" for rule in block.paths if rule.noun != "fs_deny"]
    for rules in (block.execs, block.hosts, block.sockets, block.listens):
        paths += [f"{_INDEX.sub('', rule.id)} {rule.text}" for rule in rules]
    return paths
