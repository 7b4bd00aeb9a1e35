"""A made-up machine to read grants on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpwrap import profiles
from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import Variables
from mcpwrap.grant.problem import BadGrant

if TYPE_CHECKING:
    from mcpwrap.grant.grant import Grant, ToolGrant

VARIABLES = Variables(
    home="/home/u",
    passwd_home="/home/passwd/u",
    cwd="/home/u/proj",
    tmp="/tmp",
    state="/home/u/.local/share/mcpwrap/npm/x",
    cache="/home/u/.cache/mcpwrap/npm/x",
    environ={
        "HOME": "/home/u",
        "DATA": "/srv/data",
        "EMPTY": "",
        "SLASH": "/",
        "RELATIVE": "a/b",
        "STAR": "/a*b",
    },
)


def read(text: str, variables: Variables = VARIABLES) -> Grant:
    return parse(text, "grant.toml", variables, profiles.text)


def problems(text: str) -> list[tuple[int, int, str]]:
    """Return (line, column, sentence) of everything wrong in `text`, nothing if it is right."""
    try:
        read(text)
    except BadGrant as error:
        return [(item.where.line, item.where.column, item.what) for item in error.problems]
    return []


def first_problem(text: str) -> str:
    found = problems(text)
    assert found, f"nothing is wrong in:\n{text}"
    return found[0][2]


def tool(grant: Grant, header: str) -> ToolGrant:
    return next(tool for tool in grant.tools if tool.header == header)
