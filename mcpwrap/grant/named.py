"""Paths named in the server's own command line and environment: which of them may be bound unasked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mcpwrap.grant.paths import Variables, provided, too_wide

if TYPE_CHECKING:
    from collections.abc import Iterable

Kind = Literal["file", "directory", "socket", "fifo", "device", "missing"]


class NamedPath(NamedTuple):
    """An absolute, normalized path as named, and the object it resolves to.

    `protected`: the id of the private or write-protected rule that holds for it or for what it
    resolves to (`private:.ssh`), empty if none does.
    """

    path: str
    real: str
    kind: Kind
    protected: str = ""


def bindable(
    named: Iterable[NamedPath], variables: Variables
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Return the paths a run without a grant file may read, and (path, reason) of those it may not.

    A missing path is neither: a word that names nothing is no path.
    """
    bound: list[str] = []
    refused: list[tuple[str, str]] = []
    for item in named:
        if item.kind == "missing":
            continue
        reason = _reason(item, variables)
        if reason:
            refused.append((item.path, reason))
        elif item.path not in bound:
            bound.append(item.path)
    return tuple(bound), tuple(refused)


def _reason(item: NamedPath, variables: Variables) -> str:
    if item.kind not in ("file", "directory"):
        return f"a {item.kind} is never bound unasked"
    if item.protected:
        return f"it is protected ({item.protected}) and must be named in a grant file"
    for path in (item.path, item.real):
        reason = too_wide(path, variables) or provided(path, variables)
        if reason:
            return reason
    return ""
