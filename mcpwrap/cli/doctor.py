"""`mcpwrap doctor`: which protections this machine allows, and what to do about the others."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from mcpwrap.cli.arguments import UsageError
from mcpwrap.errors import EXIT_CANNOT_CONFINE, CannotConfine
from mcpwrap.sandbox import identity
from mcpwrap.sandbox.probe import Report, probe

USAGE = """usage: mcpwrap doctor [--json]

Tries every layer of protection on this machine, in processes that are thrown away, and prints
which are active, degraded or unavailable, with the reason and the fix, and at which tier a server
would be held: B, C (no namespaces), B- (no broker: all calls share all grants; must be allowed), or none.
Exit status: 0 if servers can be confined here, 126 if not.
"""


def run(argv: list[str]) -> int:
    """Print the report; return 0 if enforcement is possible here, else 126."""
    if argv in (["--help"], ["-h"]):
        print(USAGE, end="")
        return 0
    if argv not in ([], ["--json"]):
        raise UsageError("`mcpwrap doctor` takes --json or nothing", USAGE)
    try:
        identity.settle(os.environ)
    except CannotConfine as refused:
        # The layers can be tried all the same; a run from here is refused.
        print(refused.diagnostics(), file=sys.stderr)
    report = probe()
    if argv:
        print(json.dumps(asdict(report), indent=2))
    else:
        print("\n".join(render(report)))
    return 0 if report.tier else EXIT_CANNOT_CONFINE


def render(report: Report) -> list[str]:
    """Return the report as lines for people."""
    lines = [f"{report.line} (Linux {report.kernel}, {report.machine})", ""]
    for each in report.protections:
        lines.append(f"  {each.state:<11}  {each.name:<12}  {each.holds}")
        if each.reason:
            lines.append(f"{'':29}{each.reason}")
        lines += [f"{'':29}fix: {line}" for line in each.fix.splitlines()]
    if report.weaker:
        lines += ["", f"  weaker at tier {report.tier} than at tier B:"]
        lines += [f"    - {each}" for each in report.weaker]
    return lines
