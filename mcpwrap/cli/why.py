"""`mcpwrap why`: would a call of this tool be allowed that, and which rule decides. Starts nothing."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcpwrap.cli.arguments import UsageError, parse
from mcpwrap.grant.offer import additions, first_file, indented
from mcpwrap.grant.render import printable
from mcpwrap.operation import Need
from mcpwrap.policy.why import why
from mcpwrap.prepare import prepare
from mcpwrap.relay.hostview import resolve

if TYPE_CHECKING:
    from mcpwrap.policy.hosts import Peer
    from mcpwrap.policy.why import Explanation
    from mcpwrap.prepare import Prepared

USAGE = """\
usage: mcpwrap why TOOL --read PATH | --write PATH | --exec PROGRAM
                   | --connect HOST[:PORT] | --lookup NAME | --socket PATH [--args JSON]
                   [--grant FILE | --name NAME] [--json] [-- COMMAND [ARGUMENT...]]

Says whether a call of TOOL with the arguments JSON may read, write, execute or reach that, and by which rule:
the same decision the kernel would get while the call is in flight. Without a PORT it is 443; `udp://HOST:PORT`
is a datagram. Nothing is looked up: where a name leads is judged when it is connected to.
Exit status: 0 allowed, 1 refused.
"""
EXIT_REFUSED = 1

_NEEDS = {"--read": Need.READ, "--write": Need.WRITE, "--exec": Need.EXEC}
_OUTWARD = ("--connect", "--lookup", "--socket")


def run(argv: list[str]) -> int:
    """Answer what `argv` asks; return 0 if it is allowed, 1 if it is refused."""
    before = argv[: argv.index("--")] if "--" in argv else argv
    if "--help" in before or "-h" in before:
        print(USAGE, end="")
        return 0
    parsed = parse(argv, values=(*_NEEDS, *_OUTWARD, "--args"), flags=("--json",))
    asked = [(name, value) for name, value in parsed.values.items() if name in _NEEDS or name in _OUTWARD]
    if len(parsed.words) != 1 or len(asked) != 1:
        options = ", ".join((*_NEEDS, *_OUTWARD))
        raise UsageError(f"name one tool and one of {options}", USAGE)
    option, target = asked[0]
    arguments = _arguments(parsed.values.get("--args", "{}"))
    prepared = prepare(parsed.options)
    answer = _answer(prepared, parsed.words[0], option, target, arguments)
    if "--json" in parsed.flags:
        import json

        fields = {"allowed": answer.allowed, "rule": answer.rule, "path": answer.path, "text": answer.text}
        print(json.dumps(fields | {"offer": answer.offer, "place": answer.place}))
    else:
        text = answer.text
        if answer.offer:
            text += "\n" + "\n".join(_way_out(prepared, answer))
        sys.stdout.buffer.write((text.rstrip("\n") + "\n").encode("utf-8", "backslashreplace"))
    for warning in prepared.warnings:
        print(f"mcpwrap: {warning}", file=sys.stderr)
    return 0 if answer.allowed else EXIT_REFUSED


def _answer(
    prepared: Prepared, tool: str, option: str, target: str, arguments: Mapping[str, Any]
) -> Explanation:
    policy, facts = prepared.policy, prepared.facts
    need = _NEEDS.get(option, Need.CONNECT)
    if option in ("--connect", "--lookup"):
        from mcpwrap.policy.whynet import why_connect, why_lookup

        if option == "--lookup":
            return why_lookup(policy, tool, target, arguments, resolve)
        return why_connect(policy, tool, _peer(target), arguments, resolve)
    path = _absolute(need, target, facts.home, facts.cwd, facts.find(target))
    if option == "--socket":
        from mcpwrap.policy.whynet import why_socket

        return why_socket(policy, tool, path, arguments, resolve)
    return why(policy, tool, need, path, arguments, resolve, facts.identity)


def _peer(text: str) -> Peer:
    from mcpwrap.policy.hosts import peer_of

    named = text.removeprefix("udp://")
    if "://" in named:
        raise UsageError(f"{text!a} is a URL", "name the host alone: --connect HOST[:PORT]")
    bare = named.endswith("]") if named.startswith("[") else ":" not in named
    peer = peer_of(f"{text}:443" if bare else text)
    if peer is None or (peer.protocol == "udp" and bare):
        raise UsageError(
            f"{text!a} is no host and port", "--connect api.example.com:443, --connect udp://HOST:PORT"
        )
    return peer


def _way_out(prepared: Prepared, answer: Explanation) -> list[str]:
    path = printable(prepared.grant_path)
    if not prepared.grant_file:
        whole = first_file(prepared.keeps, [answer.offer])
        return [f"To allow it write {path}, the first grant of this server:", *indented(whole)]
    lines = []
    for place, text in additions([(answer.offer, answer.place)]):
        lines += [f"To allow it add to {f'{place} of ' if place else ''}{path}:", *indented(text)]
    return lines


def _arguments(text: str) -> Mapping[str, Any]:
    import json

    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"--args is no JSON: {problem}", """--args '{"path": "/x"}'""") from None
    if not isinstance(arguments, dict):
        raise UsageError("--args must be a JSON object", """--args '{"path": "/x"}'""")
    return arguments


def _absolute(need: Need, target: str, home: str, cwd: str, program: str | None) -> str:
    if not target or "\0" in target:
        raise UsageError(f"{target!a} is no path")
    if need is Need.EXEC and "/" not in target:
        if program is None:
            raise UsageError(f"there is no program {target!a} on PATH", "name its path")
        return program
    if target == "~" or target.startswith("~/"):
        target = home + target[1:]
    return os.path.normpath(os.path.join(cwd, target))
