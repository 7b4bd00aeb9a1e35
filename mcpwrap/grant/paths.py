"""Variables, and the paths made from them: text in, absolute normalized paths out.

Nothing is looked up here; the values of the variables are given.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH_MAX = 4_096
"""Bytes of the longest path Linux takes (`PATH_MAX` of linux/limits.h)."""

_VARIABLE = re.compile(r"\$(\$|[A-Za-z_][A-Za-z0-9_]*)?")

UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters, line separators and the bidirectional controls of UAX #9: none may be in a rule,
for a rule must be what it looks like."""

_PROVIDED = {
    "/proc": "the server sees the processes of its own sandbox there, whatever a grant says",
    "/dev": "the server has a minimal /dev of its own, whatever a grant says",
}


class Variables(NamedTuple):
    """What `~` and `$NAME` stand for. All paths are absolute; `passwd_home` may be empty (no entry)."""

    home: str
    passwd_home: str
    cwd: str
    tmp: str
    state: str
    cache: str
    environ: Mapping[str, str]

    def lookup(self, name: str) -> str:
        """Return the value of `$name`. Raises ValueError if it is unset or empty."""
        own = {"CWD": self.cwd, "TMP": self.tmp, "STATE": self.state, "CACHE": self.cache}
        value = own[name] if name in own else self.environ.get(name)
        if value is None:
            raise ValueError(f"${name} is not set")
        if not value:
            raise ValueError(f"${name} is empty")
        return value

    def expand(self, text: str) -> str:
        """Replace a leading `~`, every `$NAME`, and `$$` (one `$`).

        Raises ValueError with the reason: an unset or empty variable, a `$` that begins no name,
        `~user`.
        """
        if text.startswith("~"):
            if len(text) > 1 and text[1] != "/":
                raise ValueError('"~name" is not supported: "~" stands for your own home only')
            text = self.home.replace("$", "$$") + text[1:]

        def value(match: re.Match[str]) -> str:
            name = match[1]
            if name == "$":
                return "$"
            if not name:
                raise ValueError('a "$" that begins no variable is written "$$"')
            return self.lookup(name)

        return _VARIABLE.sub(value, text)

    def names_of(self, text: str) -> tuple[str, ...]:
        """Return the names of the variables in `text`."""
        return tuple(name for name in _VARIABLE.findall(text) if name not in ("", "$"))


def normalize(path: str) -> str:
    """Return an absolute path without `.`, doubled and trailing slashes.

    Raises ValueError if it is relative, too long, or has a `..`, which would mean one thing as
    written and another where a component is a symbolic link.
    """
    if not path.startswith("/"):
        raise ValueError('a path must be absolute: begin it with "/", "~/" or "$CWD/"')
    if ".." in path.split("/"):
        raise ValueError('".." is not allowed: write the path it leads to')
    if len(path.encode("utf-8", "surrogateescape")) >= PATH_MAX:
        raise ValueError(f"the path is longer than {PATH_MAX - 1} bytes")
    return "/" + posixpath.normpath(path).lstrip("/")


def below(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies under it; both absolute and normalized."""
    return path == root or path.startswith(root if root == "/" else root + "/")


def too_wide(path: str, variables: Variables) -> str | None:
    """Return why a rule may not name this directory, None if it may."""
    if path == "/":
        return '"/" is the whole machine: name the directories that are needed'
    for home in (variables.home, variables.passwd_home):
        if path == home:
            return "this is your home directory, which is private by design: name a directory in it"
        if home and below(home, path):
            return "this holds your home directory, which is private by design: name a directory further down"
    return None


def provided(path: str, variables: Variables) -> str | None:
    """Return why a grant of this path would add nothing: the sandbox has its own in that place."""
    for root, reason in _PROVIDED.items():
        if below(path, root) and not below(path, "/dev/shm"):
            return reason
    if path in (variables.tmp, "/tmp", "/dev/shm"):
        return f"{path} is private to the server and always writable: remove the line"
    return None
