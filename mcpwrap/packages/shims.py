"""Programs of version managers: a shim on PATH stands for the real one that the manager would choose.

A shim runs the manager, which runs a dozen programs or reads half of HOME to find this out, all outside of
any package. So it is found out here, from the same files, by reading alone. A directory that is worked in may
choose between the versions the user has installed, as with the manager; never anything else.

nvm and fnm have no shims: they put the real directory on PATH, which clients started from a desktop do not see.
"""

from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, Final

from mcpwrap.errors import CommandNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

FILE_BYTES: Final = 65_536
"""Of one configuration file; package.json is the longest of them."""

MISE_FILES: Final = ("mise.local.toml", "mise.toml", ".mise.toml", ".config/mise.toml", ".tool-versions")
"""Where mise looks in each directory upward, the ones that win first."""

_PLUGIN: Final = r"(?m)^# asdf-plugin: (\S+) (\S+)$"
_VERSION: Final = r"v?[0-9A-Za-z][0-9A-Za-z.+_-]{0,63}"
"""What may be the name of a directory of versions: no path, nothing hidden."""


class _Unchosen(Exception):
    """The manager has this shim, and no version of it is chosen; the text is what would choose one."""


def unshimmed(path: str, environ: Mapping[str, str], cwd: str) -> str:
    """Return the program that the shim at `path` stands for; any other path as it is.

    Empty where the manager leaves it to the rest of PATH. Raises CommandNotFound where nobody has chosen.
    """
    home = environ.get("HOME", "")
    for manager, find in _MANAGERS.items():
        try:
            real = find(path, environ, cwd, home)
        except _Unchosen as unchosen:
            name = os.path.basename(path)
            raise CommandNotFound(
                f"{path!r} is a shim of {manager}, and no version of `{name}` is chosen",
                f"{unchosen}; or name the program itself, which that prints",
            ) from None
        if real is not None:
            return real
    return path


def _pyenv(path: str, environ: Mapping[str, str], cwd: str, _home: str) -> str | None:
    directory, name = os.path.split(path)
    base = os.path.dirname(directory)
    if os.path.basename(directory) != "shims" or not os.path.isdir(f"{base}/versions"):
        return None
    if environ.get("PYENV_VERSION"):
        words = environ["PYENV_VERSION"].split(":")
    else:
        files = [*(f"{each}/.python-version" for each in _upward(cwd)), f"{base}/version"]
        # The nearest file wins even if it says nothing.
        words = next((_text(file).split() for file in files if os.path.isfile(file)), [])
    found = (f"{base}/versions/{word}/bin/{name}" for word in words if re.fullmatch(_VERSION, word))
    return next(filter(_executable, found), "")


def _asdf(path: str, environ: Mapping[str, str], cwd: str, home: str) -> str | None:
    directory, name = os.path.split(path)
    base = os.path.dirname(directory)
    plugins = re.findall(_PLUGIN, _text(path)) if os.path.basename(directory) == "shims" else []
    if not plugins:
        return None
    for plugin in dict.fromkeys(each for each, _ in plugins):
        versions = environ.get(f"ASDF_{plugin.upper().replace('-', '_')}_VERSION", "").split()
        files = environ.get("ASDF_DEFAULT_TOOL_VERSIONS_FILENAME") or ".tool-versions"
        places = [*_upward(cwd), home]
        found = versions or next(
            filter(None, (_tool_versions(f"{each}/{files}", plugin) for each in places)), []
        )
        for version in found:
            if version == "system":
                return ""
            real = f"{base}/installs/{plugin}/{version}/bin/{name}"
            if re.fullmatch(_VERSION, version) and _executable(real):
                return real
    raise _Unchosen(f"asdf which {name}")


