"""The server's filter, assembled from the reviewed list for one machine."""

from __future__ import annotations

import functools

from mcpwrap.kernel.bpf import Check, Verdict, assemble
from mcpwrap.kernel.numbers import AUDIT_ARCHES, MACHINE, table
from mcpwrap.sandbox.arguments import ABSENT, ALLOW, TRAP
from mcpwrap.sandbox.syscalls import GROUPS, Group


def _traps(verdict: Verdict) -> bool:
    if isinstance(verdict, Check):
        return _traps(verdict.then) or _traps(verdict.otherwise)
    return verdict == TRAP


def _untrapped(verdict: Verdict) -> Verdict:
    if isinstance(verdict, Check):
        return verdict._replace(then=_untrapped(verdict.then), otherwise=_untrapped(verdict.otherwise))
    return ALLOW if verdict == TRAP else verdict


def verdicts(
    machine: str = MACHINE, *, listener: bool = True, overlay: tuple[Group, ...] = ()
) -> dict[str, Verdict]:
    """Return name → verdict of every call of `machine` that the list names.

    `overlay` are groups whose calls are judged otherwise than on the list. Without `listener` what would
    be trapped is allowed: for trying programs against the list, and for tier B-.
    """
    known = table(machine)
    found = {
        name: group.verdict for group in (*GROUPS, *overlay) for name in group.calls.split() if name in known
    }
    if not listener:
        found = {name: _untrapped(verdict) for name, verdict in found.items()}
    return found


@functools.cache
def program(listener: bool, *, machine: str = MACHINE, overlay: tuple[Group, ...] = ()) -> bytes:
    """Return the filter for `kernel.seccomp.load`; the arguments are those of `verdicts`.

    Raises KeyError for a machine that has no table.
    """
    known = table(machine)
    found = verdicts(machine, listener=listener, overlay=overlay)
    by_number = {known[name]: verdict for name, verdict in found.items()}
    return assemble(AUDIT_ARCHES[machine], by_number, ABSENT)


def trapped(overlay: tuple[Group, ...] = ()) -> frozenset[str]:
    """Return the calls of this machine that the broker is asked about, always or for some arguments."""
    return frozenset(name for name, verdict in verdicts(overlay=overlay).items() if _traps(verdict))
