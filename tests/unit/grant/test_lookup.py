from __future__ import annotations

import pytest

from mcpwrap.errors import EXIT_BAD_GRANT, GrantError
from mcpwrap.grant.lookup import (
    PathStat,
    check_command,
    check_trust,
    command_matches,
    grant_path,
    instance_name,
    places,
    writable_trees,
)
from tests.unit.grant.reading import read

HOME = "/home/u"


def test_directories_follow_xdg_and_hold_the_whole_name() -> None:
    found = places({}, HOME, "npm/@scope/pkg")
    assert grant_path(found, "npm/@scope/pkg") == "/home/u/.config/mcpwrap/grants/npm/@scope/pkg.toml"
    assert found.state == "/home/u/.local/share/mcpwrap/npm~@scope~pkg"
    assert found.cache == "/home/u/.cache/mcpwrap/npm~@scope~pkg"
    assert found.audit == "/home/u/.local/state/mcpwrap/audit/npm/@scope/pkg"
    given = places({"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "relative", "XDG_DATA_HOME": ""}, HOME, "n")
    assert (given.config, given.grants) == ("/c/mcpwrap", "/c/mcpwrap/grants")
    assert given.audit.startswith("/home/u/.local/state/")
    assert given.state.startswith("/home/u/.local/share/")


def test_what_one_server_writes_is_never_inside_what_another_does() -> None:
    outer, inner = places({}, HOME, "a"), places({}, HOME, "a/home")
    assert not inner.state.startswith(outer.state + "/")
    assert not inner.cache.startswith(outer.cache + "/")
    with pytest.raises(GrantError):
        instance_name("a~home")


@pytest.mark.parametrize("name", ["work", "npm/@scope/pkg", "pypi/a.b-c_d+1", "a/b/c/d"])
def test_instance_names_are_taken(name: str) -> None:
    assert instance_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "..", "a/../b", "/a", "a/", "a//b", ".hidden", "a/.b", "a b", "a\n", "a\0", "a/b/c/d/e", "x" * 201],
)
def test_instance_names_cannot_leave_the_grants_directory(name: str) -> None:
    with pytest.raises(GrantError):
        instance_name(name)


@pytest.mark.parametrize(
    ("wanted", "command", "expected"),
    [
        (["node", "x.js"], ["node", "x.js", "--more"], True),
        (["node", "x.js"], ["/usr/bin/node", "x.js"], True),
        (["/usr/bin/node"], ["node"], False),
        (["/opt/node"], ["/usr/bin/node"], False),
        (["~/bin/x"], ["/home/u/bin/x"], True),
        (["node", "x.js"], ["node"], False),
        (["node", "x.js"], ["node", "y.js"], False),
        (["npx", "-y", "@s/p"], ["npx", "-y", "@s/p@1.2.3", "/w"], True),
        (["npx", "-y", "@s/p@1.0.0"], ["npx", "-y", "@s/p@latest"], True),
        (["npx", "-y", "@s/p"], ["npx", "-y", "@s/q@1.2.3"], False),
        (["npx", "-y", "@s/p"], ["npx", "@s/p"], False),
        (["npx", "-y", "p", "a@1"], ["npx", "-y", "p", "a@2"], False),
        (["uvx", "mcp-server-git"], ["uvx", "mcp-server-git==2025.7.1", "--repository", "/r"], True),
        (["uvx", "--from", "a==1", "b"], ["uvx", "--from", "a==2", "b"], True),
        (["uvx", "--from", "a", "b"], ["uvx", "--from", "c", "b"], False),
        (["pnpm", "dlx", "p"], ["pnpm", "dlx", "p@2"], True),
        (["ssh", "user@10.0.0.1"], ["ssh", "user@10.0.0.2"], False),
        (["npx", "p"], ["npx", "p@npm:evil@1"], False),
        ([], ["anything"], True),
    ],
)
def test_commands_match_from_the_beginning_versions_aside(
    wanted: list[str], command: list[str], expected: bool
) -> None:
    assert command_matches(wanted, command, HOME) is expected


