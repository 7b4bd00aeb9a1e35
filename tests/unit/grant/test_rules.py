from __future__ import annotations

import pytest

from tests.unit.grant.reading import VARIABLES, first_problem, problems, read


def refused(text: str, noun: str = "fs_read", table: str = "tools.a") -> str:
    return first_problem(f"[{table}]\n{noun} = [{text}]\n")


def path_of(text: str) -> str | None:
    return read(f"[tools.a]\nfs_read = ['{text}']\n").tools[0].block.paths[0].path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("~/a", "/home/u/a"),
        ("$HOME/a", "/home/u/a"),
        ("~/a/", "/home/u/a"),
        ("//srv//x/./y", "/srv/x/y"),
        ("$CWD", "/home/u/proj"),
        ("$CWD/sub", "/home/u/proj/sub"),
        ("$STATE/x", f"{VARIABLES.state}/x"),
        ("$CACHE", VARIABLES.cache),
        ("$DATA", "/srv/data"),
        ("/srv/pri$$ce", "/srv/pri$ce"),
        ("/srv/[id].tsx", "/srv/[id].tsx"),
        ("$STAR/x", "/a*b/x"),
        ("/tmp/x", "/tmp/x"),
        ("/srv/a b", "/srv/a b"),
        ("/srv/é", "/srv/é"),
    ],
)
def test_a_path_is_expanded_and_normalized(text: str, path: str) -> None:
    assert path_of(text) == path


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('""', "the text is empty"),
        ('"work"', "a path must be absolute"),
        ('"./work"', "a path must be absolute"),
        ('"$RELATIVE"', "a path must be absolute"),
        ('"/srv/../etc"', '".." is not allowed'),
        ('"~other/x"', '"~name" is not supported'),
        ('"/"', '"/" is the whole machine'),
        ('"//"', '"/" is the whole machine'),
        ('"~"', "home directory, which is private by design"),
        ('"~/"', "home directory, which is private by design"),
        ('"$HOME"', "home directory, which is private by design"),
        ('"/home"', "holds your home directory"),
        ('"/home/passwd/u"', "home directory, which is private by design"),
        ('"/home/passwd"', "holds your home directory"),
        ('"$SLASH"', '$SLASH is "/"'),
        ('"$SLASH/x"', '$SLASH is "/"'),
        ('"$EMPTY/x"', "$EMPTY is empty"),
        ('"$UNSET/x"', "$UNSET is not set"),
        ('"/srv/$"', 'a "$" that begins no variable'),
        ('"/srv/$1"', 'a "$" that begins no variable'),
        ('"/srv/a\\u0000b"', "a NUL character is not allowed"),
        ('"/srv/a\\nb"', "U+000A is not allowed"),
        ('"/srv/a\\u202eb"', "U+202E is not allowed"),
        ('"/srv/a\\u001bb"', "U+001B is not allowed"),
        ('"/tmp"', "/tmp is private to the server"),
        ('"$TMP"', "$TMP is private to the server"),
        ('"$TMP/x"', "$TMP is private to the server"),
        ('"/dev/shm"', "/dev/shm is private to the server"),
        ('"/dev/sda"', "a minimal /dev of its own"),
        ('"/proc/self"', "the processes of its own sandbox"),
        ('"**/x"', "a pattern that grants must begin with a directory"),
        ('"/*"', "the fixed beginning of the pattern is /"),
        ('"~/*.txt"', "the fixed beginning of the pattern is /home/u"),
        ('"/srv/a**"', '"**" stands for whole directories'),
        ('"$STAR/*"', "the value of $STAR has a wildcard"),
        ('"*.txt"', "a path must be absolute"),
        ('"/' + "a/" * 2100 + '"', "the path is longer than 4095 bytes"),
        ('"$arg:p"', "$arg needs a limit"),
        ('"$argp"', 'an argument is written "$arg:NAME"'),
        ('"$arg: in ~/w"', "an argument is a name"),
        ('"$arg:a..b in ~/w"', "an argument is a name"),
        ('"$arg:a[0] in ~/w"', "an argument is a name"),
        ('"$arg:p in "', "the text is empty"),
        ('"$arg:p in ~"', "home directory, which is private by design"),
        ('"$arg:p in /"', '"/" is the whole machine'),
        ('"$arg:p in ~/*"', "a root is one directory"),
        ('"$arg:p in w"', "a path must be absolute"),
        ('"$arg:p/ in ~/w"', "what follows an argument is a literal path"),
        ('"$arg:p/../x in ~/w"', "what follows an argument is a literal path"),
        ('"$arg:p/* in ~/w"', "what follows an argument is a literal path"),
        ('"$arg:p/$arg:q in ~/w"', "what follows an argument is a literal path"),
    ],
)
def test_a_path_that_cannot_be_meant_is_refused(text: str, sentence: str) -> None:
    assert sentence in refused(text)


