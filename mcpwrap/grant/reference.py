"""docs/grants.md, made from the table of nouns: `python -m mcpwrap.grant.reference > docs/grants.md`."""

from __future__ import annotations

from mcpwrap.grant.block import MAX_RULES
from mcpwrap.grant.document import PROFILES
from mcpwrap.grant.noun import Grammar, Noun, Table
from mcpwrap.grant.nouns import LATER_PROFILES, NOUNS
from mcpwrap.grant.source import MAX_BYTES

_INTRODUCTION = """\
# The grant file

<!-- Made from mcpwrap/grant/nouns.py by `python -m mcpwrap.grant.reference`; a test compares them. -->

One TOML file for each server says what its tools may do, and when. Nothing is granted that no line grants;
every line adds. A file that is wrong is not used: unknown keys, rules that can never apply, empty variables
and contradictions are errors with file, line and column (exit status 78). `mcpwrap check FILE` shows them.

It is looked for at `$XDG_CONFIG_HOME/mcpwrap/grants/NAME.toml` (`~/.config` by default), where NAME is the
server's registry name (`npm/@modelcontextprotocol/server-filesystem`, `pypi/mcp-server-git`), or given by
`--grant FILE`. It is never taken from the working directory. A file that others, or a server, could write is
refused.

```toml
[server]                              # always: start-up, calls, and between calls
profile = ["python", "git"]
fs_read = ["~/work/shared"]

[policy]
within = ["~/work"]                   # where the paths in arguments must lie

[tools."git_status|git_diff*"]        # only while a call of one of these is in flight
fs_read = ["$arg:repo_path"]          # what this call's own argument names

[tools.git_commit]
fs_write = ["$arg:repo_path"]
fs_deny = ["**/.git/hooks/**"]        # a carve-out
```

Without a grant file a server gets its runtime's profile, and the paths its own command line names, read-only.
"""

_LANGUAGE = f"""\
## Paths

- A path is absolute or begins with `~` or a variable. `..` is not allowed. A file grants that file, a directory
  all below it.
- Variables: `~` and `$HOME` (your home), `$CWD` (the server's working directory), `$STATE`, `$CACHE` (this
  server's own directories), `$TMP`, and any name of mcpwrap's own environment. An unset or empty variable is an
  error, and so is one that is `/`. `$$` is a `$`.
- `/`, your home directory itself and what holds it cannot be granted: the server has a home of its own,
  which keeps its dotfiles and nothing else.
  `/tmp` (`$TMP`), `/dev/shm` and `$STATE` are the server's own too, always writable, and need no line.
- Patterns: `*` is any run of characters in a name, `?` one character, `**` (alone between slashes) any
  directories, or none. What matches stands for itself and all below. `[` has no meaning. A pattern that grants
  begins with a directory; in `fs_deny` and `[server.quiet]` it may begin with `**/`.
- `$arg:NAME`, `$arg:a.b`, `$arg:items[]` in a `[tools.…]` table: the path that argument of this call names.
  `"$arg:path in ~/x"` limits one rule, `within` in `[policy]` all others; without a limit it is an error.
  `"$arg:repo_path/.git/config"` names exactly one file below the argument. The directories above what an
  argument names, up to the limit, may be listed: names, no content.
- A file that may be written may be replaced, too: by way of a new file beside it whose name is its own and one
  of `. ~ - _ #` and anything (`notes.txt.tmp`, `.notes.txt.swp`).
- Keys and secrets (`~/.ssh`, `.env`, browser profiles, …) are readable, and client configurations, `.git/hooks`
  and shell start-up files writable, only if a line names exactly them.

## Tool headers

`[tools."read_*|list_files"]`: names separated by `|`; `*` is any run of characters. A name with a dot or a star
is quoted. The rules of all headers that match a tool add up.

## Programs

A bare name is looked up on PATH when the server is started, an absolute path names itself, an absolute pattern
(`"/usr/lib/git-core/*"`) matches real files. A granted script may run its own `#!` interpreter; other programs
it runs need lines of their own. Nothing in a directory the server can write is ever executed, unless
`exec = ["any-writable"]`.

## Limits

A file has at most {MAX_BYTES // 1024} KiB and {MAX_RULES:,} rules.
"""


def reference() -> str:
    """Return the text of docs/grants.md."""
    parts = [_INTRODUCTION, "## Tables\n", _table_list(), "## Nouns\n", *(_noun(noun) for noun in _nouns())]
    parts += [_LANGUAGE, _profiles(), _later()]
    return "\n".join(parts)


def _nouns() -> list[Noun]:
    return [noun for noun in NOUNS if noun.grammar is not Grammar.TABLE]


def _table_list() -> str:
    tables = [noun for noun in NOUNS if noun.grammar is Grammar.TABLE]
    return "".join(f"- `{noun.example}` {noun.help}\n" for noun in tables)


def _noun(noun: Noun) -> str:
    tables = ", ".join(table.value for table in noun.tables)
    where = "at the top" if noun.tables == (Table.FILE,) else f"in {tables}"
    return (
        f"### `{noun.name}`\n\n{where}: {noun.grammar.value}. {noun.help}\n\n```toml\n{noun.example}\n```\n"
    )


def _profiles() -> str:
    named = ", ".join(f"`{name}`" for name in PROFILES)
    return (
        f"## Profiles\n\nShipped: {named}; `base` is in every grant. They are grant files themselves, in "
        "`mcpwrap/profiles/`,\nwith the reason beside each line. In a profile, a program that is not installed grants "
        "nothing.\nProfile `git` makes `~/.gitconfig` readable, and the files it includes.\n"
    )


def _later() -> str:
    lines = ["## Not in this release\n", "These are known and refused, never ignored:\n"]
    lines += [f'- `profile = ["{name}"]`: {way}.' for name, way in LATER_PROFILES.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reference(), end="")
