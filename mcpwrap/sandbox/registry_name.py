"""The name a server's grant, audit and state are filed under: its registry name, whole.

`npm/@scope/package`, `pypi/name`, `file/<sha8>-name`. Only what lies in a `node_modules` or in a Python
environment has a registry name: a checkout that calls itself like a known package must not get its grant.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from mcpwrap.sandbox.roots import site_packages, virtual_environment

if TYPE_CHECKING:
    from collections.abc import Iterable

METADATA_BYTES: Final = 1_048_576
"""Of RECORD or entry_points.txt; the largest RECORD seen is 600 kB."""

NPM_NAME: Final = re.compile(r"(@[a-z0-9~-][a-z0-9._~-]*/)?[a-zA-Z0-9~-][a-zA-Z0-9._~-]*")
PYPI_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
SPELLINGS: Final = re.compile(r"[-_.]+")
"""What PyPI takes for one and the same dash."""


def npm_name(script: str) -> str:
    """Return the package whose directory in a `node_modules` holds the real path `script`, or nothing.

    The directory is called what the user installed; what package.json says is the package's own claim, and
    so is a `node_modules` inside of it. pnpm's store (`node_modules/.pnpm/NAME@1/node_modules/NAME`) has two.
    """
    parts = script.split("/")
    while "node_modules" in parts:
        parts = parts[parts.index("node_modules") + 1 :]
        if parts[:1] == [".pnpm"]:
            continue
        name = "/".join(parts[: 2 if parts[:1] and parts[0].startswith("@") else 1])
        return name if len(parts) > name.count("/") + 1 and NPM_NAME.fullmatch(name) else ""
    return ""


def pypi_name(prefixes: Iterable[str], script: str, module: str) -> str:
    """Return the distribution that put the command `script` (or top-level `module`) into one of `prefixes`.

    A prefix is a directory with `lib/python3.X/site-packages`, or such a directory itself.
    """
    command = os.path.basename(script)
    top = module.partition(".")[0]
    for prefix in prefixes:
        for packages in site_packages(prefix) or [prefix]:
            for info in _by_likeness(packages, top or command):
                directory = os.path.join(packages, info)
                if not (_owns_module(directory, top) if top else _owns_command(directory, command)):
                    continue
                name = info.removesuffix(".dist-info").rpartition("-")[0]
                if PYPI_NAME.fullmatch(name):
                    return SPELLINGS.sub("-", name).lower()
    return ""


def file_name(path: str) -> str:
    """Return `<sha8>-name` of a program without a registry name; its place is its identity."""
    from hashlib import sha256  # here only: 2 ms of start-up that a packaged server need not pay

    name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(path)).lstrip(".")[:64]
    return f"{sha256(os.fsencode(path)).hexdigest()[:8]}-{name or 'server'}"


def environment_of(script: str) -> str:
    """Return the virtual environment that holds the command, links out of a shared `bin` followed."""
    return virtual_environment(script) or virtual_environment(os.path.realpath(script))


def _by_likeness(packages: str, wanted: str) -> list[str]:
    """Return the `*.dist-info` names, those spelled like `wanted` first: nearly always the only one read."""
    try:
        names = [name for name in os.listdir(packages) if name.endswith(".dist-info")]
    except OSError:
        return []
    return sorted(names, key=lambda name: (not _spelling(name).startswith(_spelling(wanted) + "_"), name))


def _owns_command(info: str, command: str) -> bool:
    pattern = rf"(?m)^{re.escape(command)}\s*="
    return bool(command) and re.search(pattern, _text(os.path.join(info, "entry_points.txt"))) is not None


def _owns_module(info: str, module: str) -> bool:
    if module in _text(os.path.join(info, "top_level.txt")).split():
        return True
    # A RECORD may be long and an environment large: only of the distribution that is called like its module.
    alike = _spelling(os.path.basename(info)).startswith(_spelling(module) + "_")
    return alike and f"\n{module}/" in "\n" + _text(os.path.join(info, "RECORD"))


def _spelling(name: str) -> str:
    return SPELLINGS.sub("_", name).lower()


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(METADATA_BYTES)
    except OSError:
        return ""
