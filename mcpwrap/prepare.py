"""From a command line to a compiled policy: what `enforce`, `show` and `why` have in common.

Everything here runs before the server starts, so it imports as little as it can, and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from mcpwrap import profiles
from mcpwrap.errors import Error
from mcpwrap.grant import lookup
from mcpwrap.grant.named import NamedPath, bindable
from mcpwrap.grant.parse import default_grant
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.render import printable, rules_text
from mcpwrap.grantfile import check_trust, load, read_text
from mcpwrap.hostfacts import facts_of, kind_of
from mcpwrap.policy.compile import compile as compile_policy
from mcpwrap.policy.doubts import missing_directories, needless, unresolved
from mcpwrap.policy.places import private_places, protected_places
from mcpwrap.sandbox import identity
from mcpwrap.sandbox.environment import CERTIFICATES, SAFE, choose, start_environment
from mcpwrap.sandbox.installation import Installation, installation

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Grant, Overlap
    from mcpwrap.grant.lookup import Places
    from mcpwrap.options import Options
    from mcpwrap.packages.launched import Launched
    from mcpwrap.policy.compile import Policy
    from mcpwrap.policy.facts import Facts
    from mcpwrap.sandbox.replica import Replica

_OF_EVERY_PROGRAM = ("LC_", "XDG_")
"""Beginnings of the names of variables that are meant for every program: XDG_CONFIG_HOME holds those of all."""


class Prepared(NamedTuple):
    """One run, decided and not yet started.

    `command`: the argument vector; its program is `installation.program`. `name`: the instance name,
    such as `pypi/mcp-server-git`. `grant_file`: the file that was read, "" if there is none;
    `grant_path`: where it is, or would be looked for. `environment`: the server's; `withheld`: names
    of ours that it is not given. `keeps`: the TOML of what holds only while there is no grant file.
    `replicas`: copies of its installation that it may write.
    `apart`: as in `sandbox.plan.Wanted`. `warnings`: lines for stderr.
    """

    grant: Grant
    facts: Facts
    policy: Policy
    installation: Installation
    command: tuple[str, ...]
    name: str
    places: Places
    grant_file: str
    grant_path: str
    environment: Mapping[str, str]
    withheld: tuple[str, ...]
    keeps: str
    replicas: tuple[Replica, ...]
    apart: tuple[str, ...]
    warnings: tuple[str, ...]


def prepare(options: Options, environ: Mapping[str, str] | None = None, *, bare: bool = False) -> Prepared:
    """Return the run that `options` ask for: its grant, the facts of this machine, the compiled policy.

    `bare`: the server will have no view of its own, so its HOME and TMPDIR are directories of $STATE.

    `environ` is mcpwrap's own environment (default: `os.environ`). Without `options.command` the
    command of the grant file is taken. Raises `GrantError` (78) for a grant file that cannot be
    taken, `CommandNotFound` (127), `CannotConfine` (126), and `Error` where no command is named.
    """
    ours = dict(os.environ if environ is None else environ)
    passwd_home = identity.passwd_home()
    home = (
        os.path.normpath(ours["HOME"])
        if ours.get("HOME", "").startswith("/")
        else passwd_home or "/nonexistent"
    )
    cwd = working_directory()
    parent = start_environment(os.getppid())
    command = options.command or _command_of_grant(options, home, passwd_home, cwd, ours)
    given = choose(ours, parent, named=options.env).passed
    found = installation(command, ours, cwd, _own_values(given))
    name = lookup.instance_name(options.name) if options.name is not None else found.name
    places = lookup.places(ours, home, name)
    temporary = f"{places.state}/tmp" if bare else "/tmp"
    variables = Variables(home, passwd_home, cwd, temporary, places.state, places.cache, ours)
    path = os.path.abspath(options.grant) if options.grant is not None else lookup.grant_path(places, name)
    facts = facts_of(found, variables, places, name, path, ours)._replace(bare=bare)
    made: Launched | None = None
    profile = profiles.text
    if found.package is not None:
        from mcpwrap.packages.launched import launched

        made = launched(found.package, found.program, places.cache, ours, home, given)
        profile = partial(profiles.text, hosts=made.hosts)
    warnings: tuple[str, ...] = ()
    if options.grant is not None or os.path.lexists(path):
        # A launcher is what the user typed: no file has to say so again for it to start anything.
        grant = load(path, variables, profile, brought=found.profiles if made else ())
        lookup.check_command(grant, command, home)
        check_trust(path, grant, places, variables)
        grant_file = path
    else:
        grant, warnings = _without_file(found, variables, facts, path, profile)
        grant_file = ""
    if options.overlap is not None:
        grant = grant._replace(overlap=cast("Overlap", options.overlap))
    values = {**made.environment, **grant.set} if made else grant.set
    if found.path and "PATH" not in values:
        values = {**values, "PATH": ":".join((*found.path, ours.get("PATH", os.defpath)))}
    replicas: tuple[Replica, ...] = ()
    if grant.install_write:
        from mcpwrap.sandbox.replica import survey  # here only: few grants have it

        replicas = survey(found, places.state)
        facts = facts._replace(
            copied=tuple(each.root for each in replicas),
            fixed=tuple(path for each in replicas for path in each.native),
        )
    chosen = choose(ours, parent, named=(*options.env, *grant.env), values=values)
    policy = compile_policy(grant, facts)
    own = {"HOME": f"{places.state}/home", "TMPDIR": temporary} if bare else {}
    return Prepared(
        grant=grant,
        facts=facts,
        policy=policy,
        installation=found,
        command=tuple(command),
        name=name,
        places=places,
        grant_file=grant_file,
        grant_path=path,
        environment=chosen.passed | {name: own[name] for name in own if name not in grant.set},
        withheld=chosen.withheld,
        keeps="" if grant_file else _kept(grant, found),
        replicas=replicas,
        apart=made.apart if made else (),
        warnings=(
            *warnings,
            *(made.notes if made else ()),
            *_unset(options, ours),
            *unresolved(policy),
            *needless(policy),
            *missing_directories(policy),
        ),
    )


def working_directory() -> str:
    """Return it. Raises Error where it has been removed, or lies in what this user cannot look through."""
    try:
        return os.getcwd()
    except OSError as error:
        raise Error(
            f"there is no working directory: {error.strerror}", "start mcpwrap in a directory that exists"
        ) from None


def _command_of_grant(
    options: Options, home: str, passwd_home: str, cwd: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the command that the named grant file says it is for."""
    path = options.grant
    name = lookup.instance_name(options.name) if options.name is not None else "check"
    places = lookup.places(environ, home, name)
    if path is None and options.name is not None:
        path = lookup.grant_path(places, name)
    if path is None:
        raise Error(
            "no command, and no grant file that names one",
            "end the line with `-- COMMAND`, or add --grant FILE",
        )
    variables = Variables(home, passwd_home, cwd, "/tmp", places.state, places.cache, environ)
    command = load(path, variables).command
    if not command:
        raise Error(f"{printable(path)} names no command", "end the line with `-- COMMAND`")
    return tuple(home + word[1:] if word.startswith("~/") else word for word in command)


