"""What mounts and Landlock must hold: the union, without what is covered."""

from __future__ import annotations

from tests.unit.policy.machine import EXEC, HOME, READ, WRITE, Machine


def test_the_floor_is_the_union_of_all_tables_with_the_roots_of_arguments() -> None:
    machine = Machine(f"{HOME}/one {HOME}/a/b/f", directories=f"{HOME}/work {HOME}/out/deep")
    floor = machine.policy(
        '[server]\nfs_read = ["~/one", "~/a", "~/a/b"]\n[startup]\nfs_read = ["~/out/deep"]\n'
        '[policy]\nwithin = ["~/work"]\n[tools.r]\nfs_read = ["$arg:p", "$arg:q in ~/out/in"]\n'
        '[tools.w]\nfs_write = ["~/out", "~/a/b/f"]\nfs_deny = ["/never"]\n'
        '[tools.g]\nfs_read = ["/srv/x/**/*.md"]\nexec = ["git"]\n'
    ).floor
    assert floor.writes == (f"{HOME}/a/b/f", f"{HOME}/out")
    assert [path for path in floor.reads if path.startswith(HOME)] == [
        f"{HOME}/a",
        f"{HOME}/one",
        f"{HOME}/work",
    ]
    assert "/srv/x" in floor.reads
    assert f"{HOME}/one" in floor.files
    assert f"{HOME}/a/b/f" in floor.files
    assert "/usr/bin/git" in floor.executables
    assert not floor.any_writable


def test_links_are_kept_as_written_so_that_the_view_can_have_them() -> None:
    machine = Machine("/data/x/f", {f"{HOME}/link": "/data/x"})
    floor = machine.policy('[server]\nfs_read = ["~/link"]').floor
    assert floor.links == (f"{HOME}/link",)
    assert {f"{HOME}/link", "/data/x"} <= set(floor.reads)


def test_private_places_inside_a_granted_tree_are_covered_unless_named() -> None:
    machine = Machine(f"{HOME}/.config/gh/hosts {HOME}/.config/gcloud/x {HOME}/.ssh/id")
    floor = machine.policy('[server]\nfs_read = ["~/.config", "~/.config/gcloud/x"]').floor
    assert floor.covers == (f"{HOME}/.config/gh",)


def test_what_is_missing_is_said_and_leaves_the_place_to_the_private_home() -> None:
    machine = Machine()
    policy = machine.policy('[server]\nfs_read = ["~/.gitconfig"]')
    assert f"{HOME}/.gitconfig" in policy.floor.missing
    assert machine.call(policy).decide(READ, f"{HOME}/.gitconfig").rule == "home"


def test_the_directory_of_a_writable_file_is_shown_and_nothing_in_it_granted() -> None:
    machine = Machine(f"{HOME}/docs/a {HOME}/docs/b {HOME}/docs/.config/x {HOME}/top")
    policy = machine.policy('[tools.t]\nfs_write = ["~/docs/a", "~/docs/new/c", "~/top"]')
    assert policy.floor.parents == (f"{HOME}/docs",)
    effective = machine.call(policy)
    assert effective.decide(WRITE, f"{HOME}/docs/a").allowed
    for path in (f"{HOME}/docs/b", f"{HOME}/docs"):
        assert effective.decide(READ, path).rule == "no-grant"
        assert not effective.decide(WRITE, path).allowed
    # The home directory itself is never shown for one file in it.
    assert effective.decide(READ, f"{HOME}/x").rule == "home"


def test_private_places_beside_a_writable_file_are_covered() -> None:
    machine = Machine(f"{HOME}/.config/app.toml {HOME}/.config/gh/hosts")
    assert machine.policy('[tools.t]\nfs_write = ["~/.config/app.toml"]').floor.covers == (
        f"{HOME}/.config/gh",
    )


def test_interpreters_of_granted_scripts_are_in_the_floor_and_no_grant() -> None:
    machine = Machine("/opt/bin/run /usr/bin/dash")
    policy = machine.policy('[server]\nexec = ["/opt/bin/run"]', interpreters=lambda _: ("/usr/bin/dash",))
    assert "/usr/bin/dash" in policy.floor.executables
    assert not machine.call(policy).decide(EXEC, "/usr/bin/dash").allowed
