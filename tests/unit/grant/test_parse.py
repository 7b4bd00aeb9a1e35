from __future__ import annotations

import pytest

from mcpwrap import profiles
from mcpwrap.errors import EXIT_BAD_GRANT
from mcpwrap.grant.grant import ANY_WRITABLE, ArgPath, Block, ExecRule, PathRule
from mcpwrap.grant.parse import NO_FILE, default_grant, parse
from mcpwrap.grant.problem import BadGrant
from tests.unit.grant.reading import VARIABLES, first_problem, problems, read, tool

WHOLE = """\
schema = 1

[server]
command = ["npx", "-y", "@modelcontextprotocol/server-filesystem"]
profile = ["node"]
env = ["LOG_LEVEL"]
fs_read = ["~/work/shared", "$DATA/x"]

[server.set]
MEMORY_FILE_PATH = "$STATE/memory.jsonl"
PRICE = "5$$"

[server.quiet]
fs_read = ["**/telemetry.json"]

[startup]
exec = ["git"]

[policy]
within = ["~/work"]
overlap = "serialize"
on_denial = "annotate"

[tools."read_*|get_file_info"]
fs_read = ["$arg:path", "$arg:options.file in ~/other"]

[tools.write_file]
inherit = false
fs_write = ["$arg:items[].path", "$arg:repo/.git/config", "~/db/t.db*"]
fs_deny = ["**/node_modules/**"]

[tools."*"]
exec = ["/usr/bin/env", "/opt/x/bin/*", "any-writable"]
"""


def all_rules(block: Block) -> list[PathRule | ExecRule]:
    return [*block.paths, *block.execs]


def test_every_held_noun_is_read() -> None:
    grant = read(WHOLE)
    assert grant.command == ("npx", "-y", "@modelcontextprotocol/server-filesystem")
    assert grant.profiles == ("base", "node")
    assert grant.env == ("LOG_LEVEL",)
    assert grant.set == {"MEMORY_FILE_PATH": f"{VARIABLES.state}/memory.jsonl", "PRICE": "5$"}
    assert [rule.path for rule in grant.server.paths] == ["/home/u/work/shared", "/srv/data/x"]
    assert [rule.glob for rule in grant.quiet.paths if rule.glob] == ["**/telemetry.json"]
    assert [rule.program for rule in grant.startup.execs] == ["git"]
    assert (grant.within, grant.overlap) == (("/home/u/work",), "serialize")


def test_argument_paths_carry_their_steps_tail_and_limit() -> None:
    grant = read(WHOLE)
    assert [rule.arg for rule in tool(grant, "read_*|get_file_info").block.paths] == [
        ArgPath(("path",), "", ("/home/u/work",)),
        ArgPath(("options", "file"), "", ("/home/u/other",)),
    ]
    written = tool(grant, "write_file").block.paths
    assert [rule.arg for rule in written[:2]] == [
        ArgPath(("items", "[]", "path"), "", ("/home/u/work",)),
        ArgPath(("repo",), "/.git/config", ("/home/u/work",)),
    ]
    assert written[2].glob == "/home/u/db/t.db*"
    assert written[3].noun == "fs_deny"


def test_headers_are_split_and_inherit_is_read() -> None:
    grant = read(WHOLE)
    assert tool(grant, "read_*|get_file_info").patterns == ("read_*", "get_file_info")
    assert [tool.inherit for tool in grant.tools] == [True, False, True]
    assert [rule.program for rule in tool(grant, "*").block.execs] == [
        "/usr/bin/env",
        "/opt/x/bin/*",
        ANY_WRITABLE,
    ]


def test_every_rule_has_a_stable_id_and_its_exact_place() -> None:
    grant = read(WHOLE)
    lines = WHOLE.split("\n")
    own = [grant.server, grant.startup, grant.quiet, *(tool.block for tool in grant.tools)]
    for block in own:
        for rule in all_rules(block):
            if not rule.id.startswith("profile "):
                assert lines[rule.where.line - 1][rule.where.column - 1 :].startswith(f'"{rule.text}"')
    assert tool(grant, "read_*|get_file_info").block.paths[1].id == 'tools."read_*|get_file_info".fs_read[1]'
    assert grant.server.paths[0].id == "server.fs_read[0]"
    assert grant.startup.execs[0].id == "startup.exec[0]"
    assert [rule.id for rule in grant.quiet.paths][-1] == "server.quiet.fs_read[0]"


