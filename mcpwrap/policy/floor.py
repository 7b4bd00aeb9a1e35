"""The floor: the union of everything a run may ever be granted, for mounts and Landlock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcpwrap.grant.grant import ANY_WRITABLE, Block
from mcpwrap.grant.pattern import literal_directory
from mcpwrap.policy.match import below, nearest, outermost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwrap.policy.facts import Facts
    from mcpwrap.policy.places import Places
    from mcpwrap.policy.rules import Rules


class Floor(NamedTuple):
    """What mounts and Landlock must hold; sorted, without what another entry covers.

    - `reads`, `writes`: directories and files, real paths, and as written where that differs (so that
      the links on the way can be made again). What is in `writes` is not in `reads`.
    - `executables`: program files and directories of programs besides `Facts.programs`.
    - `files`: those of `reads` and `writes` that are no directories.
    - `parents`: existing directories of `writes` that are no directories: a file is made and replaced in
      its directory, so that is shown; never one that holds a home directory.
    - `covers`: existing private paths inside `reads` or `writes` that no rule names: to be hidden.
    - `sockets`: what rules of `unix` name, real paths, and as written where that differs; they need not exist.
    - `links`: the as-written paths that resolve to another.
    - `missing`: paths of rules that name nothing that exists (they are in `reads` and `writes` too).
    - `any_writable`: whether some table gives up the exec gate (writable mounts stay executable).
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    executables: tuple[str, ...]
    files: tuple[str, ...]
    parents: tuple[str, ...]
    covers: tuple[str, ...]
    links: tuple[str, ...]
    missing: tuple[str, ...]
    any_writable: bool
    sockets: tuple[str, ...] = ()


def floor(blocks: Iterable[Block], rules: Iterable[Rules], facts: Facts, private: Places) -> Floor:
    """Return the floor of all `blocks`, whose resolved tables are `rules`."""
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    executables: dict[str, None] = {}
    any_writable = False
    for block in blocks:
        for rule in block.paths:
            if rule.noun == "fs_deny":
                continue
            target = writes if rule.noun == "fs_write" else reads
            if rule.path is not None:
                target[rule.path] = None
            elif rule.glob is not None and rule.glob.startswith("/"):
                target[literal_directory(rule.glob)] = None
            elif rule.arg is not None:
                target |= dict.fromkeys(rule.arg.within)
        for program in block.execs:
            any_writable |= program.program == ANY_WRITABLE
            if program.is_glob:
                executables[facts.real(literal_directory(program.program))] = None
    named: dict[str, str] = {}
    sockets: set[str] = set()
    for table in rules:
        executables |= dict.fromkeys(table.execs)
        reads |= dict.fromkeys(path for path in table.reads if table.reads[path] in _exec_ids(table))
        named |= table.named_reads
        if table.hosts is not None:
            sockets |= {*table.hosts.sockets, *table.hosts.written}
    made = _made(reads, writes, executables, named, any_writable, facts, private)
    covers = tuple(place for place in made.covers if place not in sockets)
    return made._replace(sockets=tuple(sorted(sockets)), covers=covers)


def _directory_of(path: str, facts: Facts) -> str:
    """Return the real directory that is shown for the sake of one file, empty if none is."""
    directory = facts.real(path)
    while directory != "/" and facts.kind(directory) != "directory":
        directory = directory.rpartition("/")[0] or "/"
    return "" if directory == "/" or any(below(home, directory) for home in facts.homes) else directory


def _strictly_inside(path: str, roots: Iterable[str]) -> bool:
    return any(path != root and below(path, root) for root in roots)


def _exec_ids(table: Rules) -> frozenset[str]:
    return frozenset(table.execs.values())


def _made(
    reads: dict[str, None],
    writes: dict[str, None],
    executables: dict[str, None],
    named: dict[str, str],
    any_writable: bool,
    facts: Facts,
    private: Places,
) -> Floor:
    written = [*writes, *reads]
    real = {path: facts.real(path) for path in written}
    kinds = {path: facts.kind(path) for path in written}
    every_write = [*writes, *(real[path] for path in writes)]
    # The installation is read-only in a writable tree, so that tree does not cover what is writable inside.
    inside = [path for path in every_write if _strictly_inside(path, facts.installation)]
    all_writes = tuple(sorted({*outermost(every_write), *inside}))
    every_read = outermost([*reads, *(real[path] for path in reads)])
    all_reads = tuple(path for path in every_read if nearest(path, all_writes) is None)
    parents = outermost(
        filter(None, (_directory_of(path, facts) for path in writes if kinds[path] != "directory"))
    )
    visible = (*all_reads, *all_writes, *parents)
    single = {real[path] for path in written if kinds[path] in ("file", "missing")}
    missing = [path for path in written if kinds[path] == "missing"]
    return Floor(
        reads=all_reads,
        writes=all_writes,
        executables=outermost(
            [*executables, *(each for path in executables for each in facts.interpreters(path))]
        ),
        files=tuple(path for path in sorted(single) if path in all_reads or path in all_writes),
        parents=parents,
        covers=outermost(
            place
            for place in private.existing
            if any(below(place, root) and place != root for root in visible)
            and not any(below(path, place) for path in (*named, *facts.installation))
        ),
        links=tuple(sorted({path for path in written if real[path] != path})),
        missing=tuple(sorted({each for path in missing for each in (path, real[path])})),
        any_writable=any_writable,
    )
