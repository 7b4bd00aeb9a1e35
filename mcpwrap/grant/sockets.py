"""One entry of `unix` or `listen`: text in, `UnixRule` or `ListenRule` out. Raises ValueError with the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from mcpwrap.grant.grant import ListenRule, UnixRule, Where
from mcpwrap.grant.hosts import port_of
from mcpwrap.grant.paths import below, normalize, too_wide
from mcpwrap.grant.pattern import is_glob
from mcpwrap.grant.problem import Wrong
from mcpwrap.grant.render import path_text
from mcpwrap.grant.rules import safe

if TYPE_CHECKING:
    from mcpwrap.grant.paths import Variables

SOCKET_PATH_BYTES: Final = 107
"""Bytes of the longest path that can be connected to: `sun_path` of sys/un.h has 108, the last of them 0."""

_HERE: Final = ("localhost", "127.0.0.1", "[::1]")
_EVERYWHERE: Final = ("0.0.0.0", "[::]", "*")
_LISTEN: Final = re.compile(r"(?:(.*):)?([^:\]]*)")


def unix_rule(rule_id: str, text: str, where: Where, variables: Variables) -> UnixRule:
    """Make the rule of one `unix` entry: it names one socket exactly."""
    safe(text)
    if text.startswith("$arg"):
        raise Wrong("a socket cannot come from an argument of the call", "name it")
    if text.startswith("@"):
        raise Wrong(
            "abstract sockets are of a network namespace, and the sandbox has its own",
            "let the other side listen on a path, and name that",
        )
    if "://" in text:
        raise Wrong("a socket is a path, no URL", f'write "{text.partition("://")[2]}"')
    if "TMP" in variables.names_of(text):
        raise Wrong("$TMP is private to the server: what it makes there needs no rule", "remove the line")
    path = normalize(safe(variables.expand(text)))
    if is_glob(path):
        raise Wrong("a socket is named exactly: wildcards are not allowed here")
    reason = too_wide(path, variables)
    if reason is None and below(path, "/proc"):
        reason = "the server sees the processes of its own sandbox in /proc, whatever a grant says"
    if reason is not None:
        raise Wrong(reason)
    if len(path.encode("utf-8", "surrogateescape")) > SOCKET_PATH_BYTES:
        raise Wrong(f"the path of a socket has at most {SOCKET_PATH_BYTES} bytes")
    return UnixRule(rule_id, text, where, path)


def listen_rule(rule_id: str, text: str, where: Where) -> ListenRule:
    """Make the rule of one `listen` entry: "8080", "localhost:8080" or "any:8080"."""
    match = _LISTEN.fullmatch(safe(text))
    host, port = (match[1], match[2]) if match is not None else (text, "")
    if host in _EVERYWHERE:
        raise Wrong(f'"{host}" is every address of this machine', f'write "any:{port}"')
    if host is not None and host != "any" and host not in _HERE:
        raise Wrong(
            f'"{host}" is no place to listen', 'as in "localhost:8080", or "any:8080" for every address'
        )
    if port == "*":
        raise Wrong("a port to listen on is named", 'as in "localhost:8080"')
    return ListenRule(rule_id, text, where, port_of(port), host == "any")


def socket_text(path: str, home: str = "") -> str | None:
    """Return the text of a `unix` rule that names exactly this absolute path, None if none can."""
    text = path_text(path, home)
    return text if text is not None and len(path.encode()) <= SOCKET_PATH_BYTES else None