def test_rule_ids_are_unique_with_all_profiles_merged() -> None:
    grant = read('[server]\nprofile = ["git", "node", "python"]\nexec = ["git"]\nfs_read = ["/srv"]\n')
    blocks = (grant.server, grant.startup, grant.quiet)
    ids = [rule.id for block in blocks for rule in all_rules(block)]
    assert len(ids) == len(set(ids))
    assert "profile git: server.exec[1]" in ids


def test_an_empty_file_grants_nothing_but_base() -> None:
    grant = read("")
    assert (grant.server.paths, grant.server.execs, grant.tools, grant.command) == ((), (), (), None)
    assert grant.overlap == "auto"


def test_a_profile_the_command_brings_is_in_force_whatever_the_file_names() -> None:
    for text in ("schema = 1", 'schema = 1\n[server]\nprofile = ["node", "npx"]'):
        grant = parse(text, "grant.toml", VARIABLES, profiles.text, brought=("npx",))
        assert grant.profiles == ("base", "node", "npx")
        assert grant.startup.hosts


def test_the_digest_changes_with_the_file_and_with_a_profile() -> None:
    one, other = read("schema = 1"), read("schema = 1\n")
    changed = parse("schema = 1", "grant.toml", VARIABLES, lambda name: profiles.text(name) + "# changed")
    assert len({one.digest, other.digest, changed.digest}) == 3
    assert one.digest == read("schema = 1").digest


def test_all_problems_are_told_in_file_order_with_their_places() -> None:
    text = '[server]\nfs_raed = ["/x"]\n[tools.a]\nfs_read = ["x",\n   "/y", 3]\nnet = ["h/p"]\n[servr]\n'
    assert [(line, column) for line, column, _ in problems(text)] == [
        (2, 1),
        (4, 12),
        (5, 10),
        (6, 8),
        (7, 2),
    ]


def test_a_bad_file_is_exit_78() -> None:
    with pytest.raises(BadGrant) as caught:
        read("nope = 1")
    assert caught.value.exit_status == EXIT_BAD_GRANT


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("schema = 2", '"schema" wants the number 1, not 2'),
        ("schema = true", '"schema" wants the number 1, not true'),
        ("schema = 1.0", '"schema" wants the number 1'),
        ("server = 1", '"server" wants a table, not 1'),
        ('[server]\nfs_read = "/x"', '"fs_read" wants an array of paths, not a string'),
        ('[server]\nfs_read = ["/x", ["/y"]]', "a string is wanted here, not an array"),
        ("[server]\nset = { A = 1 }", "a string is wanted here, not a number"),
        ('[server]\nset = { "A B" = "1" }', '"A B" is no name of a variable'),
        ('[server]\nset = { A = "a\\u0000b" }', "a NUL character is not allowed"),
        ('[server]\nset = { A = "$UNSET_NAME" }', "$UNSET_NAME is not set"),
        ('[server]\nset = { A = "$EMPTY" }', "$EMPTY is empty"),
        ('[server]\nenv = ["A"]\nset = { A = "1" }', '"A" is passed on by env and given a value here'),
        ('[server]\nenv = ["A*"]', '"A*" is no name of a variable'),
        ("[server]\ncommand = []", "the command is empty"),
        ('[server]\nprofile = ["nod"]', 'there is no profile "nod"'),
        ('[policy]\noverlap = "all"', '"overlap" cannot be "all"'),
        ("[policy]\noverlap = 1", '"overlap" cannot be a number'),
        ('[policy]\non_denial = "fail"', '"on_denial" cannot be "fail"'),
        ('[policy]\nwithin = ["/"]', '"/" is the whole machine'),
        ('[policy]\nwithin = ["~/w/*"]', "a root is one directory"),
        ('[policy]\nwithin = ["$arg:x"]', "a root is a fixed directory"),
        ("[tools]\nfs_read = ['/x']", '"fs_read" wants a table, not an array'),
        ("[[tools.x]]\n", '"x" wants a table, not an array'),
        ('[tools."a|"]', "an alternative of the header is empty"),
        ('[tools."a | b"]', "begins or ends with a space"),
        ('[tools."a|b|a"]', '"a" is listed twice in one header'),
        ('[tools."*|b"]', '"*" is every tool'),
        ('[tools."a|b"]\n[tools."b|a"]', 'names the same tools as [tools."a|b"]'),
        ('[tools."a\\u0000"]', "the control or bidirectional character U+0000"),
        ('[tools."*"]\ninherit = false', '[tools."*"] is what the others inherit'),
        ("[tools.a]\ninherit = 1", '"inherit" wants true or false'),
        ('[tools.a]\nenv = ["A"]', 'unknown key "env" in [tools.a]'),
        ("[tools.a.b]\nfs_read = []", 'unknown key "b" in [tools.a]'),
        ("[server]\n[server]\n", '"server" is listed twice'),
        ("[tools.a]\n[tools.a]\n", '"tools.a" is listed twice'),
        ("schema = 1\nschema = 1\n", '"schema" is listed twice'),
        ("[server]\nexec = ['a']\nexec = ['b']", '"server.exec" is listed twice'),
        ("[server\n", "this is not TOML"),
        ('[server]\nfs_read = ["/x"', "this is not TOML"),
        ("x = " + "9" * 5000, "this is not TOML"),
    ],
)
def test_what_is_wrong_is_said_plainly(text: str, sentence: str) -> None:
    assert sentence in first_problem(text)


