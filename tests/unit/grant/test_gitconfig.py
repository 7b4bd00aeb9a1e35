from __future__ import annotations

from mcpwrap.grant.gitconfig import MAX_FILES, MAX_INCLUDE_DEPTH, named_files

HOME = "/home/u"


def paths(files: dict[str, str]) -> list[str]:
    return [path for path, _, _ in named_files("/home/u/.gitconfig", HOME, files.get)]


def test_includes_are_followed_whatever_their_condition() -> None:
    files = {
        "/home/u/.gitconfig": """\
[user]
    name = A
    path = /not/this
[include]
    path = ~/one.inc   ; a comment
    path = "sub dir/two.inc" # another
[includeIf "gitdir:~/work/"] path = /srv/work.inc
[INCLUDE]
    Path = three\\\\.inc
""",
        "/home/u/one.inc": "[include]\npath = deeper/four.inc\n",
    }
    assert paths(files) == [
        "/home/u/one.inc",
        "/home/u/deeper/four.inc",
        "/home/u/sub dir/two.inc",
        "/srv/work.inc",
        "/home/u/three\\.inc",
    ]


def test_the_users_ignore_and_attributes_files_are_named_and_not_followed() -> None:
    files = {
        "/home/u/.gitconfig": "[core]\nexcludesFile = ~/.ignore\nattributesfile = ~/.attr\npager = /bin/less\n",
        "/home/u/.ignore": "[include]\npath = /not/this\n",
    }
    assert paths(files) == ["/home/u/.ignore", "/home/u/.attr"]


def test_what_cannot_be_resolved_is_left_out() -> None:
    assert (
        paths({"/home/u/.gitconfig": "[include]\npath = ~other/x\npath = %(prefix)/x\npath =\npath\n"}) == []
    )
    assert paths({}) == []


def test_a_circle_of_includes_ends() -> None:
    files = {
        "/home/u/.gitconfig": "[include]\npath = a\n",
        "/home/u/a": "[include]\npath = .gitconfig\npath = a\npath = b\n",
        "/home/u/b": "[include]\npath = a\n",
    }
    assert paths(files) == ["/home/u/a", "/home/u/b"]


def test_depth_and_number_are_bounded() -> None:
    chain = {f"/home/u/{number}": f"[include]\npath = {number + 1}\n" for number in range(100)}
    assert len(paths({"/home/u/.gitconfig": "[include]\npath = 0\n", **chain})) == MAX_INCLUDE_DEPTH
    many = "[include]\n" + "".join(f"path = f{number}\n" for number in range(1000))
    assert len(paths({"/home/u/.gitconfig": many})) == MAX_FILES
