"""Where a program is installed: the directories it cannot run without.

They are readable in every phase and never writable, so each is as narrow as the kind of program allows:
a package, a virtual environment, an interpreter's prefix; of a directory that is more than that (home,
`~/.local`, the working directory, a project with its environment in it, ...) only the pieces that belong
to the program.

The command is the user's word. What a package says of itself is not: its `#!` line, pyvenv.cfg, `*.pth`
come with the wheel and must not make anything readable but software. So editable installs need a grant.
"""

from __future__ import annotations

import os
from typing import Final, NamedTuple

from mcpwrap.sandbox.interpreters import family
from mcpwrap.sandbox.system import within

SHARED: Final = (
    "/",
    "/tmp",
    "/var/tmp",
    "/dev/shm",
    "/opt",
    "/srv",
    "/mnt",
    "/media",
    "/home",
    "/root",
    "/etc",
    "/var",
)
"""Directories that are nobody's package."""

SHARED_IN_HOME: Final = (
    ".local",
    ".config",
    ".cache",
    ".local/share",
    ".local/bin",
    "bin",
    "Desktop",
    "Documents",
    "Downloads",
)

PREFIX_PARTS: Final = ("bin", "etc", "include", "lib", "lib64", "libexec", "share")
"""What belongs to a program in the directory above its `bin`."""

PREFIXED: Final = ("bun", "deno", "node", "perl", "python")
"""Families of interpreters with a library beside their `bin`."""

PREFIX_REST: Final = {
    *("CACHEDIR.TAG", "CHANGELOG.md", "LICENSE", "README.md", "doc", "installed", "man", "pyvenv.cfg"),
    *("sbin", "ssl", ".gitignore", ".installed", ".lock"),
}
"""What else lies in a directory that is a prefix and nothing more."""

CONFIG_BYTES: Final = 65_536
"""Of pyvenv.cfg, which has a handful of lines."""


class Bounds(NamedTuple):
    """What is too wide to be an installation: the user's home (both spellings) and the working directory."""

    home: str
    passwd_home: str
    cwd: str

    def too_wide(self, directory: str) -> bool:
        """Whether `directory` is a shared one, or holds the home or the working directory."""
        real = os.path.realpath(directory)
        homes = [home for home in (self.home, self.passwd_home) if home]
        shared = [*SHARED, *(os.path.join(home, name) for home in homes for name in SHARED_IN_HOME)]
        return real in shared or any(within(place, [real]) for place in (*homes, self.cwd))


def roots_of_script(script: str, interpreter: str, bounds: Bounds) -> list[str]:
    """Return the roots of a script that `interpreter` runs; `script` is absolute, as written."""
    roots = []
    for path in dict.fromkeys((canonical(script), os.path.realpath(script))):
        directory = os.path.dirname(path)
        environment = virtual_environment(path)
        modules = top_node_modules(path)
        if modules:
            roots.append(modules)
        elif environment:
            roots += roots_of_environment(environment, bounds)
        elif family(interpreter) in ("node", "bun", "deno") and (package := package_of(path, bounds)):
            roots += roots_of_package(package, path, bounds)
        elif bounds.too_wide(directory) or os.path.islink(path):
            roots.append(path)
        else:
            roots.append(directory)
    return roots


def roots_of_interpreter(path: str, bounds: Bounds, *, named_by_script: bool = False) -> list[str]:
    """Return the roots of the native program `path` (as written): its environment, its prefix, or itself.

    With `named_by_script` it was not the user who chose it: only a known interpreter, in a `bin`, has more.
    """
    real = os.path.realpath(path)
    known = family(real) in PREFIXED and os.path.basename(os.path.dirname(real)) == "bin"
    roots = [path, *roots_of_environment(virtual_environment(path), bounds)]
    return roots + ([real] if named_by_script and not known else roots_of_prefix(real, bounds))


