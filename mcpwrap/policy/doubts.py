"""What is right in a grant file and yet may not be what its author meant, on this machine."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from mcpwrap.grant.render import path_text, printable, toml_string
from mcpwrap.policy.match import below

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


def needless(policy: Policy) -> list[str]:
    """Return a line for each rule of a tool that one of `[server]` makes needless: what it narrows is open anyway."""
    lines = []
    always = [rule for rule in policy.grant.server.paths if rule.path is not None and rule.noun != "fs_deny"]
    for tool in policy.grant.tools:
        for rule in tool.block.paths if tool.inherit else ():
            wide = next((each for each in always if _covers(policy, each, rule)), None)
            if wide is not None:
                lines.append(
                    f"{rule.where}: {rule.noun} {toml_string(rule.text)} adds nothing: in every call [server] has "
                    f"{wide.noun} {toml_string(wide.text)}"
                )
    return lines


def _covers(policy: Policy, wide: PathRule, rule: PathRule) -> bool:
    if rule.noun == "fs_deny" or (wide.noun == "fs_read" and rule.noun == "fs_write") or wide.path is None:
        return False
    if rule.path is not None:
        # What is private or write-protected is open by its exact name only.
        exact = policy.guarded(rule.path, write=rule.noun == "fs_write")
        return not exact and below(rule.path, wide.path)
    return rule.arg is not None and all(below(root, wide.path) for root in rule.arg.within)


def doubts(policy: Policy) -> list[str]:
    """Return all there is to say of a file that nothing is wrong in: lines with their places."""
    lines = [*unresolved(policy), *needless(policy), *_metadata(policy)]
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
        if socket in policy.turned:
            lines.append(
                f"{socket.where}: {_shown(policy, socket.path)} is reached by a link that a tool may change: "
                f"name what it leads to"
            )
        guarded = policy.guarded(socket.path) or policy.guarded(real)
        if guarded:
            lines.append(
                f"{socket.where}: {_shown(policy, socket.path)} is opened in spite of {guarded}: it is named exactly"
            )
    return lines


def _metadata(policy: Policy) -> Iterator[str]:
    from mcpwrap.policy.addresses import classify  # for `check` alone: no start asks this

    for rule in (rule for block in policy.grant.blocks for rule in block.hosts if rule.kind == "network"):
        if classify(rule.host.partition("/")[0]) in ("metadata", "link-local"):
            yield f"{rule.where}: {toml_string(rule.text)} is where clouds hand out a machine's own credentials"


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
