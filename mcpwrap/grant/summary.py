"""What a grant says, one line for each phase and tool."""

from __future__ import annotations

from mcpwrap.grant.grant import EVERY_TOOL, Block, Grant
from mcpwrap.grant.render import printable

_VERBS = {"fs_read": "reads", "fs_write": "reads and writes", "fs_deny": "never"}


def summary(grant: Grant) -> tuple[str, ...]:
    """Return the lines `mcpwrap check` prints for a grant file that is right.

    Rules of profiles are not in it: their names say what they are.
    """
    blocks = _own_blocks(grant)
    rules = sum(len(block.paths) + len(block.execs) for _, block in blocks)
    tools = sum(len(tool.patterns) for tool in grant.tools if tool.patterns != (EVERY_TOOL,))
    profiles = ", ".join(grant.profiles)
    rows = [(title, _line(block)) for title, block in blocks]
    if grant.within:
        rows.insert(0, ("$arg", "within " + " or ".join(printable(root) for root in grant.within)))
    width = max((len(title) for title, _ in rows), default=0)
    head = f"ok: {_counted(rules, 'rule')} for {_counted(tools, 'tool')} (profiles: {profiles})"
    return (head, *(f"  {title:{width}}  {text}" for title, text in rows))


def _own_blocks(grant: Grant) -> list[tuple[str, Block]]:
    phases = (("always", grant.server), ("start-up", grant.startup), ("quietly refused", grant.quiet))
    out = [(title, own) for title, block in phases if (own := _own(block)) != Block()]
    for tool in grant.tools:
        title = "every tool" if tool.patterns == (EVERY_TOOL,) else printable(tool.header, 60)
        out.append((title, tool.block))
    return out


def _own(block: Block) -> Block:
    return Block(
        tuple(rule for rule in block.paths if not rule.id.startswith("profile ")),
        tuple(rule for rule in block.execs if not rule.id.startswith("profile ")),
    )


def _line(block: Block) -> str:
    parts = []
    for noun, verb in _VERBS.items():
        texts = [printable(rule.text) for rule in block.paths if rule.noun == noun]
        parts += [f"{verb} {', '.join(texts)}"] if texts else []
    programs = [printable(rule.text) for rule in block.execs]
    parts += [f"runs {', '.join(programs)}"] if programs else []
    return "; ".join(parts) or "nothing of its own"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