def roots_of_environment(root: str, bounds: Bounds) -> list[str]:
    """Return the roots of the Python virtual environment `root`, and of the interpreter it was made from.

    Nothing for an empty `root`. Where pyvenv.cfg spells the interpreter's directory in another way than the
    link in `bin` does, Python needs both spellings; a different directory it is not believed.
    """
    if not root:
        return []
    real = os.path.realpath(os.path.join(root, "bin", "python3"))
    roots = _parts_of(root, bounds)
    for line in _lines(os.path.join(root, "pyvenv.cfg")):
        key, _, value = line.partition("=")
        home = value.strip()
        if key.strip() == "home" and home.startswith("/") and os.path.realpath(home) == os.path.dirname(real):
            roots += roots_of_prefix(os.path.join(home, os.path.basename(real)), bounds)
    return roots + roots_of_prefix(real, bounds)


def roots_of_package(root: str, script: str, bounds: Bounds) -> list[str]:
    """Return the roots of a Node package outside any node_modules: itself and the modules above it."""
    if bounds.too_wide(root):
        # The server's own checkout is where the user works: its code, not its .git and .env.
        directory = os.path.dirname(script)
        roots = [script if directory == root else directory, os.path.join(root, "package.json")]
    else:
        roots = [root]
    while root != "/":
        roots.append(os.path.join(root, "node_modules"))
        root = os.path.dirname(root)
    return roots


def canonical(path: str) -> str:
    """Return `path` with the links in its directory resolved, and its last component as it is."""
    directory, name = os.path.split(path)
    return os.path.join(os.path.realpath(directory), name)


def virtual_environment(path: str) -> str:
    """Return the virtual environment whose `bin` holds `path`, or nothing."""
    root = os.path.dirname(os.path.dirname(canonical(path)))
    return root if os.path.isfile(os.path.join(root, "pyvenv.cfg")) else ""


def top_node_modules(path: str) -> str:
    """Return the outermost `node_modules` directory that holds `path`, or nothing."""
    head, found, _ = path.partition("/node_modules/")
    return f"{head}/node_modules" if found else ""


def package_of(path: str, bounds: Bounds) -> str:
    """Return the nearest directory above `path` with a package.json, short of home; or nothing."""
    directory = os.path.dirname(path)
    while directory != "/" and directory not in (bounds.home, bounds.passwd_home):
        if os.path.isfile(os.path.join(directory, "package.json")):
            return directory
        directory = os.path.dirname(directory)
    return ""


def site_packages(prefix: str) -> list[str]:
    """Return the `lib/python3.X/site-packages` directories of a prefix."""
    library = os.path.join(prefix, "lib")
    try:
        versions = sorted(name for name in os.listdir(library) if name.startswith(("python3.", "pypy3.")))
    except OSError:
        return []
    found = [os.path.join(library, version, "site-packages") for version in versions]
    return [directory for directory in found if os.path.isdir(directory)]


def roots_of_prefix(program: str, bounds: Bounds) -> list[str]:
    """Return the roots of a native program in no environment: its prefix if it has one, or itself."""
    directory, name = os.path.split(program)
    brew, cellar, _ = program.partition("/Cellar/")
    if cellar:
        return [brew]
    prefix = os.path.dirname(directory)
    if os.path.basename(directory) != "bin":
        return [program if bounds.too_wide(directory) else directory]
    library = {"python": f"lib/{name}", "node": "lib/node_modules"}.get(family(program), "")
    if bounds.too_wide(prefix):
        return [program, os.path.join(prefix, library)] if library else [program]
    if library or any(os.path.isdir(os.path.join(prefix, part)) for part in ("lib", "libexec", "share")):
        return _parts_of(prefix, bounds)
    return [program]


def _parts_of(prefix: str, bounds: Bounds) -> list[str]:
    """Return `prefix` if it is nothing but one, else its parts."""
    try:
        names = set(os.listdir(prefix))
    except OSError:
        return []
    if names <= {*PREFIX_PARTS, *PREFIX_REST} and not bounds.too_wide(prefix):
        return [prefix]
    return [os.path.join(prefix, name) for name in (*PREFIX_PARTS, "pyvenv.cfg") if name in names]


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return [line.strip() for line in file.read(CONFIG_BYTES).splitlines()]
    except OSError:
        return []