def _without_file(
    found: Installation, variables: Variables, facts: Facts, path: str, profile: Callable[[str], str]
) -> tuple[Grant, tuple[str, ...]]:
    """Return the grant of a command without a grant file, and what is to be said of it."""
    private, protected = private_places(facts), protected_places(facts)
    named: list[NamedPath] = []
    for each in found.named:
        real = os.path.realpath(each)
        kind = kind_of(real)
        match = next(
            filter(None, (table.match(it) for table in (private, protected) for it in (each, real))), None
        )
        named.append(NamedPath(each, real, "device" if kind == "other" else kind, match.id if match else ""))
    bound, refused = bindable(named, variables)
    readable = f"{', '.join(map(printable, bound))} and" if bound else "and"
    where = f"no grant file at {printable(path)}"
    lines = [f"{where}: calls may read {readable} write nothing of yours; `mcpwrap show` prints the rest"]
    lines += [f"not granted: {printable(each)}: {reason}" for each, reason in refused]
    grant = default_grant(variables, profile, found.profiles, bound, read_text=read_text)
    return grant, tuple(lines)


def _kept(grant: Grant, found: Installation) -> str:
    """Return the TOML of what is in force without a grant file, and goes when there is one."""
    named = [rule.text for rule in grant.server.paths if rule.id.startswith("named.")]
    return rules_text({("server",): {"profile": found.profiles, "fs_read": named}})


def _unset(options: Options, environ: Mapping[str, str]) -> list[str]:
    return [
        f"--env {name}: it is not set, so nothing is passed on" for name in options.env if name not in environ
    ]


def _own_values(given: Mapping[str, str]) -> list[str]:
    """Return the values that were meant for this server: its paths may be among them."""
    return [
        value
        for name, value in given.items()
        if name not in SAFE and name not in CERTIFICATES and not name.startswith(_OF_EVERY_PROGRAM)
    ]
