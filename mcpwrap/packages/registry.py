"""Which registry a launcher is configured to ask: for `[startup] net`, and for its environment.

The server's private HOME holds no ~/.npmrc, so what the user configured is handed over: the registries, and
the certificate authority they need. Credentials are not; what to do about them is said. A file in the working
directory is never asked: a repository must not choose where code comes from.
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from mcpwrap import profiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwrap.packages.launcher import Package

NPM: Final = f"https://{profiles.PUBLIC['NPM_REGISTRY'][0]}/"
JSR: Final = f"https://{profiles.PUBLIC['JSR_REGISTRY'][0]}/"
PYPI: Final = f"https://{profiles.PUBLIC['PYPI_INDEX'][0]}/simple"
"""What is asked when nothing is configured."""

CONFIG_BYTES: Final = 262_144
"""Of one configuration file; they have a handful of lines."""

_EXPANSION: Final = re.compile(r"(?<!\\)\$\{([^${}]+)\}")
_CREDENTIALS: Final = ("_authtoken", "_auth", "_password", "username", "certfile", "keyfile")


class Registries(NamedTuple):
    """What is configured. `hosts`: for each variable of the profiles, what stands for it, as `net` says it.
    `environment`: what the launcher is told. `notes`: lines for the user."""

    hosts: Mapping[str, tuple[str, ...]]
    environment: Mapping[str, str]
    notes: tuple[str, ...] = ()


def registries(package: Package, environ: Mapping[str, str], home: str, program: str) -> Registries:
    """Return what the launcher of `package` is configured to ask, in the environment of mcpwrap itself.

    `program` is the launcher's file: npm keeps the machine's configuration beside itself.
    """
    if package.registry == "pypi":
        return _pypi(package, environ, home)
    return _npm(package, environ, home, program)


def _npm(package: Package, environ: Mapping[str, str], home: str, program: str) -> Registries:
    settings: dict[str, str] = {}
    notes = []
    for file in _npmrcs(environ, home, program):
        found = _npmrc(_text(file), environ)
        settings |= found
        if any(key.startswith("//") and key.rpartition(":")[2].lower() in _CREDENTIALS for key in found):
            notes.append(
                f"{file} holds credentials of a registry, which are not passed on; a private package needs "
                f'fs_read = ["{file}"] in [startup]'
            )
    prefix = "npm_config_"
    for name, value in environ.items():
        if name.lower().startswith(prefix) and value:
            key = name[len(prefix) :]
            settings[key if key.startswith(("@", "//")) else key.lower().replace("_", "-")] = value
    if package.asked:
        settings["registry"] = package.asked
    scopes = {
        key: value for key, value in settings.items() if key.startswith("@") and key.endswith(":registry")
    }
    registry = settings.get("registry") or NPM
    told = {f"{prefix}registry": _bare(registry)} if "registry" in settings else {}
    told |= {f"{prefix}{key}": _bare(value) for key, value in scopes.items()}
    if settings.get("cafile", "").startswith("/"):
        told[f"{prefix}cafile"] = settings["cafile"]
    if package.profile == "deno" and "registry" in settings:
        told["NPM_CONFIG_REGISTRY"] = _bare(registry)
    jsr = environ.get("JSR_URL") or JSR
    if jsr != JSR:
        told["JSR_URL"] = _bare(jsr)
    return Registries(
        {
            "NPM_REGISTRY": _hosts([registry, *scopes.values()]),
            "JSR_REGISTRY": _hosts([jsr]) if jsr != JSR else profiles.PUBLIC["JSR_REGISTRY"],
        },
        told,
        tuple(notes),
    )


def _npmrcs(environ: Mapping[str, str], home: str, program: str) -> list[str]:
    """Return npm's configuration files, those that win last: its own, the machine's, the user's."""
    lower = {name.lower(): value for name, value in environ.items()}
    real = os.path.realpath(program)
    npm = real.partition("/node_modules/npm/")
    files = [f"{npm[0]}/node_modules/npm/npmrc"] if npm[1] else []
    prefix = lower.get("npm_config_prefix") or (os.path.dirname(npm[0]) if npm[1] else "/usr")
    files.append(lower.get("npm_config_globalconfig") or f"{prefix}/etc/npmrc")
    files.append(lower.get("npm_config_userconfig") or f"{home}/.npmrc")
    return [file for file in files if file.startswith("/")]