@pytest.mark.parametrize("table", ["server", "startup", "server.quiet"])
def test_an_argument_outside_a_call_is_refused(table: str) -> None:
    assert "it can only stand in a [tools.…] table" in refused('"$arg:p in ~/w"', table=table)


def test_a_carve_out_takes_no_argument() -> None:
    assert "fs_deny takes no $arg" in refused('"$arg:p in ~/w"', noun="fs_deny")


def test_a_carve_out_may_begin_anywhere() -> None:
    assert problems('[server]\nfs_deny = ["**/.git/**", "~/**/x", "$TMP/x"]\n') == []


def test_a_carve_out_that_matches_everything_is_refused() -> None:
    assert "it would match every path" in refused('"**/**"', noun="fs_deny")


def test_items_of_items_and_dotted_names_are_steps() -> None:
    text = '[tools.a]\nfs_read = ["$arg:a[][].b-c.d/x/y in ~/my work"]\n'
    arg = read(text).tools[0].block.paths[0].arg
    assert arg is not None
    assert (arg.steps, arg.tail, arg.within) == (("a", "[]", "[]", "b-c", "d"), "/x/y", ("/home/u/my work",))


@pytest.mark.parametrize(
    ("text", "program", "bare", "glob"),
    [
        ("git", "git", True, False),
        ("python3.12", "python3.12", True, False),
        ("g++", "g++", True, False),
        ("/usr/bin/git", "/usr/bin/git", False, False),
        ("~/bin/x", "/home/u/bin/x", False, False),
        ("/usr/lib/git-core/*", "/usr/lib/git-core/*", False, True),
        ("any-writable", "any-writable", False, False),
    ],
)
def test_a_program_is_a_name_a_path_or_a_pattern(text: str, program: str, bare: bool, glob: bool) -> None:
    rule = read(f'[server]\nexec = ["{text}"]\n').server.execs[0]
    assert (rule.program, rule.is_bare, rule.is_glob, rule.optional) == (program, bare, glob, False)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('""', "the text is empty"),
        ('"git status"', "this is no program"),
        ('"-x"', "this is no program"),
        ('"g*"', "this is no program"),
        ('"./x"', "a path must be absolute"),
        ('"bin/x"', "a path must be absolute"),
        ('"**/git"', "a pattern of programs must begin with a directory"),
        ('"/*"', "the fixed beginning of the pattern is /"),
        ('"~/*"', "the fixed beginning of the pattern is /home/u"),
        ('"~"', "this is a directory, not a program"),
        ('"$arg:x"', "a program cannot come from an argument"),
        ('"git\\u0000"', "a NUL character is not allowed"),
        ('"/x\\n"', "U+000A is not allowed"),
        ('"$STAR/x"', "the path has a wildcard in a variable's value"),
    ],
)
def test_what_is_no_program_is_refused(text: str, sentence: str) -> None:
    assert sentence in refused(text, noun="exec")
