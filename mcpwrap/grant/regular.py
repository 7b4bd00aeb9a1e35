"""Patterns of `args`: RE2, whose time is linear in the text, for the text is the model's.

RE2 is the one thing of the package that the standard library has not: it is imported where a grant has a
pattern, and nowhere else.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

REMEMBERED: Final = 1_024
"""Compiled patterns that are kept: as many as a grant may have rules."""


class NoRE2(Exception):
    """The module is not there, so no pattern can be held."""


WAY_OUT: Final = "install it beside mcpwrap: pip install google-re2 (or pipx inject mcpwrap google-re2)"


@lru_cache(maxsize=REMEMBERED)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a whole text matches `pattern`; half of a surrogate pair never does.

    Raises ValueError with the reason if it is no RE2, and NoRE2.
    """
    try:
        import re2
    except ImportError:
        raise NoRE2 from None
    options = re2.Options()
    options.log_errors = False  # RE2 would write what it thinks of a pattern to stderr
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        raise ValueError(
            reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        ) from None

    def matches(text: str) -> bool:
        try:
            return compiled.fullmatch(text) is not None
        except UnicodeEncodeError:
            return False

    return matches