def _npmrc(text: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of an npmrc: `key = value` lines, `${VAR}` expanded (npm's own ini)."""
    out: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if not equals or key.startswith((";", "#", "[")):
            continue
        value = value.strip().strip("\"'")
        out[key.strip().strip("\"'")] = _EXPANSION.sub(lambda each: environ.get(each[1], each[0]), value)
    return out


def _pypi(package: Package, environ: Mapping[str, str], home: str) -> Registries:
    config: dict[str, object] = {}
    base = environ.get("XDG_CONFIG_HOME", "")
    base = base if base.startswith("/") else f"{home}/.config"
    named = environ.get("UV_CONFIG_FILE", "")
    for file in [named] if named else ["/etc/uv/uv.toml", f"{base}/uv/uv.toml"]:
        config |= _toml(_text(file))
    default, others = _configured(config)
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        default = _url(environ.get(name, "")) or default
    for name in ("UV_EXTRA_INDEX_URL", "UV_INDEX"):
        others += [_url(word) for word in environ.get(name, "").split()]
    default = package.asked or default
    told = {"UV_DEFAULT_INDEX": _bare(default)} if default else {}
    if others:
        told["UV_INDEX"] = " ".join(map(_bare, others))
    if config.get("native-tls") is True:
        told["UV_NATIVE_TLS"] = "1"
    every = [default or PYPI, *others]
    notes = [
        f"the index {_bare(url)} is configured with credentials, which are not passed on; a private package needs "
        'env = ["UV_DEFAULT_INDEX"], or the variable that holds them, in [server]'
        for url in every
        if _bare(url) != url
    ]
    hosts = _hosts(every)
    if any(url.rstrip("/") == PYPI for url in every):
        # The pages of that index lead to another host; any other one is expected to serve the files itself.
        hosts = tuple(dict.fromkeys((*hosts, *profiles.PUBLIC["PYPI_INDEX"])))
    return Registries({"PYPI_INDEX": hosts}, told, tuple(notes))


def _configured(config: Mapping[str, object]) -> tuple[str, list[str]]:
    """Return the default index and the others of a uv.toml."""
    default = str(config.get("index-url") or "")
    extra = config.get("extra-index-url")
    others = [str(url) for url in extra] if isinstance(extra, list) else []
    indexes = config.get("index")
    for each in indexes if isinstance(indexes, list) else []:
        if isinstance(each, dict) and "url" in each:
            if each.get("default") is True:
                default = str(each["url"])
            else:
                others.append(str(each["url"]))
    return default, others


def _toml(text: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError:
        return {}  # uv says so itself


def _url(word: str) -> str:
    """Return the URL of `name=url` or `url`."""
    name, equals, url = word.partition("=")
    return url if equals and "/" not in name else word


def _bare(url: str) -> str:
    """Return `url` without the user and the password in it."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


def _hosts(urls: Iterable[str]) -> tuple[str, ...]:
    """Return the hosts of `urls` as entries of `net`; what is no http(s) URL has none."""
    out: dict[str, None] = {}
    for url in urls:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            continue
        if not host or parts.scheme not in ("http", "https"):
            continue
        port = port or (443 if parts.scheme == "https" else 80)
        shown = f"[{host}]" if ":" in host else host
        out[shown if port == 443 else f"{shown}:{port}"] = None
    return tuple(out)


def _text(path: str) -> str:
    """Return the text of a regular file, "" if it cannot be read."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(CONFIG_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):
        pass
    return ""
