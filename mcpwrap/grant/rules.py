"""One entry of a rule array: text in, `PathRule` or `ExecRule` out. Raises ValueError with the reason."""

from __future__ import annotations

import re

from mcpwrap.grant.grant import ANY_WRITABLE, ArgPath, ExecRule, PathRule, Where
from mcpwrap.grant.noun import Table
from mcpwrap.grant.paths import UNSAFE, Variables, normalize, provided, too_wide
from mcpwrap.grant.pattern import ANY_DEPTH, glob_error, is_glob, literal_directory

ARG = "$arg:"
ITEMS = "[]"

_STEP = re.compile(r"([^.\[\]/\s]+)((?:\[\])*)")
_PROGRAM = re.compile(r"[A-Za-z0-9_+.@][A-Za-z0-9_+.@-]*")


def safe(text: str) -> str:
    """Return `text`. Raises ValueError if it is empty or holds a control or bidi character."""
    if not text:
        raise ValueError("the text is empty")
    unsafe = UNSAFE.search(text)
    if unsafe is not None:
        raise ValueError(f"the control or bidirectional character U+{ord(unsafe[0]):04X} is not allowed")
    return text


def _expanded(text: str, variables: Variables) -> str:
    """Expand and check a path or glob; the result is absolute and normalized, or begins with `**/`."""
    for name in variables.names_of(text):
        value = variables.lookup(name)
        if value == "/":
            raise ValueError(f'${name} is "/", which is no base for a rule')
        if is_glob(text) and is_glob(value):
            raise ValueError(f"the value of ${name} has a wildcard of its own: {value}")
    if is_glob(text) and text.startswith("~") and is_glob(variables.home):
        raise ValueError(f"your home directory has a wildcard in its name: {variables.home}")
    path = safe(variables.expand(text))
    return path if path.startswith(ANY_DEPTH + "/") else normalize(path)


def directory(text: str, variables: Variables) -> str:
    """Return the absolute directory of a `within` or `in` root."""
    if safe(text).startswith(ARG):
        raise ValueError("a root is a fixed directory: $arg is not allowed here")
    if is_glob(text):
        raise ValueError("a root is one directory: wildcards are not allowed here")
    root = _expanded(text, variables)
    reason = too_wide(root, variables) or provided(root, variables)
    if reason:
        raise ValueError(reason)
    return root


def path_rule(
    noun: str,
    rule_id: str,
    text: str,
    where: Where,
    variables: Variables,
    within: tuple[str, ...] | None,
    kind: Table,
) -> PathRule:
    """Make the rule of one `fs_read`, `fs_write` or `fs_deny` entry of a table of `kind`.

    `within`: the roots of `[policy]`, None where there is no call whose argument `$arg` could be.
    """
    safe(text)
    if text.startswith("$arg"):
        if within is None:
            raise ValueError("$arg is an argument of a call: it can only stand in a [tools.…] table")
        if noun == "fs_deny":
            raise ValueError("fs_deny takes no $arg: an absent argument would carve out nothing")
        return PathRule(noun, rule_id, text, where, None, None, _arg_path(text, variables, within))
    if "TMP" in variables.names_of(text) and noun != "fs_deny":
        raise ValueError("$TMP is private to the server and always writable: remove the line")
    path = _expanded(text, variables)
    if not is_glob(text):
        reason = too_wide(path, variables) or provided(path, variables)
        if reason:
            raise ValueError(reason)
        return PathRule(noun, rule_id, text, where, path, None, None)
    reason = glob_error(path)
    if reason is None and noun != "fs_deny" and kind is not Table.QUIET:
        reason = _unanchored(path, variables)
    if reason:
        raise ValueError(reason)
    return PathRule(noun, rule_id, text, where, None, path, None)


def _unanchored(glob: str, variables: Variables) -> str | None:
    """Return why a granting glob's fixed beginning is too wide to be put before the server."""
    if not glob.startswith("/"):
        return 'a pattern that grants must begin with a directory: "~/work/**/name", not "**/name"'
    base = literal_directory(glob)
    if too_wide(base, variables) or provided(base, variables):
        return f"the fixed beginning of the pattern is {base}: it must name a directory further down"
    return None


def _arg_path(text: str, variables: Variables, within: tuple[str, ...]) -> ArgPath:
    if not text.startswith(ARG):
        raise ValueError('an argument is written "$arg:NAME"')
    value, separator, root = text[len(ARG) :].partition(" in ")
    if not separator and value.endswith(" in"):
        raise ValueError('after "in" a directory is missing: "$arg:NAME in ~/work"')
    if separator:
        within = (directory(root, variables),)
    elif not within:
        raise ValueError(
            '$arg needs a limit: add within = ["~/work"] to [policy], or write "$arg:NAME in ~/work"'
        )
    names, slash, rest = value.partition("/")
    tail = ""
    if slash:
        if (
            not rest
            or is_glob(rest)
            or "$" in rest
            or any(part in ("", ".", "..") for part in rest.split("/"))
        ):
            raise ValueError('what follows an argument is a literal path, as in "$arg:repo/.git/config"')
        tail = "/" + rest
    return ArgPath(argument_steps(names), tail, within)


def argument_steps(names: str) -> tuple[str, ...]:
    """Return the steps of `a.b` or `items[]`, see `ArgPath`. Raises ValueError if it is no name."""
    steps: list[str] = []
    for part in names.split("."):
        match = _STEP.fullmatch(part)
        if match is None:
            raise ValueError('an argument is a name, as in "$arg:path", "$arg:a.b" or "$arg:items[]"')
        steps.append(match[1])
        steps += [ITEMS] * (len(match[2]) // len(ITEMS))
    return tuple(steps)


def exec_rule(rule_id: str, text: str, where: Where, variables: Variables, *, optional: bool) -> ExecRule:
    """Make the rule of one `exec` entry: a bare name, an absolute path or glob, or `any-writable`."""
    safe(text)
    if text.startswith("$arg"):
        raise ValueError("a program cannot come from an argument of the call: name it")
    if text == ANY_WRITABLE or _PROGRAM.fullmatch(text):
        return ExecRule(rule_id, text, where, text, optional)
    if "/" not in text and not text.startswith(("~", "$")):
        raise ValueError("this is no program: write a name, an absolute path, or an absolute pattern")
    program = _expanded(text, variables)
    if is_glob(program) and not is_glob(text):
        raise ValueError(f"the path has a wildcard in a variable's value: {program}")
    reason = _no_program(program, variables)
    if reason:
        raise ValueError(reason)
    return ExecRule(rule_id, text, where, program, optional)


def _no_program(program: str, variables: Variables) -> str | None:
    """Return why a path or glob can name no program, None if it can."""
    if not program.startswith("/"):
        return "a pattern of programs must begin with a directory"
    if not is_glob(program):
        return "this is a directory, not a program" if too_wide(program, variables) else None
    base = literal_directory(program)
    if too_wide(base, variables):
        return f"the fixed beginning of the pattern is {base}: it must name a directory further down"
    return glob_error(program)
