"""The options of the commands that load a grant: `enforce`, `show`, `why`. By hand: argparse costs 6 ms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from mcpwrap.errors import CannotConfine, Error
from mcpwrap.grant.grant import NEVER_PASSED
from mcpwrap.options import Options
from mcpwrap.sandbox.tiers import ORDER, PER_CALL

OTHER_TIERS: Final = ("A", "D")
"""A is known and not there yet, D holds nothing: who asks for one is refused, never given less or more."""
DEGRADABLE: Final = (PER_CALL,)
"""What `--allow-degraded` may name."""
OVERLAPS: Final = ("auto", "serialize", "union")

MIN_LINE: Final = 1024
"""A handshake has to fit."""
MAX_LINE: Final = 1024**3

_VALUES: Final = (
    "--grant",
    "--name",
    "--env",
    "--require",
    "--allow-degraded",
    "--overlap",
    "--max-line",
    "--limit-memory",
    "--limit-processes",
    "--limit-files",
)
_FLAGS: Final = ("--audit-arguments",)
_UNITS: Final = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class UsageError(Error):
    """The command line cannot be read."""


class Parsed(NamedTuple):
    """`words`: what is no option, in order. `values`, `flags`: the options only this command has."""

    options: Options
    words: tuple[str, ...]
    values: Mapping[str, str]
    flags: frozenset[str]


def parse(argv: Iterable[str], *, values: Collection[str] = (), flags: Collection[str] = ()) -> Parsed:
    """Read the words before the first `--` as options, those behind it as the server's command.

    `values` and `flags` name options of this command alone (`--args`, `--json`). Raises UsageError.
    """
    words = list(argv)
    command: tuple[str, ...] = ()
    if "--" in words:
        cut = words.index("--")
        words, command = words[:cut], tuple(words[cut + 1 :])
        if not command:
            raise UsageError("no command after `--`", "mcpwrap [OPTIONS] -- COMMAND [ARGUMENT...]")
    options = Options(command=command)
    rest: list[str] = []
    own_values: dict[str, str] = {}
    own_flags: set[str] = set()
    known = (*_VALUES, *_FLAGS, *values, *flags)
    left = iter(words)
    for word in left:
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, equals, value = word.partition("=")
        if name not in known:
            raise UsageError(f"there is no option {name!a}", _hint(name, known))
        if name in _FLAGS or name in flags:
            if equals:
                raise UsageError(f"{name} takes no value")
            if name in flags:
                own_flags.add(name)
            else:
                options = options._replace(audit_arguments=True)
            continue
        if not equals:
            found = next(left, None)
            if found is None:
                raise UsageError(f"{name} needs a value")
            value = found
        if name in values:
            own_values[name] = value
        else:
            options = _with(options, name, value)
    return Parsed(options, tuple(rest), own_values, frozenset(own_flags))


def _with(options: Options, name: str, value: str) -> Options:
    if not value:
        raise UsageError(f"{name} needs a value that is not empty")
    match name:
        case "--grant":
            return options._replace(grant=value)
        case "--name":
            return options._replace(name=value)
        case "--env":
            return options._replace(env=(*options.env, *_names(value)))
        case "--require":
            if value in OTHER_TIERS:
                raise CannotConfine(f"tier {value} cannot be required", f"one of: {', '.join(ORDER)}")
            return options._replace(require=_one_of(name, value, ORDER))
        case "--allow-degraded":
            return options._replace(
                allow_degraded=(*options.allow_degraded, _one_of(name, value, DEGRADABLE))
            )
        case "--overlap":
            return options._replace(overlap=_one_of(name, value, OVERLAPS))
        case "--max-line":
            return options._replace(max_line=_size(name, value, MIN_LINE, MAX_LINE))
        case "--limit-memory":
            return options._replace(limit_memory=_size(name, value, 16 * 1024**2, 1024**5))
        case "--limit-processes":
            return options._replace(limit_processes=_size(name, value, 4, 2**22))
        case _:
            return options._replace(limit_files=_size(name, value, 16, 2**20))


def _names(value: str) -> list[str]:
    names = value.split(",")
    for name in names:
        if not name or "=" in name:
            raise UsageError(f"--env takes names, not {name!a}", "--env LOG_LEVEL passes $LOG_LEVEL on")
        if name.startswith(NEVER_PASSED):
            raise UsageError(
                f"{name} is never passed to a server", "start the server by a script that sets it"
            )
    return names


def _one_of(name: str, value: str, choices: Collection[str]) -> str:
    if value not in choices:
        raise UsageError(f"{name} cannot be {value!a}", f"one of: {', '.join(choices)}")
    return value


def _size(name: str, value: str, least: int, most: int) -> int:
    """Return a number of bytes or things; K, M and G are powers of 1,024."""
    digits = value.upper().removesuffix("B").removesuffix("I")
    unit = digits[-1:] if digits[-1:] in ("K", "M", "G") else ""
    digits = digits.removesuffix(unit)
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise UsageError(f"{name} takes a number, not {value!a}", "such as 4096, 512M or 2G")
    number = int(digits) * _UNITS[unit]
    if not least <= number <= most:
        raise UsageError(f"{name} cannot be {value}", f"from {least} to {most}")
    return number


def _hint(name: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only needed once something is wrong

    near = get_close_matches(name[:64], list(known), n=1)
    return f"did you mean {near[0]}?" if near else f"options: {' '.join(sorted(known))}"
