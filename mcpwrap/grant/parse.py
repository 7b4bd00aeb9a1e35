"""A grant file to a `Grant`: read, profiles merged in, contradictions refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap.grant.contradiction import contradictions
from mcpwrap.grant.document import Document, read
from mcpwrap.grant.gitconfig import named_files
from mcpwrap.grant.grant import Grant, PathRule, Where
from mcpwrap.grant.paths import Variables, normalize, provided, too_wide
from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.profile import Profile, collect, merge
from mcpwrap.grant.render import path_text, printable
from mcpwrap.grant.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NO_FILE = "(no grant file)"
"""The file name of the grant that is in force without one."""

GIT = "git"
_GIT_CONFIGURATIONS = (".gitconfig", ".config/git/config")


def parse(
    text: str,
    file: str,
    variables: Variables,
    profiles: Callable[[str], str],
    *,
    brought: Sequence[str] = (),
    is_directory: Callable[[str], bool] | None = None,
    read_text: Callable[[str], str | None] | None = None,
) -> Grant:
    """Return the grant that `text` (see `source.decode`) spells; `file` is its name in messages.

    `profiles(name)` returns the text of a shipped profile. `brought`: those the command brings (a launcher's),
    whatever the file names. `is_directory`, if given, is asked about the roots of `$arg`: one that does not
    exist can never apply. `read_text(path)`, if given, returns the text of a file or None: profile git follows
    the includes of ~/.gitconfig with it.
    Raises BadGrant with all problems, in file order.
    """
    source = Source(text, file)
    document = read(source, variables)
    if not source.problems:  # of half a document one cannot say what contradicts what
        for where, what, hint in contradictions(document):
            source.problem_at(where, what, hint)
        if is_directory is not None:
            _judge_roots(source, document, is_directory)
    if source.problems:
        raise BadGrant(
            sorted(source.problems, key=lambda problem: (problem.where.line, problem.where.column))
        )
    collected = collect((*brought, *document.profiles), variables, profiles)
    grant = _grant(file, text, document, collected, variables, read_text)
    return grant._replace(lines=source.lines())


def default_grant(
    variables: Variables,
    profiles: Callable[[str], str],
    profile_names: Sequence[str],
    named_paths: Sequence[str],
    *,
    read_text: Callable[[str], str | None] | None = None,
) -> Grant:
    """Return the grant of a command without a grant file: its profiles, and the named paths read-only.

    `named_paths` are absolute and have been judged by `named.bindable`. Never raises for one of
    them: they come from a command line, not from a grant.
    """
    grant = _grant(NO_FILE, "", Document(), collect(profile_names, variables, profiles), variables, read_text)
    rules = tuple(
        PathRule(
            "fs_read",
            f"named.fs_read[{index}]",
            path_text(path, variables.home) or printable(path),
            Where(NO_FILE, 1, 1),
            normalize(path),
            None,
            None,
        )
        for index, path in enumerate(named_paths)
    )
    return grant._replace(server=grant.server._replace(paths=(*grant.server.paths, *rules)))


def _grant(
    file: str,
    text: str,
    document: Document,
    profiles: tuple[Profile, ...],
    variables: Variables,
    read_text: Callable[[str], str | None] | None,
) -> Grant:
    merged = merge([*(profile.document for profile in profiles), document])
    names = tuple(profile.name for profile in profiles)
    server = merged.server
    if GIT in names and read_text is not None:
        server = server._replace(paths=(*server.paths, *_git_includes(variables, read_text)))
    return Grant(
        file=file,
        texts=(text, *(f"{profile.name}\0{profile.text}" for profile in profiles)),
        command=merged.command,
        profiles=names,
        env=merged.env,
        set=merged.set,
        server=server,
        quiet=merged.quiet,
        startup=merged.startup,
        within=merged.within,
        overlap=merged.overlap,
        tools=merged.tools,
        resources=merged.resources,
        prompts=merged.prompts,
        unknown_tools=merged.unknown_tools,
        window_limit=merged.window_limit,
        on_denial=merged.on_denial,
        sni=merged.sni,
        nested_sandbox=merged.nested_sandbox,
        install_write=merged.install_write,
    )


def _judge_roots(source: Source, document: Document, is_directory: Callable[[str], bool]) -> None:
    rules = [rule for tool in document.tools for rule in tool.block.paths if rule.arg is not None]
    places = [(root, source.where(("policy", "within", index))) for index, root in enumerate(document.within)]
    for rule in rules:
        if rule.arg is not None and rule.arg.within != document.within:
            places += [(root, rule.where) for root in rule.arg.within]
    for root, where in places:
        if not is_directory(root):
            source.problem_at(
                where, f"{printable(root)} is no directory: no argument can lie in it", "create it first"
            )


def _git_includes(variables: Variables, read_text: Callable[[str], str | None]) -> Iterable[PathRule]:
    """Yield a read rule for each file the user's git configuration names."""
    count = 0
    for configuration in _GIT_CONFIGURATIONS:
        for path, naming, line in named_files(f"{variables.home}/{configuration}", variables.home, read_text):
            text = path_text(path, variables.home)
            if text is None or too_wide(path, variables) or provided(path, variables):
                continue
            rule_id = f"profile git: include[{count}]"
            yield PathRule("fs_read", rule_id, text, Where(naming, line, 1), path, None, None)
            count += 1
