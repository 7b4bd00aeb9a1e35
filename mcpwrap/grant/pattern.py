"""The two pattern languages of a grant file: path globs and tool headers.

Globs: `*` is any run of characters of one component, `?` one character of a component, `**` as a
whole component any number of components, none included. Everything else, `[` too, is itself. A
pattern that matches a directory holds for what is below it.

Both become regular expressions that need no backtracking: the server chooses the names they are
matched against, and must not be able to make a match expensive.
"""

from __future__ import annotations

import re

WILDCARDS = "*?"
ANY_DEPTH = "**"

_COMPONENT_END = r"(?=/|\Z)"


def is_glob(text: str) -> bool:
    return any(mark in text for mark in WILDCARDS)


def glob_error(text: str) -> str | None:
    """Return why `text` is no well-formed glob, None if it is one."""
    components = text.split("/")
    if any(ANY_DEPTH in component and component != ANY_DEPTH for component in components):
        return '"**" stands for whole directories, so it must stand alone between slashes'
    if all(component in ("", ANY_DEPTH) for component in components):
        return "the pattern names nothing: it would match every path"
    return None


def literal_directory(glob: str) -> str:
    """Return the deepest directory that all matches of a glob lie in or are, `/` if none is named."""
    components: list[str] = []
    if not glob.startswith("/"):
        return "/"
    for component in glob.split("/")[1:]:
        if is_glob(component):
            break
        components.append(component)
    return "/" + "/".join(components)


def glob_regex(glob: str) -> str:
    """Return the source of a regular expression for `re.match`, from the start of an absolute path.

    It matches the paths the glob matches and every path below one. Time is linear in the path for
    each component of the glob: whatever follows a `**` is taken at its first place (an atomic
    group), which is right because a match needs only a prefix of the path.
    """
    out: list[str] = []
    run: list[str] = []
    anywhere = False
    components = glob.lstrip("/").split("/")
    for component in [*components, ANY_DEPTH]:
        if component != ANY_DEPTH:
            run.append("/" + _component(component))
            continue
        if run:
            fixed = "".join(run)
            out.append(rf"(?>(?:/[^/]*+)*?{fixed}{_COMPONENT_END})" if anywhere else fixed + _COMPONENT_END)
            run = []
        anywhere = True
    return "(?s:" + "".join(out) + ")"


def _component(text: str) -> str:
    """Translate one component; the caller anchors its end."""
    pieces = re.split(r"\*+", text)
    parts = ["".join("[^/]" if char == "?" else re.escape(char) for char in piece) for piece in pieces]
    if len(parts) == 1:
        return parts[0]
    first, *middle, last = parts
    inner = "".join(f"(?>[^/]*?{part})" for part in middle if part)
    return f"{first}{inner}(?>[^/]*?{last}{_COMPONENT_END})"


def header_patterns(header: str) -> tuple[str, ...]:
    """Split a tool header into its alternatives. Raises ValueError with the reason."""
    patterns = tuple(header.split("|"))
    if any(not pattern for pattern in patterns):
        raise ValueError("an alternative of the header is empty")
    if any(pattern != pattern.strip() for pattern in patterns):
        raise ValueError("an alternative of the header begins or ends with a space")
    if len(set(patterns)) != len(patterns):
        twice = next(pattern for pattern in patterns if patterns.count(pattern) > 1)
        raise ValueError(f'"{twice}" is listed twice in one header')
    if "*" in patterns and len(patterns) > 1:
        raise ValueError('"*" is every tool: it stands alone, the other alternatives add nothing')
    return patterns


def header_regex(patterns: tuple[str, ...]) -> str:
    """Return the source of a regular expression that `re.fullmatch`es the tool names of a header."""
    return "(?s:" + "|".join(_tool_name(pattern) for pattern in patterns) + ")"


def _tool_name(pattern: str) -> str:
    first, *rest = (re.escape(piece) for piece in re.split(r"\*+", pattern))
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{part})" for part in middle if part) + rf"(?>.*?{last}\Z)"
