"""How paths are compared: allowing rules match bytes, forbidding rules match folded names.

A path here is absolute, without `.`, `..`, doubled or trailing slashes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator

_IGNORABLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
"""Code points a case-folding file system skips when it compares names (Default_Ignorable_Code_Point;
ext4 and f2fs with +F use utf8 NFDICF), as git learned from `.g\\u200cit`."""


def fold(text: str) -> str:
    """Return the form in which names are compared that must not be reached in any spelling."""
    if text.isascii():
        return text.lower()
    import unicodedata  # 1 MB of tables that an ASCII path does not need

    text = _IGNORABLE.sub("", unicodedata.normalize("NFC", text))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def below(path: str, root: str) -> bool:
    """Whether `path` is `root` or lies under it."""
    return path == root or root == "/" or path.startswith(root + "/")


def upward(path: str) -> Iterator[str]:
    """Yield `path` and every directory above it, `/` last."""
    while len(path) > 1:
        yield path
        path = path[: path.rfind("/")]
    yield "/"


def nearest(path: str, roots: Container[str]) -> str | None:
    """Return the deepest of `roots` that is `path` or holds it: one look-up for each component."""
    while path:
        if path in roots:
            return path
        path = path[: path.rfind("/")]
    return "/" if "/" in roots else None


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """Return `paths` sorted, without those that lie in another of them."""
    kept: set[str] = set()
    for path in sorted(set(paths), key=lambda path: path.count("/") if path != "/" else 0):
        if nearest(path, kept) is None:
            kept.add(path)
    return tuple(sorted(kept))