def _mise(path: str, environ: Mapping[str, str], cwd: str, home: str) -> str | None:
    directory, name = os.path.split(path)
    base = os.path.dirname(directory)
    shim = os.path.basename(directory) == "shims" and os.path.basename(os.path.realpath(path)) == "mise"
    if not shim:
        return None
    config = environ.get("MISE_CONFIG_DIR") or f"{environ.get('XDG_CONFIG_HOME') or f'{home}/.config'}/mise"
    files = [f"{each}/{file}" for each in _upward(cwd) for file in MISE_FILES] + [f"{config}/config.toml"]
    for tool in _names(f"{base}/installs"):
        if not any(
            _executable(f"{base}/installs/{tool}/{each}/bin/{name}")
            for each in _names(f"{base}/installs/{tool}")
        ):
            continue
        versions = environ.get(f"MISE_{tool.upper().replace('-', '_')}_VERSION", "").split()
        for version in versions or next(filter(None, (_mise_tool(file, tool) for file in files)), []):
            if version == "system":
                return ""
            # Beside the versions themselves mise keeps links for their beginnings: `22`, `latest`.
            real = f"{base}/installs/{tool}/{version}/bin/{name}"
            if re.fullmatch(_VERSION, version) and _executable(real):
                return os.path.join(os.path.realpath(f"{base}/installs/{tool}/{version}"), "bin", name)
    raise _Unchosen(f"mise which {name}")


def _volta(path: str, environ: Mapping[str, str], cwd: str, home: str) -> str | None:
    directory, name = os.path.split(path)
    if os.path.basename(os.path.realpath(path)) != "volta-shim":
        return None
    base = environ.get("VOLTA_HOME") or (
        os.path.dirname(directory) if os.path.basename(directory) == "bin" else f"{home}/.volta"
    )
    tools = f"{base}/tools"
    package = _json(f"{tools}/user/bins/{name}.json").get("package")
    if isinstance(package, str) and ".." not in package.split("/"):
        real = f"{tools}/image/packages/{package}/bin/{name}"
        if _executable(real):
            return real
    pinned = (_json(f"{each}/package.json").get("volta") for each in _upward(cwd))
    chosen = next((each["node"] for each in pinned if isinstance(each, dict) and "node" in each), None)
    if chosen is None:
        node = _json(f"{tools}/user/platform.json").get("node")
        chosen = node.get("runtime") if isinstance(node, dict) else None
    real = f"{tools}/image/node/{chosen}/bin/{name}"
    if isinstance(chosen, str) and re.fullmatch(_VERSION, chosen) and _executable(real):
        return real
    raise _Unchosen(f"volta which {name}")


_MANAGERS: Final[dict[str, Callable[[str, Mapping[str, str], str, str], str | None]]] = {
    "asdf": _asdf,
    "mise": _mise,
    "volta": _volta,
    "pyenv": _pyenv,
}


def _tool_versions(file: str, tool: str) -> list[str]:
    """Return the versions a `.tool-versions` names for `tool`: `tool version [version...]`, one tool a line."""
    for line in _text(file).splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == [tool]:
            return words[1:]
    return []


def _mise_tool(file: str, tool: str) -> list[str]:
    """Return the versions one configuration file of mise names for `tool`."""
    if file.endswith(".tool-versions"):
        return _tool_versions(file, tool)
    text = _text(file)
    if not text:
        return []
    import tomllib

    try:
        tools = tomllib.loads(text).get("tools")
    except ValueError:
        return []
    wanted = tools.get(tool) if isinstance(tools, dict) else None
    out = []
    for each in wanted if isinstance(wanted, list) else [wanted]:
        version = each.get("version") if isinstance(each, dict) else each
        out += [version] if isinstance(version, str) else []
    return out


def _upward(directory: str) -> Iterator[str]:
    while directory != "/":
        yield directory
        directory = os.path.dirname(directory)


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _executable(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False


def _text(path: str) -> str:
    """Return the beginning of a regular file, "" if it cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        pass
    return ""


def _json(path: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(path) or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
