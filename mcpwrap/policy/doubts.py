"""What is right in a grant file and yet may not be what its author meant, on this machine."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from mcpwrap.grant.render import path_text, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.grant.grant import PathRule
    from mcpwrap.policy.compile import Policy


def unresolved(policy: Policy) -> list[str]:
    """Return a line for each program that is not here."""
    return [
        f"{rule.where}: no program {printable(rule.program)} here: the line grants nothing"
        for rule in policy.unresolved
    ]


def missing_directories(policy: Policy) -> list[str]:
    """Return a line for each directory that is not there, and has to be before what it holds can be made."""
    parents = (
        posixpath.dirname(path) for _, path in _granted(policy) if policy.facts.kind(path) == "missing"
    )
    missing = dict.fromkeys(path for path in parents if policy.facts.kind(path) == "missing")
    return [f"{_shown(policy, path)} does not exist: create it" for path in missing if not _own(policy, path)]


def doubts(policy: Policy) -> list[str]:
    """Return all there is to say of a file that nothing is wrong in: lines with their places."""
    lines = unresolved(policy)
    for rule, path in _granted(policy):
        if policy.facts.kind(path) == "missing" and not _own(policy, path):
            lines.append(f"{rule.where}: {_shown(policy, path)} does not exist")
        guarded = policy.guarded(path, write=rule.noun == "fs_write")
        if guarded and not _own(policy, path):
            lines.append(
                f"{rule.where}: {_shown(policy, path)} is opened in spite of {guarded}: it is named exactly"
            )
    for socket in (socket for block in policy.grant.blocks for socket in block.sockets):
        real = policy.facts.real(socket.path)
        if policy.facts.kind(real) == "missing":
            lines.append(f"{socket.where}: {_shown(policy, socket.path)} does not exist")
        guarded = policy.guarded(socket.path) or policy.guarded(real)
        if guarded:
            lines.append(
                f"{socket.where}: {_shown(policy, socket.path)} is opened in spite of {guarded}: it is named exactly"
            )
    return lines


def _granted(policy: Policy) -> Iterator[tuple[PathRule, str]]:
    """Yield the rules of the file itself that grant one path."""
    for block in policy.grant.blocks:
        for rule in block.paths:
            if rule.path is not None and rule.noun != "fs_deny" and rule.where.file == policy.grant.file:
                yield rule, rule.path


def _own(policy: Policy, path: str) -> bool:
    """Whether it is the server's own: made for it when it starts, and in mcpwrap's directories."""
    return any(path == own or path.startswith(own + "/") for own in (policy.facts.state, policy.facts.cache))


def _shown(policy: Policy, path: str) -> str:
    return path_text(path, policy.facts.home) or printable(path)
