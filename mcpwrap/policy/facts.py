"""What compiling needs to know of the machine and the run, as data and callables: no I/O in here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcpwrap.policy.active import Kind


def _directory(_path: str) -> Kind:
    return "directory"


def _unlinked(_path: str) -> tuple[tuple[int, int], ...]:
    return ()


def _alone(_program: str) -> tuple[str, ...]:
    return ()


class Facts(NamedTuple):
    """The machine and the run; every path absolute, without trailing slash.

    - `home`, `passwd_home`: `$HOME` and the password entry's (may be empty); `cwd`: the server's
      working directory; `state`, `cache`: `$STATE`, `$CACHE` of this instance; `config`: mcpwrap's
      own configuration directory, with the grants.
    - `system`: readable system directories and files; `installation`: roots of the command's own
      installation; `programs`: executable files of the command itself; `loaders`: dynamic loaders,
      never executable as programs.
    - `copied`: roots of the installation shown as a writable copy; `fixed`: what in them is the original all the
      same, and never written.
    - `find`: bare name → path on PATH, None if there is none; `real`: realpath; `identity`:
      (st_dev, st_ino), None if missing; `linked`: those of files below a directory that have a second name
      somewhere; `kind`: what is there (links followed).
    - `program_roots`: real path of a granted program → directories of its own installation.
    - `interpreters`: real path of a granted program, or of a directory of such → real paths of the
      interpreters their `#!` lines name; needed by the floor only, they are no grant of their own.
    - `own`: mcpwrap's code and interpreter; `path`: the directories of the client's PATH: both
      write-protected. `withheld`: mcpwrap's audit, and the state and cache of all instances: private
      (`state` and `cache` of this one stay reachable inside them).
    - `bare`: the server is in the host's own file system (tier C), so its HOME and its place for temporary
      files are directories of `state`, and every path is the host's.
    """

    home: str
    passwd_home: str
    cwd: str
    state: str
    cache: str
    uid: int
    system: tuple[str, ...]
    installation: tuple[str, ...]
    programs: tuple[str, ...]
    loaders: tuple[str, ...]
    config: str
    find: Callable[[str], str | None]
    real: Callable[[str], str]
    identity: Callable[[str], tuple[int, int] | None]
    kind: Callable[[str], Kind] = _directory
    linked: Callable[[str], tuple[tuple[int, int], ...]] = _unlinked
    program_roots: Callable[[str], tuple[str, ...]] = _alone
    interpreters: Callable[[str], tuple[str, ...]] = _alone
    own: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    bare: bool = False
    copied: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    def is_dotfile(self, path: str) -> bool:
        """Whether `path` is, or lies below, a dotfile of a home directory: what programs keep for themselves."""
        homes = (*self.homes, *self.own_homes)
        home = max((home for home in homes if path.startswith(home + "/")), key=len, default="")
        return bool(home) and path[len(home) + 1] == "."

    @property
    def homes(self) -> tuple[str, ...]:
        """Both home directories, as written and as resolved, each once."""
        written = [home for home in (self.home, self.passwd_home) if home and home != "/"]
        return tuple(dict.fromkeys([*written, *map(self.real, written)]))

    @property
    def own_homes(self) -> tuple[str, ...]:
        """Where the server finds its private HOME."""
        return self._in_state("home") if self.bare else self.homes

    @property
    def kept_homes(self) -> tuple[str, ...]:
        """Where the private HOME is kept, if the server finds it under another name."""
        return () if self.bare else self._in_state("home")

    @property
    def temporary(self) -> tuple[str, ...]:
        """Where the server finds its private places for temporary files."""
        return self._in_state("tmp") if self.bare else ("/tmp", "/dev/shm")

    def _in_state(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(f"{each}/{name}" for each in (self.state, self.real(self.state))))
