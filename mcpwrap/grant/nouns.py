"""The table of everything a grant file may say: grammar, place, meaning, and whether it is held yet.

A noun that is not held in this release is known, so that its line is refused for what it is
instead of as a misspelling; it is never ignored.
"""

from __future__ import annotations

from mcpwrap.grant.noun import Grammar, Noun, Table

_RULES = (Table.SERVER, Table.STARTUP, Table.TOOL)
_RULES_AND_QUIET = (*_RULES, Table.QUIET)

_HELD: tuple[Noun, ...] = (
    Noun(
        "schema",
        Grammar.VERSION,
        (Table.FILE,),
        "The version of this language. May be left out while there is only one.",
        "schema = 1",
    ),
    Noun(
        "server",
        Grammar.TABLE,
        (Table.FILE,),
        "In force always: while the server starts, during calls, and between calls.",
        "[server]",
    ),
    Noun(
        "startup",
        Grammar.TABLE,
        (Table.FILE,),
        "In force until start-up has ended, then gone for good.",
        "[startup]",
    ),
    Noun(
        "policy",
        Grammar.TABLE,
        (Table.FILE,),
        "How calls are held: what `$arg` may reach, what overlapping calls do.",
        "[policy]",
    ),
    Noun(
        "tools",
        Grammar.TABLE,
        (Table.FILE,),
        "One table for each tool, or several tools in one header (`|`, `*`). In force only while a call of "
        'one of them is in flight; the rules of several headers add up. `[tools."*"]` is added to every tool.',
        '[tools."read_*|list_*"]',
    ),
    Noun(
        "command",
        Grammar.WORDS,
        (Table.SERVER,),
        "The command this grant is for: another one is refused (exit 78). Compared word by word from the "
        "beginning; the version of a package is not compared.",
        'command = ["npx", "-y", "@modelcontextprotocol/server-filesystem"]',
    ),
    Noun(
        "profile",
        Grammar.PROFILES,
        (Table.SERVER,),
        "Shipped grants for a runtime, merged table into table.",
        'profile = ["node"]',
    ),
    Noun(
        "env",
        Grammar.NAMES,
        (Table.SERVER,),
        "Names of environment variables that are passed on to the server.",
        'env = ["LOG_LEVEL"]',
    ),
    Noun(
        "set",
        Grammar.VALUES,
        (Table.SERVER,),
        "Values for the server's environment; variables are expanded.",
        'set = { MEMORY_FILE_PATH = "$STATE/memory.jsonl" }',
    ),
    Noun(
        "quiet",
        Grammar.TABLE,
        (Table.SERVER,),
        "Refused and audited, but never told to the model.",
        "[server.quiet]",
    ),
    Noun(
        "fs_read",
        Grammar.PATHS,
        _RULES_AND_QUIET,
        "Files and directories (with everything below) that may be read.",
        'fs_read = ["~/work/shared"]',
    ),
    Noun(
        "fs_write",
        Grammar.PATHS,
        _RULES_AND_QUIET,
        "What may be read and written: create, truncate, append, rename, link, unlink, mkdir, chmod, chown, "
        "utimes and extended attributes, by path and by descriptor.",
        'fs_write = ["~/work/out"]',
    ),
    Noun(
        "fs_deny",
        Grammar.PATHS,
        _RULES,
        "Carve-outs: they win over every grant while their table is in force. No `$arg`.",
        'fs_deny = ["**/.git/**"]',
    ),
    Noun(
        "exec",
        Grammar.EXECS,
        _RULES_AND_QUIET,
        "Programs that may be executed: a name (looked up on PATH when the plan is made), an absolute path, "
        "or an absolute pattern, which matches real files. What a granted program executes must be granted too. "
        "`any-writable` alone lets the server execute what it wrote.",
        'exec = ["git", "/usr/lib/git-core/*"]',
    ),
    Noun(
        "inherit",
        Grammar.BOOLEAN,
        (Table.TOOL,),
        'With `false`, `[tools."*"]` is not added to the tools of this header.',
        "inherit = false",
    ),
    Noun(
        "within",
        Grammar.ROOTS,
        (Table.POLICY,),
        "The directories every `$arg` path must lie in, as written and as finally resolved; a rule's own "
        '`"$arg:path in ~/x"` replaces them.',
        'within = ["~/work"]',
    ),
    Noun(
        "overlap",
        Grammar.CHOICE,
        (Table.POLICY,),
        "Calls at the same time: `auto` (of one tool together, of different tools one after the other), "
        "`serialize` (one at a time; one that waits for the client's answer holds up none), "
        "`union` (all together, with the union of their grants).",
        'overlap = "auto"',
        choices=("auto", "serialize", "union"),
    ),
    Noun(
        "on_denial",
        Grammar.CHOICE,
        (Table.POLICY,),
        "What a call's answer gets when something was refused: `annotate` appends one text block.",
        'on_denial = "annotate"',
        choices=("annotate", "error"),
    ),
)

