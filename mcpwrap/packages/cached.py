"""What a launcher's cache holds: whether a package is there already, and in which version.

The server writes that cache while it starts, so what is read here is its word: it is bounded, nothing is
opened that is not a regular file of the cache, and nothing but a version is taken from it.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpwrap.packages.launcher import Package

MAX_PLACES: Final = 64
"""Directories of one cache that are looked at; each server has a cache of its own, with one package in it."""
FILE_BYTES: Final = 262_144
_VERSION: Final = re.compile(r"[0-9][0-9A-Za-z.+!_-]{0,63}")


def cached_version(package: Package, cache: str) -> str:
    """Return the version that is in `cache` and is what `package` asks for; "" if a registry must be asked.

    Of several the one unpacked last. An unversioned package is what is there; `@latest` is asked for each time.
    """
    if package.moving or not package.plain:
        return ""
    exact = package.version.removeprefix("==").removeprefix("=").removeprefix("v")
    version = installed_version(package, cache)
    return version if exact in ("", version) else ""


def installed_version(package: Package, cache: str) -> str:
    """Return the version of the package that was unpacked into `cache` last, "" if there is none."""
    name = package.name.partition("/")[2]
    places = _npx(package, name, cache) if package.registry == "npm" else _environments(name, cache)
    if package.profile not in ("npx", "uvx"):
        return ""
    newest = max(places, default=(0.0, ""))
    return newest[1]


def _npx(package: Package, name: str, cache: str) -> Iterator[tuple[float, str]]:
    """Yield (time, version) of each directory npx made for exactly this package."""
    spec = f"{name}@{package.version}" if package.version else name
    for place in _directories(f"{cache}/npm/_npx"):
        made = _json(f"{place}/package.json", cache)
        wanted = made.get("_npx")
        if not (isinstance(wanted, dict) and wanted.get("packages") == [spec]):
            continue
        version = _json(f"{place}/node_modules/{name}/package.json", cache).get("version")
        # npm writes this last, when everything else is in its place.
        whole = _regular(f"{place}/node_modules/.package-lock.json", cache)
        if whole and isinstance(version, str) and _VERSION.fullmatch(version):
            yield os.path.getmtime(place), version


def _environments(name: str, cache: str) -> Iterator[tuple[float, str]]:
    """Yield (time, version) of each environment of uv's cache that has the package."""
    spelled = "[-_.]+".join(map(re.escape, name.split("-")))
    pattern = re.compile(rf"{spelled}-([^-]+)\.dist-info", re.IGNORECASE)
    # Wheels are kept beside the environments they are linked into.
    for place in _directories(f"{cache}/uv/archive-v0", having="pyvenv.cfg"):
        for library in _directories(f"{place}/lib"):
            try:
                names = os.listdir(f"{library}/site-packages")
            except OSError:
                continue
            for each in names:
                found = pattern.fullmatch(each)
                if found and _VERSION.fullmatch(found[1]):
                    yield os.path.getmtime(place), found[1]


def _directories(path: str, having: str = "") -> list[str]:
    """Return the directories in `path` (those that hold the file `having`), of many those changed last."""
    try:
        with os.scandir(path) as entries:
            found = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if having:
            found = [each for each in found if os.path.lexists(f"{each}/{having}")]
        return sorted(found, key=os.path.getmtime)[-MAX_PLACES:]
    except OSError:
        return []


def _regular(path: str, cache: str) -> bool:
    """Whether `path` is a regular file that no link leads out of the cache for."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.path.realpath(path) == os.path.join(
            os.path.realpath(cache), os.path.relpath(path, cache)
        )
    except (OSError, ValueError):
        return False


def _json(path: str, cache: str) -> dict[str, Any]:
    if not _regular(path, cache):
        return {}
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(path, flags), "rb") as file:
            found = json.loads(file.read(FILE_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
