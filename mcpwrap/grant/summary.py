"""What a grant says, one line for each phase and tool."""

from __future__ import annotations

from mcpwrap.grant.grant import EVERY_TOOL, WINDOW_LIMIT, Block, Grant
from mcpwrap.grant.render import printable
from mcpwrap.grant.words import condition_words, duration_text, host_words, listen_words, wider

_VERBS = {"fs_read": "reads", "fs_write": "reads and writes", "fs_deny": "never"}
_PROFILE = "profile "
"""How the ids of a profile's rules begin."""


def summary(grant: Grant) -> tuple[str, ...]:
    """Return the lines `mcpwrap check` prints for a grant file that is right.

    Rules of profiles are not in it, but for what they widen: their names say what they are.
    """
    blocks = _own_blocks(grant)
    rules = sum(len(rules) for _, block, _ in blocks for rules in block) + sum(
        len(tool.args) for tool in grant.tools
    )
    tools = sum(len(tool.patterns) for tool in grant.tools if tool.patterns != (EVERY_TOOL,))
    profiles = ", ".join(grant.profiles)
    rows = [
        (title, "; ".join([*_parts(block), *more]) or "nothing of its own") for title, block, more in blocks
    ]
    if grant.within:
        rows.insert(0, ("$arg", "within " + " or ".join(printable(root) for root in grant.within)))
    if grant.window_limit != WINDOW_LIMIT:
        rows.append(("one call", f"keeps its grant for {duration_text(grant.window_limit)}"))
    if grant.on_denial == "error":
        rows.append(("a refusal", "makes the answer of its call an error"))
    rows += [("look twice", f"{what}: {why} ({rule})") for what, rule, why in wider(grant)]
    width = max((len(title) for title, _ in rows), default=0)
    head = f"ok: {_counted(rules, 'rule')} for {_counted(tools, 'tool')} (profiles: {profiles})"
    return (head, *(f"  {title:{width}}  {text}" for title, text in rows))


def _own_blocks(grant: Grant) -> list[tuple[str, Block, list[str]]]:
    """Return (title, rules, what else is said of it) of each table the file itself has."""
    phases = (
        ("always", grant.server),
        ("start-up", grant.startup),
        ("quietly refused", grant.quiet),
        ("resources", grant.resources),
        ("prompts", grant.prompts),
    )
    out: list[tuple[str, Block, list[str]]] = []
    out += [(title, own, []) for title, block in phases if (own := _own(block)) != Block()]
    for tool in grant.tools:
        title = "every tool" if tool.patterns == (EVERY_TOOL,) else printable(tool.header, 60)
        more = [" ".join(condition_words(rule)) for rule in tool.args] + (["pinned"] if tool.pin else [])
        out.append((title, tool.block, more))
    return out


def _own(block: Block) -> Block:
    return Block(
        tuple(rule for rule in block.paths if not rule.id.startswith(_PROFILE)),
        tuple(rule for rule in block.execs if not rule.id.startswith(_PROFILE)),
        tuple(rule for rule in block.hosts if not rule.id.startswith(_PROFILE)),
        tuple(rule for rule in block.sockets if not rule.id.startswith(_PROFILE)),
        tuple(rule for rule in block.listens if not rule.id.startswith(_PROFILE)),
    )


def _parts(block: Block) -> list[str]:
    texts = {
        verb: [printable(rule.text) for rule in block.paths if rule.noun == noun]
        for noun, verb in _VERBS.items()
    }
    texts["runs"] = [printable(rule.text) for rule in block.execs]
    texts["connects to"] = [host_words(rule)[0] for rule in block.hosts]
    texts["connects to"] += [printable(rule.path) for rule in block.sockets]
    texts["is reached at"] = [" ".join(listen_words(rule)) for rule in block.listens]
    return [f"{verb} {', '.join(found)}" for verb, found in texts.items() if found]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