def test_a_grant_for_another_command_is_exit_78_and_says_both() -> None:
    grant = read('[server]\ncommand = ["npx", "-y", "a"]')
    check_command(grant, ["npx", "-y", "a@3"], HOME)
    check_command(read(""), ["anything"], HOME)
    with pytest.raises(GrantError) as caught:
        check_command(grant, ["npx", "-y", "b\x1b[31m"], HOME)
    assert caught.value.exit_status == EXIT_BAD_GRANT
    assert "npx -y a" in caught.value.diagnostics()
    assert "npx -y b?[31m" in caught.value.diagnostics()


def chain(*items: tuple[str, int, int]) -> list[PathStat]:
    return [PathStat(*item) for item in items]


TRUSTED = chain(("/home/u/.config/g.toml", 1000, 0o100644), ("/home/u", 1000, 0o40755), ("/", 0, 0o40755))


def test_a_file_of_the_users_own_is_trusted() -> None:
    check_trust(TRUSTED, 1000, ["/home/u/work", "/home/u/.config/g.toml2"])


@pytest.mark.parametrize("mode", [0o100664, 0o100646, 0o100666])
def test_a_file_others_can_write_is_refused_with_the_fix(mode: int) -> None:
    with pytest.raises(GrantError) as caught:
        check_trust(chain(("/home/u/it's.toml", 1000, mode)), 1000, [])
    assert caught.value.way_out == "chmod go-w '/home/u/it'\\''s.toml'"


def test_a_directory_others_can_write_is_refused_unless_it_is_sticky() -> None:
    with pytest.raises(GrantError, match="/srv is writable by others"):
        check_trust(chain(("/srv/g", 1000, 0o100600), ("/srv", 0, 0o40777)), 1000, [])
    check_trust(
        chain(("/tmp/d/g", 1000, 0o100600), ("/tmp/d", 1000, 0o40700), ("/tmp", 0, 0o41777)), 1000, []
    )


def test_a_sticky_file_is_still_writable_by_others() -> None:
    with pytest.raises(GrantError, match="writable by others"):
        check_trust(chain(("/home/u/g", 1000, 0o101666)), 1000, [])


def test_a_file_of_another_user_is_refused() -> None:
    with pytest.raises(GrantError, match="belongs to user id 1001"):
        check_trust(chain(("/srv/g", 1001, 0o100600)), 1000, [])


def test_a_file_a_server_may_write_is_refused() -> None:
    for tree in ("/home/u", "/home/u/.config", "/home/u/.config/g.toml"):
        with pytest.raises(GrantError, match="could widen its own grant"):
            check_trust(TRUSTED, 1000, [tree])


def test_the_trees_a_server_may_write_are_those_of_every_write_rule() -> None:
    grant = read(
        '[server]\nfs_write = ["/srv/a"]\nfs_read = ["/srv/r"]\n[startup]\nfs_write = ["/srv/b/*.x"]\n'
        '[policy]\nwithin = ["/srv/w", "/srv/v"]\n[tools.t]\nfs_write = ["$arg:p", "$arg:q in /srv/u"]\n'
    )
    assert writable_trees(grant) == ("/srv/a", "/srv/b", "/srv/w", "/srv/v", "/srv/u")


def test_the_bits_of_a_link_say_nothing_and_its_place_and_owner_do() -> None:
    link = ("/home/u/conf", 1000, 0o120777)
    check_trust([*TRUSTED, PathStat(*link)], 1000, ["/home/u/work"])
    with pytest.raises(GrantError, match="could widen its own grant"):
        check_trust([*TRUSTED, PathStat(*link)], 1000, ["/home/u/conf"])
    with pytest.raises(GrantError, match="belongs to user id 1001"):
        check_trust([*TRUSTED, PathStat("/tmp/conf", 1001, 0o120777)], 1000, [])
