"""Where a server's grant file and directories are, whether the file fits the command and can be trusted."""

from __future__ import annotations

import posixpath
import re
import stat
from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.errors import GrantError
from mcpwrap.grant.paths import below
from mcpwrap.grant.pattern import literal_directory
from mcpwrap.grant.render import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mcpwrap.grant.grant import Grant

_INSTANCE = re.compile(r"[A-Za-z0-9@_-][A-Za-z0-9@._+-]*(?:/[A-Za-z0-9@_-][A-Za-z0-9@._+-]*){0,3}")
MAX_NAME = 200
"""Characters of NAME: npm allows 214, a file name 255 bytes, and `.toml` and a temporary suffix follow."""

_WRITABLE_BY_OTHERS = 0o022
_STICKY_DIRECTORY = 0o041000
"""S_IFDIR and S_ISVTX, as `st_mode` holds them."""

_LAUNCHERS = frozenset({"npx", "bunx", "pnpx", "uvx", "npm", "pnpm", "yarn", "bun", "uv", "pipx"})
_SUBCOMMANDS = frozenset({"exec", "dlx", "run", "tool", "x"})
_PACKAGE_OPTIONS = frozenset({"-p", "--package", "--from", "--with", "--spec"})
_SPEC = re.compile(
    r"(?P<name>@?[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)?(?:\[[A-Za-z0-9,._-]*\])?)"
    r"(?:@[~^]?[A-Za-z0-9][A-Za-z0-9.+_-]*|(?:===?|~=|!=|[<>]=?)[^\s]+)"
)


class Places(NamedTuple):
    """The directories of one server, all absolute. `$STATE` is `state`, `$CACHE` is `cache`.

    Those two are written by the server, so that of `a` must not hold that of `a/b`: each is one
    component, with a `~` (which no name has) for each slash.
    """

    grants: str
    config: str
    state: str
    cache: str
    audit: str


class PathStat(NamedTuple):
    """What `lstat` says of one path: owner and permission bits (`st_mode`)."""

    path: str
    uid: int
    mode: int


def instance_name(name: str) -> str:
    """Return the value of `--name`. Raises GrantError if it could leave the grants directory."""
    if len(name) > MAX_NAME or not _INSTANCE.fullmatch(name):
        raise GrantError(
            f"--name {printable(name)} is no name",
            "up to four parts of letters, digits and @ . _ + - with / between, no part beginning with a dot",
        )
    return name


def places(environ: Mapping[str, str], home: str, name: str) -> Places:
    """Return the directories of server `name` (XDG base directories; relative values are ignored)."""

    def base(variable: str, default: str) -> str:
        value = environ.get(variable, "")
        return posixpath.normpath(value if value.startswith("/") else f"{home}/{default}")

    config = base("XDG_CONFIG_HOME", ".config") + "/mcpwrap"
    flat = name.replace("/", "~")
    return Places(
        grants=f"{config}/grants",
        config=config,
        state=base("XDG_DATA_HOME", ".local/share") + f"/mcpwrap/{flat}",
        cache=base("XDG_CACHE_HOME", ".cache") + f"/mcpwrap/{flat}",
        audit=base("XDG_STATE_HOME", ".local/state") + f"/mcpwrap/audit/{name}",
    )


def grant_path(found: Places, name: str) -> str:
    return f"{found.grants}/{name}.toml"


def command_matches(wanted: Sequence[str], command: Sequence[str], home: str) -> bool:
    """Whether `command` begins as `wanted` says.

    A first word without a slash is compared with the program's file name; a leading `~/` is
    `home`. Versions of packages are left out of account in the package arguments of launchers
    (npx, uvx and kin), and nowhere else: `user@host` is no package.
    """
    if len(command) < len(wanted) or not wanted:
        return not wanted
    first = command[0] if "/" in wanted[0] else posixpath.basename(command[0])
    wanted = [home + word[1:] if word.startswith("~/") else word for word in wanted]
    launcher = posixpath.basename(first) in _LAUNCHERS
    here = _without_versions([first, *command[1:]]) if launcher else [first, *command[1:]]
    there = _without_versions(wanted) if launcher else wanted
    return list(here[: len(there)]) == list(there)


def _without_versions(words: Sequence[str]) -> list[str]:
    out = list(words)
    for index in range(1, len(words)):
        option = words[index - 1] in _PACKAGE_OPTIONS
        if words[index].startswith("-") or words[index] in _SUBCOMMANDS:
            continue
        match = _SPEC.fullmatch(words[index])
        out[index] = match["name"] if match else words[index]
        if not option:
            return out
    return out


def check_command(grant: Grant, command: Sequence[str], home: str) -> None:
    """Raise GrantError (exit 78) if the grant is for another command."""
    if grant.command is not None and not command_matches(grant.command, command, home):
        raise GrantError(
            f"{printable(grant.file)} is for another command",
            f"it says:  {printable(' '.join(grant.command))}\n"
            f"this is:  {printable(' '.join(command[: len(grant.command)]))}\n"
            "give the right file with --grant, or change `command` in [server]",
        )


def writable_trees(grant: Grant) -> tuple[str, ...]:
    """Return every directory or file some rule of the grant lets a server write."""
    trees: list[str] = []
    for rule in (rule for block in grant.blocks for rule in block.paths if rule.noun == "fs_write"):
        if rule.arg is not None:
            trees += rule.arg.within
        elif rule.glob is not None:
            trees.append(literal_directory(rule.glob))
        elif rule.path is not None:
            trees.append(rule.path)
    return tuple(dict.fromkeys(trees))


def check_trust(chain: Iterable[PathStat], uid: int, writable: Iterable[str]) -> None:
    """Raise GrantError if somebody else, or a server, could write the grant file.

    `chain`: the grant file, every link on the way to it as written, and every directory on that way, up to `/`.
    A sticky directory may be writable by others (nobody can replace what is not theirs in it). `uid`: the user's.
    `writable`: real paths of trees some server may write.
    """
    trees = tuple(writable)
    for item in chain:
        shown = printable(item.path)
        if item.uid not in (0, uid):
            raise GrantError(
                f"{shown} belongs to user id {item.uid}, who could grant what they like",
                "use a file of your own",
            )
        # The bits of a link say nothing: whoever may write its directory may replace it.
        safe = stat.S_ISLNK(item.mode) or item.mode & _STICKY_DIRECTORY == _STICKY_DIRECTORY
        if item.mode & _WRITABLE_BY_OTHERS and not safe:
            raise GrantError(
                f"{shown} is writable by others, who could grant what they like",
                f"chmod go-w {_shell(item.path)}",
            )
        tree = next((tree for tree in trees if below(item.path, tree)), None)
        if tree is not None:
            raise GrantError(
                f"{shown} lies in {printable(tree)}, which a server may write: "
                "it could widen its own grant, or another's",
                "keep grant files out of what servers may write",
            )


def _shell(path: str) -> str:
    return "'" + printable(path).replace("'", "'\\''") + "'"
