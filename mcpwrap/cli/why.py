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
    from mcpwrap.policy.why import Explanation
    from mcpwrap.prepare import Prepared

USAGE = """\
usage: mcpwrap why TOOL --read PATH | --write PATH | --exec PROGRAM [--args JSON]
                   [--grant FILE | --name NAME] [--json] [-- COMMAND [ARGUMENT...]]

Says whether a call of TOOL with the arguments JSON may read, write or execute that, and by which rule:
the same decision the kernel would get while the call is in flight.
Exit status: 0 allowed, 1 refused.
"""
EXIT_REFUSED = 1

_NEEDS = {"--read": Need.READ, "--write": Need.WRITE, "--exec": Need.EXEC}


def run(argv: list[str]) -> int:
    """Answer what `argv` asks; return 0 if it is allowed, 1 if it is refused."""
    before = argv[: argv.index("--")] if "--" in argv else argv
    if "--help" in before or "-h" in before:
        print(USAGE, end="")
        return 0
    parsed = parse(argv, values=(*_NEEDS, "--args"), flags=("--json",))
    asked = [(_NEEDS[name], value) for name, value in parsed.values.items() if name in _NEEDS]
    if len(parsed.words) != 1 or len(asked) != 1:
        raise UsageError("name one tool and one of --read, --write, --exec", USAGE)
    need, target = asked[0]
    arguments = _arguments(parsed.values.get("--args", "{}"))
    prepared = prepare(parsed.options)
    answer = why(
        prepared.policy,
        parsed.words[0],
        need,
        _absolute(need, target, prepared.facts.home, prepared.facts.cwd, prepared.facts.find(target)),
        arguments,
        resolve,
        prepared.facts.identity,
    )
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
