"""Commands that fetch a server from a registry and then run it: which package, and what is the server's own.

Only the words of the command are looked at. A package is named as its registry names it; what is no name in
a registry (a checkout, an archive, a repository) is not held, because nobody could say what a grant is for.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from mcpwrap.errors import CannotConfine

if TYPE_CHECKING:
    from collections.abc import Sequence

Registry = Literal["npm", "pypi", "jsr"]


class Launcher(NamedTuple):
    """One way of saying it: `program` (file name) and `subcommands`, any of which must follow it.

    `takes_value`: options that take the next word. `names_package`: those of them whose word is the package,
    so that the first plain word is a command in it. `options_before`: options may stand before a subcommand.
    """

    program: str
    subcommands: tuple[tuple[str, ...], ...]
    profile: str
    registry: Registry
    takes_value: frozenset[str]
    names_package: frozenset[str]


class Package(NamedTuple):
    """What a launcher is asked for.

    `name`: `npm/@scope/name`, `pypi/name` or `jsr/@scope/name`. `version`: as written, "" if none is.
    `command`: the program in the package, "" for its only one. `arguments`: the server's own words.
    `plain`: no option asks for more than the package itself. `asked`: a registry named by an option.
    """

    profile: str
    registry: Registry
    name: str
    version: str
    command: str
    arguments: tuple[str, ...]
    plain: bool
    asked: str = ""

    @property
    def moving(self) -> bool:
        """Whether what is fetched is to be the newest, whatever is there already."""
        return bool(self.version) and not self.version[0].isdigit() and self.version[0] not in "=<>~^!v"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NPM: Final = _words(
    "-p --package -c --call -w --workspace --registry --cache --prefix --userconfig --globalconfig --loglevel "
    "--script-shell --node-options -n --node-arg --shell --cafile"
)
_UV: Final = _words(
    "--from --with --with-editable --with-requirements -w -c --constraints -b --build-constraints --overrides "
    "--env-file -p --python --python-preference --python-platform --torch-backend --index --default-index -i "
    "--index-url --extra-index-url -f --find-links -P --upgrade-package --index-strategy --keyring-provider "
    "--resolution --prerelease --fork-strategy --exclude-newer -C --config-setting --no-build-isolation-package "
    "--no-build-package --no-binary-package --refresh-package --cache-dir --color --directory --project "
    "--config-file --allow-insecure-host --link-mode"
)
_BUN: Final = _words("-p --package")

LAUNCHERS: Final = (
    Launcher("npx", ((),), "npx", "npm", _NPM, _words("-p --package")),
    Launcher("npm", (("exec",), ("x",)), "npx", "npm", _NPM, _words("-p --package")),
    Launcher("uvx", ((),), "uvx", "pypi", _UV, _words("--from")),
    Launcher("uv", (("tool", "run"),), "uvx", "pypi", _UV, _words("--from")),
    Launcher("bunx", ((),), "bun", "npm", _BUN, _words("-p --package")),
    Launcher("bun", (("x",),), "bun", "npm", _BUN, _words("-p --package")),
)

INDEXES: Final = _words("--registry --default-index -i --index-url")
"""Options that name another registry for everything."""

OTHERS: Final = {
    ("pipx", "run"): "uvx PACKAGE does the same; or pipx install PACKAGE, then name the command it installs",
    ("pnpx",): "npx PACKAGE does the same",
    ("pnpm", "dlx"): "npx PACKAGE does the same",
    ("yarn", "dlx"): "npx PACKAGE does the same",
    ("uv", "run"): "`uv sync` once, then name .venv/bin/COMMAND: `uv run` changes the project it runs",
}
"""Downloaders that are not held, with what is."""

# Texts, compiled at first use: 1 ms of the start of every server that is no package.
DENO_SPECIFIER: Final = r"(npm|jsr):/?(.+)"

_NPM_SPEC: Final = (
    r"(?P<name>(?:@[a-z0-9~-][a-z0-9._~-]*/)?[A-Za-z0-9~-][A-Za-z0-9._~-]*)(?:@(?P<version>[^/@:\s]+))?"
)
_PYPI_SPEC: Final = (
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[A-Za-z0-9,._ -]*\])?"
    r"(?:@(?P<at>[A-Za-z0-9][^/:@\s]*)|\s*(?P<version>(?:===?|~=|!=|<=?|>=?)[^/@:]+))?"
)
_SPELLINGS: Final = r"[-_.]+"
"""What PyPI takes for one and the same dash."""


def package(command: Sequence[str]) -> Package | None:
    """Return what `command` fetches and runs, None for any other command.

    Raises CannotConfine for what no registry has, and for downloaders that are not held.
    """
    program = command[0].rpartition("/")[2]
    for words, way_out in OTHERS.items():
        if program == words[0] and tuple(_plain(command[1:])[: len(words) - 1]) == words[1:]:
            raise CannotConfine(f"`{' '.join(words)}` is not held", way_out)
    if program == "deno":
        return _deno(command)
    for launcher in LAUNCHERS:
        if program == launcher.program:
            for subcommand in launcher.subcommands:
                start = _after(command, subcommand)
                if start:
                    return _package(launcher, command, start)
    return None


def _plain(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _after(command: Sequence[str], subcommand: tuple[str, ...]) -> int:
    """Return where the words after `subcommand` begin, 0 if it is not there. Flags may stand before it."""
    index = 1
    for wanted in subcommand:
        while index < len(command) and command[index].startswith("-") and command[index] != "--":
            index += 1
        if index >= len(command) or command[index] != wanted:
            return 0
        index += 1
    return index


def _package(launcher: Launcher, command: Sequence[str], index: int) -> Package:
    spec, registry, plain = "", "", True
    while index < len(command):
        word = command[index]
        index += 1
        if word == "--":
            break
        if not word.startswith("-"):
            index -= 1
            break
        option, equals, value = word.partition("=")
        if option in launcher.takes_value:
            if not equals:
                value = command[index] if index < len(command) else ""
                index += 1
            if option in launcher.names_package and not spec:
                spec = value
            elif option in INDEXES:
                registry = value
            else:
                plain = False
    words = list(command[index:])
    if not words and not spec:
        raise CannotConfine(f"`{launcher.program}` is given no package to run", f"{launcher.program} PACKAGE")
    inside = words.pop(0) if words else ""
    name, version = _named(launcher, spec or inside)
    return Package(
        launcher.profile,
        launcher.registry,
        f"{launcher.registry}/{name}",
        version,
        inside if spec else "",
        tuple(words),
        plain,
        registry,
    )


def _named(launcher: Launcher, spec: str) -> tuple[str, str]:
    if launcher.registry == "npm":
        found = re.fullmatch(_NPM_SPEC, spec)
        if found is not None:
            return found["name"], found["version"] or ""
    else:
        found = re.fullmatch(_PYPI_SPEC, spec)
        if found is not None:
            return re.sub(_SPELLINGS, "-", found["name"]).lower(), found["at"] or found["version"] or ""
    raise CannotConfine(
        f"`{launcher.program}` is given {spec!r}, which is not the name of a package in a registry",
        "install it once (npm install, uv tool install, pipx install), then name the command it installs",
    )


def _deno(command: Sequence[str]) -> Package | None:
    """`deno run [OPTION...] npm:NAME@VERSION [ARGUMENT...]`; scripts and URLs are no packages."""
    for index, word in enumerate(command[1:], 1):
        match = re.fullmatch(DENO_SPECIFIER, word)
        if match is None:
            if "://" in word and not word.startswith("-"):
                raise CannotConfine(
                    f"deno is given {word!r}: code from a URL is in no registry",
                    "save it to a file, or name a package: npm:NAME, jsr:@SCOPE/NAME",
                )
            continue
        found = re.match(_NPM_SPEC, match[2])
        if found is None or not match[2][found.end() :].startswith(("/", "")):
            break
        registry: Registry = "npm" if match[1] == "npm" else "jsr"
        return Package(
            "deno",
            registry,
            f"{registry}/{found['name']}",
            found["version"] or "",
            match[2][found.end() :].lstrip("/"),
            tuple(command[index + 1 :]),
            True,
        )
    return None
