"""`$arg`: what the arguments of one call grant, looked up once, before the request is forwarded.

Paths here, hosts in `bindhosts`.

A value binds where both the path as written and the object it leads to lie under the same root of the
rule's `within`. What binds nothing is reported with its reason; the call is forwarded all the same,
so that the server's own message stays.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mcpwrap.limits import BOUND_CHARACTERS_PER_CALL, BOUND_VALUES_PER_CALL, PATH_CHARACTERS
from mcpwrap.operation import Need
from mcpwrap.policy.active import Bound, BoundHost, BoundKind, BoundPath, Resolved, Unbound
from mcpwrap.policy.match import below
from mcpwrap.protocol.glance import LongText

if TYPE_CHECKING:
    from mcpwrap.grant.grant import ArgHost, ArgPath, Block, HostRule, PathRule
    from mcpwrap.policy.compile import Policy

ITEMS: Final = "[]"

ABSENT: Final = "absent"
NOT_TEXT: Final = "not-text"
EMPTY: Final = "empty"
NUL: Final = "nul"
OUTSIDE: Final = "outside-within"
LEADS_OUTSIDE: Final = "leads-outside-within"
NO_FILE: Final = "no-file"
TOO_MANY: Final = "too-many"
TOO_LONG: Final = "too-long"

NO_HOST: Final = "no-host"
AMBIGUOUS: Final = "ambiguous-host"
OUTSIDE_HOSTS: Final = "outside-hosts"
OWN_NETWORK: Final = "own-network"

REASONS: Final = {
    ABSENT: "the argument is absent",
    NOT_TEXT: "the argument is not a string",
    EMPTY: "the argument is empty",
    NUL: "the argument holds a NUL byte",
    OUTSIDE: "the path lies outside the directories `within` allows",
    LEADS_OUTSIDE: "the path leads outside the directory `within` allows",
    NO_FILE: "the path leads to a socket, device or pipe",
    TOO_LONG: "the argument is longer than any path",
    NO_HOST: "the argument names no host",
    AMBIGUOUS: "the host in the argument can be read in more than one way",
    OUTSIDE_HOSTS: "the host is not among those its rule allows",
    OWN_NETWORK: "the host is this machine, or an address that is not public",
    TOO_MANY: f"one call may bind {BOUND_VALUES_PER_CALL} values of {BOUND_CHARACTERS_PER_CALL} characters in all",
}
"""Why a value bound nothing, in words; any other reason is the id of the private rule the path met."""

_FILE_URL = re.compile(r"file://(?:localhost)?(?=/)", re.IGNORECASE)
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")


def bind(
    policy: Policy, block: Block, arguments: Mapping[str, object], resolve: Callable[[str], Resolved]
) -> Bound:
    """Bind every `$arg` rule of `block` to `arguments`. `resolve` follows links on the host."""
    binder = _Binder(policy, resolve)
    for rule in block.paths:
        if rule.arg is not None and rule.noun != "fs_deny":
            binder.rule(rule, rule.arg, arguments)
    for host_rule in block.hosts:
        if host_rule.arg is not None:
            binder.host_rule(block, host_rule, host_rule.arg, arguments)
    return Bound(
        tuple(dict.fromkeys(binder.paths)),
        tuple(dict.fromkeys(binder.unbound)),
        tuple(dict.fromkeys(binder.hosts)),
    )


class _Binder:
    def __init__(self, policy: Policy, resolve: Callable[[str], Resolved]) -> None:
        self._policy = policy
        self._resolve = resolve
        self._values = 0
        self._characters = 0
        self.paths: list[BoundPath] = []
        self.unbound: list[Unbound] = []
        self.hosts: list[BoundHost] = []

    def rule(self, rule: PathRule, arg: ArgPath, arguments: Mapping[str, object]) -> None:
        need = Need.WRITE if rule.noun == "fs_write" else Need.READ
        for argument, value in self._texts(need, rule.id, arg.steps, arguments):
            reason = _no_path(value)
            if reason is not None:
                self.unbound.append(Unbound(need, rule.id, argument, value, "", reason))
            else:
                self._value(rule, arg, need, argument, value)

    def host_rule(self, block: Block, rule: HostRule, arg: ArgHost, arguments: Mapping[str, object]) -> None:
        from mcpwrap.policy.bindhosts import bind_host  # here only: most grants have no such rule

        for argument, value in self._texts(Need.CONNECT, rule.id, arg.steps, arguments):
            hosts, unbound = bind_host(self._policy, block, rule, arg, argument, value)
            self.hosts += hosts
            if unbound is not None:
                self.unbound.append(unbound)

    def _texts(
        self, need: Need, rule: str, steps: tuple[str, ...], arguments: Mapping[str, object]
    ) -> Iterator[tuple[str, str]]:
        """Yield (name of the argument, value) for each value at `steps` that is a text, within the limits."""
        argument = ".".join(steps).replace(f".{ITEMS}", ITEMS)
        values = 0
        for value in _values(arguments, steps):
            values += 1
            self._values += 1
            self._characters += len(value) if isinstance(value, str) else 0
            if self._values > BOUND_VALUES_PER_CALL or self._characters > BOUND_CHARACTERS_PER_CALL:
                self.unbound.append(Unbound(need, rule, argument, "", "", TOO_MANY))
                return
            if isinstance(value, str) and value:
                yield argument, value
            else:
                self.unbound.append(Unbound(need, rule, argument, "", "", _no_text(value)))
        if not values:
            self.unbound.append(Unbound(need, rule, argument, "", "", ABSENT))

    def _value(self, rule: PathRule, arg: ArgPath, need: Need, argument: str, value: str) -> None:
        roots = tuple(zip(arg.within, self._policy.within[rule.id], strict=True))
        failed: tuple[str, str] | None = None
        bound = False
        for candidate in self._candidates(value, arg.within):
            written = _normal(candidate) + arg.tail
            resolved, reason = self._inside(written, candidate + arg.tail, roots)
            if resolved is not None and arg.tail:
                # The tail is what the user wrote: it names that very file, not what a link there leads to.
                base = self._resolve(_normal(candidate)).real
                if resolved.real != base + arg.tail:
                    resolved, reason = None, LEADS_OUTSIDE
            if resolved is None:
                failed = failed or (written, reason)
                continue
            bound = True
            self._bound(rule, arg, need, resolved, roots)
        if not bound:
            path, reason = failed or ("", OUTSIDE)
            self.unbound.append(Unbound(need, rule.id, argument, value, path, reason))

    def _candidates(self, value: str, within: tuple[str, ...]) -> Iterator[str]:
        """Yield the absolute paths `value` may mean to the server, not yet normalized."""
        path = _local(value)
        if path == "~" or path.startswith("~/"):
            path = self._policy.facts.home + path[1:]
        if path.startswith("/"):
            yield path
            return
        for base in dict.fromkeys((self._policy.facts.cwd, *within)):
            yield f"{base}/{path}"

    def _inside(
        self, written: str, raw: str, within: tuple[tuple[str, str], ...]
    ) -> tuple[Resolved | None, str]:
        """Return the object if it and the path as written lie under one root of `within`, else the reason.

        `within`: each root as written, and as it resolved when the mounts were planned.

        `raw` still has its `..`: where a link stands before one, the kernel goes elsewhere than the
        text says, so what a server means by it is not known, and both ways must lead to one object.
        """
        roots = [root for root in within if below(written, root[0]) or below(written, root[1])]
        if not roots:
            return None, OUTSIDE
        resolved = self._resolve(written)
        if "/../" in raw + "/" and self._resolve(raw).real != resolved.real:
            return None, LEADS_OUTSIDE
        if not any(below(resolved.real, root[1]) for root in roots):
            return None, LEADS_OUTSIDE
        for path in (written, resolved.real):
            ground = self._policy.grounds.of(path)
            if ground.private is not None and (resolved.kind != "directory" or not ground.private.files_only):
                return None, ground.private.id
        return (None, NO_FILE) if resolved.kind == "other" else (resolved, "")

    def _bound(
        self,
        rule: PathRule,
        arg: ArgPath,
        need: Need,
        resolved: Resolved,
        within: tuple[tuple[str, str], ...],
    ) -> None:
        kinds: dict[str, BoundKind] = {"file": "file", "directory": "tree"}
        kind: BoundKind = "exact" if arg.tail else kinds.get(resolved.kind, "create")
        siblings = need is Need.WRITE and resolved.kind in ("file", "missing")
        root = min((root for _, root in within if below(resolved.real, root)), key=len)
        self.paths.append(BoundPath(need, resolved.real, kind, rule.id, siblings, root))


def _values(arguments: object, steps: tuple[str, ...]) -> Iterator[object]:
    """Yield the values at `steps`; nothing where a step leads nowhere."""
    if not steps:
        yield arguments
    elif steps[0] == ITEMS:
        if isinstance(arguments, list | tuple):
            for item in arguments:
                yield from _values(item, steps[1:])
    elif isinstance(arguments, Mapping) and steps[0] in arguments:
        yield from _values(arguments[steps[0]], steps[1:])


def _no_text(value: object) -> str:
    """Return why `value` is no text that could name anything."""
    if isinstance(value, str):
        return EMPTY
    return ABSENT if value is None else TOO_LONG if isinstance(value, LongText) else NOT_TEXT


def _no_path(value: str) -> str | None:
    """Return why `value` can name no file, None if it can."""
    path = _local(value)
    return NUL if "\0" in path else TOO_LONG if len(path) > PATH_CHARACTERS else None


def _local(value: str) -> str:
    """Return `value` without a `file://` prefix, then %-decoded.

    Characters that are no UTF-8 (lone surrogates of JSON) stay as they are: they name no file.
    """
    match = _FILE_URL.match(value)
    if match is None:
        return value
    data = value[match.end() :].encode("utf-8", "surrogatepass")
    return _ESCAPED.sub(lambda code: bytes([int(code[1], 16)]), data).decode("utf-8", "surrogateescape")


def _normal(path: str) -> str:
    """Return `path`, absolute, with `.`, `..` and slashes taken as text, as servers do before they open."""
    return "/" + posixpath.normpath(path).lstrip("/")
