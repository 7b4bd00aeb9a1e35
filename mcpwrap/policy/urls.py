"""The host in an argument: read as every reader of URLs reads it, or not at all.

The WHATWG URL standard and RFC 3986 part ways on backslashes, missing slashes, control characters, percent
signs and a second `@`; IDNA 2003 and 2008 on some letters. What they do not agree on is no host: a server
that reads it otherwise than mcpwrap would be refused a host its call seems to name.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from mcpwrap.policy.addresses import is_number, read
from mcpwrap.policy.bind import AMBIGUOUS, NO_HOST
from mcpwrap.policy.hosts import canonical_name

MAX_PORT: Final = 0xFFFF

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):", re.ASCII)
_PORT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:%-]*", re.ASCII)
_UNFIT = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029\\%<>^`{|}\"]")
_DEVIATIONS = re.compile("[\u00df\u03c2\u200c\u200d]")
"""Letters IDNA 2003 maps away and IDNA 2008 keeps (UTS 46): the same text names two hosts."""

_WEB: Final = frozenset(("http", "https", "ws", "wss", "ftp"))
"""The schemes whose readers make up for slashes that are missing. Of the first four no client sends a user."""
_NO_NETWORK: Final = frozenset(
    ("file", "data", "javascript", "about", "blob", "mailto", "tel", "sms", "urn", "cid", "chrome", "view-source")
)  # fmt: skip
_HTTP: Final = {"http": 80, "ws": 80}


class Place(NamedTuple):
    """`host` is a canonical name or an address; `port` the one that is named, `usual` else."""

    host: str | bytes
    port: int | None
    usual: int = 443


def place_in(value: str) -> Place | str:
    """Return the host `value` names: a URL of any scheme, or a bare `host`, `host:port`. Else the reason."""
    match = _URL.match(value)
    if match is None:
        scheme = _SCHEME.match(value)
        if scheme is not None and scheme[1].lower() in _WEB | _NO_NETWORK:
            return AMBIGUOUS if scheme[1].lower() in _WEB else NO_HOST
        if any(mark in value for mark in "/?#@"):
            return NO_HOST
        return _authority(value, 443)
    scheme_name, authority = match[1].lower(), match[2]
    if scheme_name in _NO_NETWORK:
        return NO_HOST
    user, at, where = authority.rpartition("@")
    # `https://good.example@evil.example/` names evil.example, and is written to look as if it did not.
    if at and (scheme_name in _WEB or not _USER.fullmatch(user)):
        return AMBIGUOUS
    return _authority(where, _HTTP.get(scheme_name, 443))


def _authority(text: str, usual: int) -> Place | str:
    if not text:
        return NO_HOST
    if _UNFIT.search(text):
        return AMBIGUOUS
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        host: str | bytes | None = read(f"[{inner}]") if bracket else None
        colon, after = rest[:1], rest[1:]
        if host is None or colon not in ("", ":"):
            return AMBIGUOUS
    elif text.count(":") > 1:
        host, colon, after = read(text), "", ""
        if host is None:
            return AMBIGUOUS
    else:
        name, colon, after = text.partition(":")
        found = _host(name)
        if found in (NO_HOST, AMBIGUOUS):
            return str(found)
        host = found
    if not colon:
        return Place(host, None, usual)
    if not _PORT.fullmatch(after) or int(after) > MAX_PORT:
        return AMBIGUOUS
    return Place(host, int(after), usual)


def _host(text: str) -> str | bytes:
    """Return a canonical name or an address, or the reason: no host has a name like either of the two."""
    if not text.isascii():
        return _a_labels(text)
    if is_number(text):
        data = read(text)
        return data if data is not None else AMBIGUOUS
    return canonical_name(text) or NO_HOST


def _a_labels(text: str) -> str:
    import unicodedata  # 1 MB of tables that an ASCII name does not need

    lower = text.lower()
    # Full-width letters, other dots and letters in pieces would be mapped to something else than is seen.
    if _DEVIATIONS.search(lower) or unicodedata.normalize("NFKC", text) != text:
        return AMBIGUOUS
    try:
        encoded = lower.encode("idna")
        same = encoded.decode("idna") == lower
    except UnicodeError:
        return AMBIGUOUS
    name = canonical_name(encoded.decode("ascii")) if same else None
    return name or AMBIGUOUS