def test_a_noun_in_the_wrong_table_is_told_where_it_may_stand() -> None:
    with pytest.raises(BadGrant) as caught:
        read('[tools.a]\nwithin = ["~/x"]')
    assert caught.value.problems[0].hint == '"within" may stand in [policy]'


def test_one_wrong_root_does_not_make_every_argument_wrong() -> None:
    assert len(problems('[policy]\nwithin = ["/"]\n[tools.a]\nfs_read = ["$arg:p", "$arg:q"]\n')) == 1


def test_a_root_that_does_not_exist_can_never_apply() -> None:
    text = '[policy]\nwithin = ["~/w", "~/gone"]\n[tools.a]\nfs_read = ["$arg:p", "$arg:q in ~/gone"]\n'
    with pytest.raises(BadGrant) as caught:
        parse(text, "g", VARIABLES, profiles.text, is_directory=lambda path: path == "/home/u/w")
    assert [(item.where.line, item.where.column) for item in caught.value.problems] == [(2, 18), (4, 22)]


@pytest.mark.parametrize(
    "text",
    [
        '[tools.a]\nfs_read = ["~/w/x"]\nfs_deny = ["~/w"]',
        '[tools.a]\nfs_read = ["~/w"]\nfs_deny = ["~/w"]',
        '[tools.a]\nfs_read = ["~/w/.git"]\nfs_deny = ["**/.git/**"]',
        '[tools.a]\nfs_read = ["~/w/*.db"]\nfs_deny = ["~/w/**"]',
        '[server]\nfs_deny = ["~/w"]\n[tools.a]\nfs_read = ["~/w/x"]',
        '[tools."*"]\nfs_deny = ["~/w"]\n[tools.a]\nfs_read = ["~/w/x"]',
        '[tools.a]\nfs_read = ["$arg:p in ~/w/x"]\nfs_deny = ["~/w"]',
        '[tools.a]\nfs_write = ["$arg:p/.git/config in ~/w"]\nfs_deny = ["**/.git/**"]',
        '[startup]\nfs_read = ["~/w"]\nfs_deny = ["~/w"]',
    ],
)
def test_a_grant_that_is_carved_out_whole_is_refused(text: str) -> None:
    assert "can never apply: fs_deny" in first_problem(text)


