"""`mcpwrap show`: what a server would be held to, phase by phase and tool by tool. Starts nothing."""

from __future__ import annotations

import sys
from textwrap import wrap
from typing import TYPE_CHECKING

from mcpwrap.audit.redact import mask_command
from mcpwrap.cli.arguments import parse
from mcpwrap.grant.render import printable
from mcpwrap.grant.words import duration_text
from mcpwrap.policy.describe import Section, describe
from mcpwrap.prepare import prepare

if TYPE_CHECKING:
    from mcpwrap.prepare import Prepared

USAGE = """\
usage: mcpwrap show [TOOL...] [--grant FILE | --name NAME] [--json | --plan] [-- COMMAND [ARGUMENT...]]

Prints the effective grant: what may be read, written, run and reached in each phase, by which rule, what is
checked of a call, what is private, and what is wider than it has to be. With TOOL, what holds while exactly
that tool is called.
  --json   the same for programs
  --plan   every mount and kernel rule instead, in the order they are made
"""


def run(argv: list[str]) -> int:
    """Print what `argv` asks for; return 0."""
    before = argv[: argv.index("--")] if "--" in argv else argv
    if "--help" in before or "-h" in before:
        print(USAGE, end="")
        return 0
    parsed = parse(argv, flags=("--json", "--plan"))
    prepared = prepare(parsed.options)
    sections = describe(prepared.policy, parsed.words)
    if "--plan" in parsed.flags:
        lines = _plan(prepared)
    elif "--json" in parsed.flags:
        lines = [_json(prepared, sections)]
    else:
        lines = _text(prepared, sections)
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
    for warning in prepared.warnings:
        print(f"mcpwrap: {warning}", file=sys.stderr)
    return 0


def _text(prepared: Prepared, sections: tuple[Section, ...]) -> list[str]:
    command = " ".join(map(printable, mask_command(prepared.command)))
    grant = prepared.grant_file or f"none; looked for {prepared.grant_path}"
    lines = [f"server   {prepared.name}", f"command  {command}", f"grant    {printable(grant)}"]
    if prepared.grant.profiles:
        lines.append(f"profiles {', '.join(prepared.grant.profiles)}")
    lines.append(f"overlap  {prepared.policy.overlap}")
    lines.append(f"calls    {_calls(prepared)}")
    if prepared.withheld:
        withheld = f"withheld {', '.join(map(printable, prepared.withheld))}  (--env NAME passes one)"
        lines += wrap(withheld, 110, subsequent_indent=" " * 9)
    for section in sections:
        lines += ["", printable(section.title)]
        width = min(60, max(len(printable(row.what)) for row in section.rows))
        system = [printable(row.what) for row in section.rows if row.rule == "system"]
        if system:
            lines += wrap(f"  read   system: {', '.join(system)}", 110, subsequent_indent=" " * 9)
        for row in section.rows:
            if row.rule == "system":
                continue
            note = f"  ({printable(row.note)})" if row.note else ""
            lines.append(f"  {row.verb:5}  {printable(row.what):{width}}  {row.rule}{note}")
    return lines


def _calls(prepared: Prepared) -> str:
    """Return what `[policy]` says of every call, in words."""
    grant = prepared.grant
    unknown = "refused" if grant.unknown_tools == "refuse" else "allowed"
    told = "told after its answer" if grant.on_denial == "annotate" else "told, and its answer an error"
    limit = duration_text(grant.window_limit)
    return (
        f"keep their grant for {limit}; those of unknown tools are {unknown}; what one is refused is {told}"
    )


def _json(prepared: Prepared, sections: tuple[Section, ...]) -> str:
    import json

    shown = {
        "name": prepared.name,
        "command": list(mask_command(prepared.command)),
        "grant": prepared.grant_file or None,
        "looked_for": prepared.grant_path,
        "digest": prepared.grant.digest,
        "profiles": list(prepared.grant.profiles),
        "overlap": prepared.policy.overlap,
        "on_denial": prepared.grant.on_denial,
        "unknown_tools": prepared.grant.unknown_tools,
        "window_limit": prepared.grant.window_limit,
        "sni": prepared.grant.sni,
        "sections": [
            {
                "kind": section.kind,
                "title": section.title,
                "rules": [
                    {"verb": row.verb, "what": row.what, "rule": row.rule, "note": row.note}
                    for row in section.rows
                ],
            }
            for section in sections
        ],
        "withheld": list(prepared.withheld),
        "warnings": list(prepared.warnings),
    }
    return json.dumps(shown, indent=2)


def _plan(prepared: Prepared) -> list[str]:
    from mcpwrap.sandbox.plan import Wanted, describe, plan

    made = plan(
        prepared.policy.floor,
        prepared.facts,
        Wanted(
            prepared.installation.program,
            apart=prepared.apart,
            replicas=prepared.replicas,
            sockets=tuple(rule.path for rule in prepared.policy.sockets),
        ),
    )
    return [printable(line, 4096) for line in describe(made)]