_LATER: tuple[tuple[str, tuple[Table, ...], str, str], ...] = (
    (
        "resources",
        (Table.FILE,),
        "grants while a resource is read",
        "reading a resource has the grant of [server] only; move what it needs there",
    ),
    (
        "prompts",
        (Table.FILE,),
        "grants while a prompt is fetched",
        "fetching a prompt has the grant of [server] only; move what it needs there",
    ),
    (
        "net",
        _RULES_AND_QUIET,
        "hosts and ports that may be connected to",
        "the server has no network at all; remove the line, or run this server without mcpwrap for now",
    ),
    (
        "listen",
        _RULES,
        "ports the server may be reached at from outside",
        "a server can be reached only from inside its own sandbox, which needs no grant; remove the line",
    ),
    (
        "unix",
        _RULES_AND_QUIET,
        "path sockets that may be connected to",
        "only sockets made inside the sandbox can be connected to, which needs no grant; remove the line",
    ),
    (
        "args",
        (Table.TOOL,),
        "conditions on the arguments of a call",
        "arguments are not checked; remove the line, and do not rely on the check",
    ),
    (
        "pin",
        (Table.TOOL,),
        "the digest a tool's description must have",
        "descriptions are not compared; remove the line, and do not rely on the pin",
    ),
    (
        "nested_sandbox",
        (Table.SERVER,),
        "user namespaces inside the sandbox, for browsers",
        "no namespaces can be made inside; remove the line and start the browser without its own",
    ),
    (
        "install_write",
        (Table.SERVER,),
        "a writable copy of the server's own installation",
        "the server's installation is read-only; remove the line",
    ),
    (
        "unknown_tools",
        (Table.POLICY,),
        "what happens to calls of tools that nobody listed",
        "a tool no header names has the grant of [server] only; remove the line",
    ),
    (
        "window_limit",
        (Table.POLICY,),
        "how long one call keeps its grant",
        "a call keeps its grant until it is answered; remove the line",
    ),
)
"""Known, and not held in this release: name, tables, meaning, what to do instead."""

NOUNS: tuple[Noun, ...] = (
    *_HELD,
    *(Noun(name, Grammar.LATER, tables, meaning, way=way) for name, tables, meaning, way in _LATER),
)

LATER_CHOICES: dict[tuple[str, str], str] = {
    ("on_denial", "error"): 'use "annotate", which appends the refusal to the answer',
}
"""Words of a choice that are known and not held yet, with what to do instead."""

LATER_PROFILES: dict[str, str] = {
    "npx": 'install the package and start it with node and profile = ["node"]',
    "uvx": 'install the package (uv tool install, pipx) and start it with profile = ["python"]',
    "chromium": "browsers cannot be confined yet",
}
"""Profiles that are known and not shipped yet, with what to do instead."""


def nouns_of(table: Table) -> dict[str, Noun]:
    """Return the nouns that may stand in `table`, by name."""
    return {noun.name: noun for noun in NOUNS if table in noun.tables}


def tables_of(name: str) -> tuple[Table, ...]:
    """Return the tables the noun may stand in, empty if there is no such noun."""
    return next((noun.tables for noun in NOUNS if noun.name == name), ())
