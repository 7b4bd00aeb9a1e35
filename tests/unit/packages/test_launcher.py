"""Commands that fetch a server: which package, which version, and what of it is the server's own."""

from __future__ import annotations

import shlex

import pytest

from mcpwrap.errors import CannotConfine
from mcpwrap.packages.launcher import package


@pytest.mark.parametrize(
    ("command", "profile", "name", "version", "inside", "arguments"),
    [
        ("npx -y @a/b@1.2 /w x", "npx", "npm/@a/b", "1.2", "", ["/w", "x"]),
        ("npx @a/b", "npx", "npm/@a/b", "", "", []),
        ("npx --yes --package=p@1 cmd -f", "npx", "npm/p", "1", "cmd", ["-f"]),
        ("npx -p p@^1 -- cmd -y", "npx", "npm/p", "^1", "cmd", ["-y"]),
        ("/opt/node/bin/npx p@latest", "npx", "npm/p", "latest", "", []),
        ("npm exec -y -- p -- a", "npx", "npm/p", "", "", ["--", "a"]),
        ("npm --loglevel=error x p", "npx", "npm/p", "", "", []),
        ("uvx mcp-server-time==2026.1 --x", "uvx", "pypi/mcp-server-time", "==2026.1", "", ["--x"]),
        ("uvx Foo_Bar@1.0", "uvx", "pypi/foo-bar", "1.0", "", []),
        ("uvx --python 3.12 --from 'p[cli]>=2' p-server /w", "uvx", "pypi/p", ">=2", "p-server", ["/w"]),
        ("uv tool run p", "uvx", "pypi/p", "", "", []),
        ("uv --quiet tool run --from=a b", "uvx", "pypi/a", "", "b", []),
        ("bunx p@1 x", "bun", "npm/p", "1", "", ["x"]),
        ("bun x @s/p", "bun", "npm/@s/p", "", "", []),
        ("deno run -A npm:@s/p@1/bin a", "deno", "npm/@s/p", "1", "bin", ["a"]),
        ("deno run --allow-net jsr:@s/p", "deno", "jsr/@s/p", "", "", []),
    ],
)
def test_the_package_is_the_one_the_launcher_would_take(
    command: str, profile: str, name: str, version: str, inside: str, arguments: list[str]
) -> None:
    found = package(shlex.split(command))
    assert found is not None
    assert (found.profile, found.name, found.version) == (profile, name, version)
    assert (found.command, list(found.arguments)) == (inside, arguments)


@pytest.mark.parametrize(
    "command",
    ["node x.js", "npm run x", "bun run x.ts", "bun x.ts", "deno run x.ts", "uv --version", "pnpm x"],
)
def test_other_commands_fetch_nothing(command: str) -> None:
    assert package(shlex.split(command)) is None


@pytest.mark.parametrize(
    "command",
    [
        "npx",
        "npx -y",
        "npx -c 'rm x'",
        "npx github:user/repo",
        "npx ./local",
        "npx p@npm:evil@1",
        "uvx git+https://example.org/x",
        "uvx --from . x",
        "uvx x@https://example.org/x.whl",
        "deno run -A https://example.org/x.ts",
        "pipx run p",
        "pnpm dlx p",
        "yarn dlx p",
        "uv run server.py",
        "uv --quiet run server.py",
    ],
)
def test_what_no_registry_names_is_refused_with_the_way_out(command: str) -> None:
    with pytest.raises(CannotConfine) as refused:
        package(shlex.split(command))
    assert refused.value.way_out


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("npx -y p", True),
        ("npx -p a -p b c", False),
        ("uvx --with x p", False),
        ("uvx --python 3.13 p", False),
        ("uvx -q p", True),
    ],
)
def test_more_than_the_package_itself_is_not_plain(command: str, plain: bool) -> None:
    found = package(shlex.split(command))
    assert found is not None and found.plain is plain


@pytest.mark.parametrize(
    ("version", "moving"),
    [
        ("", False),
        ("1.2", False),
        ("^1", False),
        ("==2026.1", False),
        ("v1", False),
        ("latest", True),
        ("next", True),
    ],
)
def test_a_tag_is_asked_for_each_time(version: str, moving: bool) -> None:
    found = package(["npx", "p"])
    assert found is not None and found._replace(version=version).moving is moving


def test_a_registry_on_the_command_line_is_the_one_that_is_asked() -> None:
    url = "https://r.example/"
    for command in (["npx", f"--registry={url}", "p"], ["uvx", "--default-index", url, "p"]):
        found = package(command)
        assert found is not None and found.asked == url
