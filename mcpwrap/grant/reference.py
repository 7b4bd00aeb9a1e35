"""docs/grants.md, made from the table of nouns: `python -m mcpwrap.grant.reference > docs/grants.md`."""

from __future__ import annotations

from mcpwrap.grant.block import MAX_RULES
from mcpwrap.grant.document import PROFILES
from mcpwrap.grant.noun import Grammar, Noun, Table
from mcpwrap.grant.nouns import NOUNS
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

Without a grant file a server gets its runtime's profile, and the paths its own command line names, read-only. With one
it gets the profiles the file names, and always that of a launcher (`npx`, `uvx`, …) its command begins with.
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

## Hosts

| rule in `net` | grants |
|---|---|
| `"api.example.com"` | that name on port 443 |
| `"api.example.com:8443"`, `"api.example.com:*"` | another port, every port |
| `"*.example.org"` | every name below, not `example.org` itself; public addresses only |
| `"localhost:5432"`, `"127.0.0.1:5432"`, `"[::1]:5432"` | a service of this machine; all three are one host |
| `"192.0.2.1"`, `"10.0.0.0/8:5432"`, `"[2001:db8::1]"`, `"[fd00::/8]:22"` | an address, a network |
| `"udp://ntp.example.org:123"` | by UDP; all others are by TCP |
| `"any"` | every public address, every TCP port |
| `"$arg:url"` | the host of the URL in this argument of the call, on 443, 80 and its port; with and without `www.` |
| `"$arg:url in *.wikipedia.org, example.org"` | that, if it is one of these |

- A name is resolved outside, and the address that was checked is the one that is dialed. A name that is listed may be
  on a private network; one that `*.`, `any` or an argument lets through may not. Loopback, link-local addresses and
  cloud metadata are reached by a rule of that address only, and by no network that is wider than such places are;
  wrapped in IPv6 (`::ffff:`, NAT64, 6to4, Teredo) they stay what they are.
- An argument names a host only if all readers of URLs read the same one: not with a user name before it (`https://a@b/`),
  a backslash, a blank, a percent sign or an odd port, and never this machine or an address that is not public.
- A literal address is reached by a rule of an address or network (or `any`), never by that of a name.
- Names are compared without case and without the dot of the root, other scripts as A-labels (`xn--…`). Spellings of
  addresses that programs read in different ways (`0x7f.1`, `127.1`, `::ffff:10.0.0.1`) are refused.
- On port 443 the name in the TLS handshake must be that of the host, see `sni`.
- A redirect to another host needs a line of its own.

## Sockets and ports

- `unix` names the path of one socket: absolute, or with variables (`"$SSH_AUTH_SOCK"`); no patterns, no `$arg`. A
  socket of Docker, an agent, D-Bus or a display is all its owner may do: `mcpwrap check` says so.
- `listen = ["8080"]` lets programs of this machine reach the server at 127.0.0.1:8080, `"any:8080"` everybody who
  reaches this machine. Inside the sandbox the server may listen as it likes.

## Arguments

`args.NAME = {{ … }}` holds conditions on the argument NAME, which may be dotted (`args.opts.limit`) or, quoted, go
through items (`args."paths[]"`, `args."items[].name"`: every item must meet them).

| condition | the value |
|---|---|
| `pattern = '…'` | is a string that matches as a whole, in the syntax of RE2: no look-around, no back-references |
| `enum = […]` | is one of these |
| `type = "…"` | is a string, integer, number, boolean, array, object or null |
| `min`, `max` | is a number in these bounds |
| `max_length` | has at most so many characters, items or names |
| `required = true` | is there, and not null |
| `forbid = true` | is not there |

- An argument that is absent passes, unless it is required. `args."*"` is for all names no other rule of the table
  has: `args."*" = {{ forbid = true }}` lets no other pass.
- A name that differs from one with conditions by case alone, or behind a NUL, is refused: some servers take one for
  the other. So are `__proto__` beside such a name, arguments that are no object, and strings longer than 64 KiB where a
  pattern or list would have to read them.
- If several headers match a tool, the conditions of the most exact one hold, and no others.
- Patterns need the Python module `re2` (PyPI: `google-re2`), which comes with mcpwrap; nothing else does.

## Tools as the server lists them

Each tool is known by a digest of what the server says of it: `name`, `title`, `description`, `inputSchema`,
`outputSchema`, `annotations`. `mcpwrap audit` prints the digests; `pin` holds a tool to one across runs.

- A tool whose digest is not its pin, or not what the same run listed before (in another list, on another page, twice
  in one), is **held** until the server is started again: it is shown as "held by mcpwrap: changed", and calls of it are
  refused with both digests and what changed. The order of keys and of tools is no change, nor is a restart without
  a pin.
- A call of a tool that this run has not listed and that no header but `*` names is refused. If the client calls first,
  mcpwrap asks for the list itself, once, and the call waits up to 2 s for it; so it does for a tool with a pin.
- A list that can be read in two ways (a key twice, or in another case or spelling, as `input_schema`), or is longer
  than 4 MiB, is withheld and makes nothing known.
- The digest is SHA-256 of UTF-8 JSON without white space: names of an object sorted by code point, arrays in their
  order, strings escaped as in RFC 8785, numbers by value (`1.0` is `1`); a member that is absent is left out.

## Limits

A file has at most {MAX_BYTES // 1024} KiB and {MAX_RULES:,} rules.
"""


def reference() -> str:
    """Return the text of docs/grants.md."""
    parts = [_INTRODUCTION, "## Tables\n", _table_list(), "## Nouns\n", *(_noun(noun) for noun in _nouns())]
    parts += [_LANGUAGE, _profiles()]
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


if __name__ == "__main__":
    print(reference(), end="")
