"""The table of everything a grant file may say: grammar, place, meaning, and an example."""

from __future__ import annotations

from mcpwrap.grant.noun import Grammar, Noun, Table

_RULES = (Table.SERVER, Table.STARTUP, Table.TOOL, Table.RESOURCES, Table.PROMPTS)
_RULES_AND_QUIET = (*_RULES, Table.QUIET)

NOUNS: tuple[Noun, ...] = (
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
        "resources",
        Grammar.TABLE,
        (Table.FILE,),
        "In force only while the client lists, reads or subscribes to resources, or completes the URI of one.",
        "[resources]",
    ),
    Noun(
        "prompts",
        Grammar.TABLE,
        (Table.FILE,),
        "In force only while the client lists or fetches prompts, or completes an argument of one.",
        "[prompts]",
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
        "Names of environment variables that are passed on to the server. What the client added (its own `env`, or "
        "what it set while it ran) is passed unasked.",
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
        "nested_sandbox",
        Grammar.BOOLEAN,
        (Table.SERVER,),
        "With `true`, the server may make user namespaces, as a browser's own sandbox does: more of the kernel can be "
        "reached.",
        "nested_sandbox = true",
    ),
    Noun(
        "install_write",
        Grammar.CHOICE,
        (Table.SERVER,),
        "With `copy`, the server sees a copy of its own installation that it may write, kept until the original "
        "changes. Native files in it stay the original. What one call writes there, later ones may run.",
        'install_write = "copy"',
        choices=("copy",),
    ),
    Noun(
        "quiet",
        Grammar.TABLE,
        (Table.SERVER,),
        "Refused and audited, but never told to the model. A program is then absent instead of forbidden (ENOENT): "
        "many servers look for one they can do without.",
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
        "net",
        Grammar.HOSTS,
        _RULES_AND_QUIET,
        "Hosts and ports that may be connected to, by TCP or, with `udp://`, by UDP: a name, all names below one "
        "(`*.`), an address or network, `localhost`, `any` (every public address), or the host of an argument. "
        "Without a port it is 443. What is granted may also be looked up; other names do not exist.",
        'net = ["api.example.com", "*.example.org:8443", "10.0.0.0/8:5432", "udp://ntp.example.org:123"]',
    ),
    Noun(
        "unix",
        Grammar.SOCKETS,
        _RULES_AND_QUIET,
        "Sockets of this machine that may be connected to, each named exactly; those of agents, Docker, D-Bus and "
        "displays too. What the server makes itself needs no rule.",
        'unix = ["/run/postgresql/.s.PGSQL.5432"]',
    ),
    Noun(
        "listen",
        Grammar.PORTS,
        _RULES,
        "TCP ports the server may be reached at from outside of its sandbox: from this machine (`localhost:`, or the "
        "port alone), or from everywhere (`any:`).",
        'listen = ["localhost:8080"]',
    ),
    Noun(
        "args",
        Grammar.CONDITIONS,
        (Table.TOOL,),
        "Conditions on the arguments of a call, for harm that no system call shows; a call that fails one is answered "
        "with the rule and never reaches the server. The most exact header that has any is asked, and no other.",
        "args.sql = { pattern = '(?i)\\s*select\\b[^;]*', max_length = 4096 }",
    ),
    Noun(
        "pin",
        Grammar.DIGEST,
        (Table.TOOL,),
        "The digest of the tool's name, title, description, schemas and annotations: a tool that has changed is "
        "refused. The header names one tool.",
        f'pin = "sha256:{"0123456789abcdef" * 4}"',
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
        "What a call's answer gets when something was refused: `annotate` appends one text block, `error` "
        "puts it in the place of the result or error. What the server says meanwhile (progress, log, the status of a "
        "task that works) passes.",
        'on_denial = "annotate"',
        choices=("annotate", "error"),
    ),
    Noun(
        "unknown_tools",
        Grammar.CHOICE,
        (Table.POLICY,),
        "Calls of a tool the server did not list in this run and no header but `*` names: `refuse` them, or `allow` "
        'what [server] and [tools."*"] do.',
        'unknown_tools = "refuse"',
        choices=("refuse", "allow"),
    ),
    Noun(
        "window_limit",
        Grammar.DURATION,
        (Table.POLICY,),
        "How long one call keeps its grant: after that the call goes on without, and the audit says so.",
        'window_limit = "10m"',
    ),
    Noun(
        "sni",
        Grammar.CHOICE,
        (Table.POLICY,),
        "The name a client asks for in TLS on port 443: it must be that of the host (`match`), or may be another or "
        "none (`any`).",
        'sni = "match"',
        choices=("match", "any"),
    ),
)


def nouns_of(table: Table) -> dict[str, Noun]:
    """Return the nouns that may stand in `table`, by name."""
    return {noun.name: noun for noun in NOUNS if table in noun.tables}


def tables_of(name: str) -> tuple[Table, ...]:
    """Return the tables the noun may stand in, empty if there is no such noun."""
    return next((noun.tables for noun in NOUNS if noun.name == name), ())