@pytest.mark.parametrize(
    "text",
    [
        '[tools.a]\nfs_read = ["~/w"]\nfs_deny = ["~/w/x"]',
        '[tools.a]\nfs_read = ["~/w"]\nfs_deny = ["**/.git/**"]',
        '[tools.a]\nfs_read = ["~/w/x"]\n[tools.b]\nfs_deny = ["~/w"]',
        '[tools."*"]\nfs_deny = ["~/w"]\n[tools.a]\ninherit = false\nfs_read = ["~/w/x"]',
        '[tools.a]\nfs_write = ["$arg:p in ~/w"]\nfs_deny = ["**/.git/**"]',
        '[tools.a]\nfs_read = ["~/w"]\nfs_write = ["~/w"]',
        '[tools.a]\nfs_write = ["$arg:p/.git/config in ~/w"]\nfs_deny = ["~/w/*/.git/**"]',
        '[tools.a]\nfs_read = ["$arg:p in ~/w"]\nfs_deny = ["~/w/*"]',
    ],
)
def test_a_carve_out_that_leaves_something_is_taken(text: str) -> None:
    assert problems(text) == []


@pytest.mark.parametrize("line", ['fs_read = ["/srv"]', 'exec = ["git"]'])
def test_a_quiet_refusal_of_what_is_granted_is_refused(line: str) -> None:
    assert "so it is never refused" in first_problem(f"[server]\n{line}\n[server.quiet]\n{line}\n")


def test_too_many_rules_are_refused_once() -> None:
    rules = ", ".join(f'"/srv/{number}"' for number in range(1100))
    assert [what for _, _, what in problems(f"[server]\nfs_read = [{rules}]")] == [
        "a grant of more than 1024 rules is not taken"
    ]


def test_git_includes_are_followed_by_profile_git_only() -> None:
    files = {"/home/u/.gitconfig": "[include]\n path = ~/dot/git.inc\n"}

    def with_profile(name: str) -> list[str | None]:
        text = f'[server]\nprofile = ["{name}"]\n'
        grant = parse(text, "g", VARIABLES, profiles.text, read_text=files.get)
        return [rule.path for rule in grant.server.paths if "include" in rule.id]

    assert with_profile("git") == ["/home/u/dot/git.inc"]
    assert with_profile("node") == []


def test_without_a_grant_file_the_named_paths_are_read_only() -> None:
    grant = default_grant(VARIABLES, profiles.text, ("node",), ("/home/u/work", '/srv/x"]\nexec = ["sh'))
    assert (grant.file, grant.profiles, grant.tools) == (NO_FILE, ("base", "node"), ())
    named = [rule for rule in grant.server.paths if rule.id.startswith("named.")]
    assert [(rule.noun, rule.path) for rule in named] == [
        ("fs_read", "/home/u/work"),
        ("fs_read", '/srv/x"]\nexec = ["sh'),
    ]
    assert named[0].text == "~/work"
    assert "\n" not in named[1].text


def test_profiles_may_not_say_what_only_the_user_may() -> None:
    def load(name: str) -> str:
        return '[server]\ncommand = ["x"]\n[policy]\nwithin = ["~/x"]\n' if name == "node" else ""

    with pytest.raises(BadGrant) as caught:
        parse('[server]\nprofile = ["node"]', "g", VARIABLES, load)
    assert sorted(problem.what for problem in caught.value.problems) == [
        '"command" has no place in a profile',
        '"policy" has no place in a profile',
    ]


def test_profiles_are_merged_once_and_what_they_include_first() -> None:
    texts = {
        "base": "",
        "node": '[server]\nprofile = ["git"]\nenv = ["N"]\nset = { A = "node", B = "node" }',
        "git": '[server]\nenv = ["G"]\nset = { A = "git" }',
    }
    grant = parse(
        '[server]\nprofile = ["node", "git"]\nenv = ["N", "O"]\nset = { B = "own" }',
        "g",
        VARIABLES._replace(environ={}),
        texts.__getitem__,
    )
    assert grant.profiles == ("base", "git", "node")
    assert grant.env == ("G", "N", "O")
    assert grant.set == {"A": "node", "B": "own"}
