"""Rules in plain words, for `check` and `show`: what a line means, to somebody who did not write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.grant.grant import ANY_PORT, ANY_WRITABLE
from mcpwrap.grant.render import printable, toml_string

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.grant.grant import ArgRule, Block, Grant, HostRule, ListenRule

_UNITS = ((3_600, "h"), (60, "m"), (1, "s"))


def host_words(rule: HostRule) -> tuple[str, str]:
    """Return what a `net` rule grants, and a note."""
    if rule.kind == "any":
        return "every public address", "every TCP port; no private network, and not this machine"
    if rule.arg is not None:
        limits = f", if it is {' or '.join(rule.arg.within)}" if rule.arg.within else "; no private network"
        named = printable(rule.text.partition(" in ")[0])
        return f"the host of {named}{limits}", "on 443, 80 and the port it names"
    host = {"localhost": "localhost", "suffix": f"*{rule.host}"}.get(rule.kind) or _bracketed(rule.host)
    ports = " on every port" if rule.ports == ANY_PORT else f":{rule.ports[0]}"
    notes = {"localhost": "a service of this machine", "suffix": "every name below, public addresses only"}
    return host + ports + (" by UDP" if rule.protocol == "udp" else ""), notes.get(rule.kind, "")


def _bracketed(host: str) -> str:
    address = host.removesuffix("/32") if ":" not in host else host.removesuffix("/128")
    return f"[{address}]" if ":" in host else address


def listen_words(rule: ListenRule) -> tuple[str, str]:
    """Return what a `listen` rule opens, and to whom."""
    return f"port {rule.port}", "from every address" if rule.everywhere else "from this machine only"


def condition_words(rule: ArgRule) -> tuple[str, str]:
    """Return the argument a condition is of, and what it must be."""
    name = ".".join(rule.steps).replace(".[]", "[]")
    parts = [
        "must be given" if rule.required else "",
        "must not be given" if rule.forbid else "",
        f"of type {rule.type}" if rule.type else "",
        f"one of {', '.join(map(_value, rule.enum))}" if rule.enum is not None else "",
        f"matches {rule.pattern} as a whole" if rule.pattern is not None else "",
        f"at least {rule.min}" if rule.min is not None else "",
        f"at most {rule.max}" if rule.max is not None else "",
        f"not longer than {rule.max_length}" if rule.max_length is not None else "",
    ]
    shown = "every other argument" if rule.steps == ("*",) else f"argument {name}"
    return printable(shown), printable(", ".join(part for part in parts if part))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return toml_string(value) if isinstance(value, str) else str(value)


def duration_text(seconds: float) -> str:
    """Return a duration as `window_limit` writes it, in the largest unit that divides it."""
    whole = int(seconds)
    size, unit = next(pair for pair in _UNITS if whole % pair[0] == 0)
    return f"{whole // size}{unit}"


def wider(grant: Grant) -> Iterator[tuple[str, str, str]]:
    """Yield (what, rule id, why to look at it twice) of all a grant gives up that is held by default."""
    if grant.nested_sandbox:
        yield "user namespaces inside", "server.nested_sandbox", "more of the kernel can be reached"
    if grant.install_write:
        yield (
            "its own installation",
            "server.install_write",
            "a copy for one run, which the server may change",
        )
    if grant.unknown_tools == "allow":
        yield "tools nobody listed", "policy.unknown_tools", "may be called, with the grant of [server]"
    if grant.sni == "any":
        yield "names in TLS", "policy.sni", "may be another than that of the host: one address serves many"
    for block in grant.blocks:
        yield from _wider_rules(block)


def _wider_rules(block: Block) -> Iterator[tuple[str, str, str]]:
    for host in block.hosts:
        if host.kind == "any":
            yield "every public address", host.id, "data can be sent anywhere"
        if host.kind == "suffix" and "." not in host.host[1:]:
            yield f"*{host.host}", host.id, "whoever likes can have a name there, and receive data by it"
    for listen in block.listens:
        if listen.everywhere:
            yield f"port {listen.port}", listen.id, "can be reached from every address of this machine"
    for program in block.execs:
        if program.program == ANY_WRITABLE:
            yield "what it writes", program.id, "can be executed: there is no exec gate"
