"""A grant file as parsed: what may be done, by which tools, in which phase.

Every path is absolute and normalized, every rule knows its id and the place it was written at.
Nothing here was looked up on disk: `policy.compile` resolves names to objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Overlap = Literal["auto", "serialize", "union"]
OnDenial = Literal["annotate", "error"]
UnknownTools = Literal["refuse", "allow"]
ServerNames = Literal["match", "any"]
InstallWrite = Literal["", "copy"]

HostKind = Literal["name", "suffix", "network", "localhost", "any", "arg"]
Transport = Literal["tcp", "udp"]

ANY_PORT = (0, 65_535)
"""The ports of `host:*` and of `any`."""

WINDOW_LIMIT = 600.0
"""Seconds a call keeps its grant if the file says nothing: ten minutes outlast any client that was tried."""

ANY_WRITABLE = "any-writable"
"""The `exec` rule that gives up the exec gate: what the server wrote may be executed."""

NEVER_PASSED = ("LD_", "MCPWRAP_")
"""How the names of variables begin that no server is given: what the dynamic loader obeys, and mcpwrap's own."""

EVERY_TOOL = "*"
"""The pattern of the header whose block is added to every tool that inherits."""


class Where(NamedTuple):
    """A place in a file; line and column count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class ArgPath(NamedTuple):
    """A path taken from the arguments of the call.

    `steps`: the way to the value, `"[]"` for each item of an array: `$arg:a.b` is `("a", "b")`,
    `$arg:items[]` is `("items", "[]")`. `tail`: literal rest that is appended to the value, empty
    or beginning with `/`. `within`: absolute roots, at least one; the rule's own `in` roots,
    else those of `[policy]`.
    """

    steps: tuple[str, ...]
    tail: str
    within: tuple[str, ...]


class PathRule(NamedTuple):
    """One entry of `fs_read`, `fs_write` or `fs_deny`: exactly one of `path`, `glob`, `arg`.

    `path`: absolute, normalized, no trailing slash. `glob`: absolute, or beginning with `**/`
    (anywhere); its grammar and its regular expression are in `grant.pattern`.
    """

    noun: str
    id: str
    text: str
    where: Where
    path: str | None
    glob: str | None
    arg: ArgPath | None


class ExecRule(NamedTuple):
    """One entry of `exec`.

    `program`: a bare name (looked up on PATH when the plan is made), an absolute path, an absolute
    glob (`is_glob`; each existing match is one program), or `ANY_WRITABLE`.
    `optional`: a line of a shipped profile, which grants nothing where the program is not installed.
    """

    id: str
    text: str
    where: Where
    program: str
    optional: bool = False

    @property
    def is_glob(self) -> bool:
        return self.program.startswith("/") and any(mark in self.program for mark in "*?")

    @property
    def is_bare(self) -> bool:
        return "/" not in self.program and self.program != ANY_WRITABLE


class ArgHost(NamedTuple):
    """A host taken from the arguments of the call, a name or a URL. `steps` as in `ArgPath`.

    `within`: patterns that limit it, each a canonical name or `*.` and one; empty if nothing does.
    """

    steps: tuple[str, ...]
    within: tuple[str, ...]


class HostRule(NamedTuple):
    """One entry of `net`.

    `host` by `kind`: `name` a lower-case A-label name without a trailing dot; `suffix` that with a dot
    before it (`.example.org`: every name below, not itself); `network` a CIDR in canonical text
    (`10.0.0.0/8`, `192.0.2.1/32`, `2001:db8::1/128`); `localhost`, `any` and `arg` empty. `localhost` stands
    for 127.0.0.0/8 and ::1 as well. `ports`: first and last. `arg`: of kind `arg` only.
    """

    id: str
    text: str
    where: Where
    kind: HostKind
    host: str
    ports: tuple[int, int]
    protocol: Transport
    arg: ArgHost | None = None


class UnixRule(NamedTuple):
    """One entry of `unix`: the absolute, normalized `path` of a socket that may be connected to."""

    id: str
    text: str
    where: Where
    path: str


class ListenRule(NamedTuple):
    """One entry of `listen`: the server's TCP `port` is reached on the host's loopback, or `everywhere`."""

    id: str
    text: str
    where: Where
    port: int
    everywhere: bool


class ArgRule(NamedTuple):
    """One `args.NAME` condition, which a call must meet to be forwarded.

    `steps` as in `ArgPath`; `("*",)` stands for every top-level name no other rule of the table names.
    `pattern` is RE2 and must match the whole string. `type` is one of `values.TYPES`. None: not asked for.
    `max_length` counts characters of a string, items of an array, names of an object.
    """

    id: str
    where: Where
    steps: tuple[str, ...]
    pattern: str | None = None
    enum: tuple[object, ...] | None = None
    type: str | None = None
    min: float | None = None
    max: float | None = None
    max_length: int | None = None
    required: bool = False
    forbid: bool = False


class Block(NamedTuple):
    """The rules of one table, in file order, profiles first."""

    paths: tuple[PathRule, ...] = ()
    execs: tuple[ExecRule, ...] = ()
    hosts: tuple[HostRule, ...] = ()
    sockets: tuple[UnixRule, ...] = ()
    listens: tuple[ListenRule, ...] = ()


def joined(blocks: Iterable[Block]) -> Block:
    """Return the rules of all `blocks` as one, in order."""
    blocks = tuple(blocks)
    return Block(*(tuple(rule for rules in column for rule in rules) for column in zip(*blocks, strict=True)))


class ToolGrant(NamedTuple):
    """A `[tools.…]` table. `header` as written (the key, unquoted), `patterns` its alternatives.

    `pin`: `sha256:` and the canonical digest the tool's description must have, None if it may change.
    """

    header: str
    patterns: tuple[str, ...]
    inherit: bool
    block: Block
    args: tuple[ArgRule, ...] = ()
    pin: str | None = None


class Grant(NamedTuple):
    """One grant file with its profiles merged in.

    `texts`: that of the file and of every profile that was merged.
    `command`: the beginning the command must have, None if the file names none.
    `env`: names passed on; `set`: values for the server's environment, expanded.
    `lines`: where the tables of the file and the arrays in them begin: ("tools", header, noun) → line.
    `resources`, `prompts`: in force while a resource is read, a prompt fetched. `window_limit`: seconds.
    `sni`: whether the name in a TLS ClientHello on 443 must be that of the host. `nested_sandbox`: user
    namespaces may be made inside. `install_write`: "copy" gives the server a writable copy of its installation.
    """

    file: str
    texts: tuple[str, ...]
    command: tuple[str, ...] | None
    profiles: tuple[str, ...]
    env: tuple[str, ...]
    set: Mapping[str, str]
    server: Block
    quiet: Block
    startup: Block
    within: tuple[str, ...]
    overlap: Overlap
    tools: tuple[ToolGrant, ...]
    lines: Mapping[tuple[str, ...], int] = {}
    resources: Block = Block()
    prompts: Block = Block()
    unknown_tools: UnknownTools = "refuse"
    window_limit: float = WINDOW_LIMIT
    on_denial: OnDenial = "annotate"
    sni: ServerNames = "match"
    nested_sandbox: bool = False
    install_write: InstallWrite = ""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The tables that grant something, whenever they are in force."""
        return (self.server, self.startup, self.resources, self.prompts, *(tool.block for tool in self.tools))

    @property
    def digest(self) -> str:
        """`sha256:…` over all the texts this was made from."""
        from hashlib import sha256  # here only: 2 ms of start-up, and it is wanted after the fork

        return "sha256:" + sha256("\0".join(self.texts).encode()).hexdigest()
