"""Plans: what stands where, made from a floor and a table of names."""

from __future__ import annotations

import pytest

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.plan import Access
from mcpwrap.sandbox.steps import Bind, Cover, Directory, Link, Pin, Step, Tmpfs
from tests.unit.sandbox.machine import CACHE, HOME, STATE, USUAL, Machine


def _at(steps: tuple[Step, ...], path: str) -> Step | None:
    return next((step for step in steps if step.path == path), None)


def test_parents_come_before_what_lies_in_them() -> None:
    made = Machine(USUAL | {"/srv/a/b": "d"}).plan(reads=("/srv/a",), writes=("/srv/a/b",))
    paths = [step.path for step in made.steps]
    assert all(
        paths.index(path) < paths.index(other)
        for path in paths
        for other in paths
        if other.startswith(path + "/")
    )


def test_the_home_is_a_private_directory_of_this_server() -> None:
    made = Machine(USUAL).plan()
    assert _at(made.steps, HOME) == Bind(HOME, STATE + "/home", writable=True)
    assert made.create == (STATE, STATE + "/home", CACHE)


def test_a_cache_that_holds_programs_can_be_executed_from_and_is_frozen() -> None:
    made = Machine(USUAL | {CACHE: "d"}).plan(executables=(CACHE,), apart=("uv/.lock",))
    assert _at(made.steps, CACHE) == Bind(CACHE, CACHE, writable=True, executable=True)
    assert _at(made.steps, CACHE + "/uv/.lock") == Pin(CACHE + "/uv/.lock", directory=False)
    assert {Access(CACHE, "write"), Access(CACHE, "execute")} <= set(made.access)
    assert made.frozen == CACHE


def test_a_cache_without_programs_is_neither() -> None:
    made = Machine(USUAL | {CACHE: "d"}).plan(apart=("uv/.lock",))
    assert _at(made.steps, CACHE) == Bind(CACHE, CACHE, writable=True)
    assert _at(made.steps, CACHE + "/uv/.lock") is None
    assert (made.frozen, Access(CACHE, "execute") in made.access) == ("", False)


def test_every_directory_between_private_ground_and_a_mount_is_pinned() -> None:
    made = Machine(USUAL | {HOME + "/a/b/c": "d"}).plan(reads=(HOME + "/a/b/c",))
    pins = {step.path for step in made.steps if isinstance(step, Pin)}
    assert {HOME + "/a", HOME + "/a/b"} <= pins
    assert HOME + "/a/b/c" not in pins
    assert STATE + "/home" in pins, "the private home itself cannot be renamed away"


def test_a_grant_inside_the_private_tmp_is_bound_into_it() -> None:
    made = Machine(USUAL | {"/tmp/x/work": "d"}).plan(writes=("/tmp/x/work",))
    assert isinstance(_at(made.steps, "/tmp"), Tmpfs)
    assert _at(made.steps, "/tmp/x") == Pin("/tmp/x")
    assert _at(made.steps, "/tmp/x/work") == Bind("/tmp/x/work", "/tmp/x/work", writable=True)


def test_a_grant_of_tmp_is_one_of_the_private_tmp() -> None:
    made = Machine(USUAL | {"/tmp/x": "f"}).plan(writes=("/tmp",))
    assert isinstance(_at(made.steps, "/tmp"), Tmpfs)
    assert made.left_out == ()


def test_links_are_made_again_and_their_targets_bound() -> None:
    machine = Machine(USUAL | {HOME + "/work": "-> /data/w", "/data/w": "-> ../disk/w", "/disk/w/p": "d"})
    made = machine.plan(reads=(HOME + "/work/p",))
    assert _at(made.steps, HOME + "/work") == Link(HOME + "/work", "/data/w")
    assert _at(made.steps, "/data/w") == Link("/data/w", "../disk/w")
    assert _at(made.steps, "/disk/w/p") == Bind("/disk/w/p", "/disk/w/p")
    assert Access("/disk/w/p", "read") in made.access


def test_links_that_are_seen_anyway_are_not_made() -> None:
    machine = Machine(USUAL | {"/srv/w/now": "-> then", "/srv/w/then": "d"})
    made = machine.plan(reads=("/srv/w", "/srv/w/now"))
    assert _at(made.steps, "/srv/w/now") is None
    assert _at(made.steps, "/srv/w/then") is None


def test_a_loop_of_links_is_refused() -> None:
    with pytest.raises(CannotConfine, match="too many symlinks"):
        Machine(USUAL | {"/srv/a": "-> b", "/srv/b": "-> a"}).plan(reads=("/srv/a",))


def test_a_read_inside_a_write_is_part_of_it_and_a_write_inside_a_read_is_not() -> None:
    machine = Machine(USUAL | {"/srv/w/r": "d", "/srv/r/w": "d"})
    made = machine.plan(reads=("/srv/w/r", "/srv/r"), writes=("/srv/w", "/srv/r/w"))
    assert _at(made.steps, "/srv/w/r") is None
    assert _at(made.steps, "/srv/r/w") == Bind("/srv/r/w", "/srv/r/w", writable=True)
    assert _at(made.steps, "/srv/r") == Bind("/srv/r", "/srv/r")


def test_the_installation_is_never_writable() -> None:
    machine = Machine(USUAL | {"/srv/w/lib": "d"})
    inside = machine.plan(writes=("/srv/w",), installation=("/srv/w/lib",))
    assert _at(inside.steps, "/srv/w/lib") == Bind("/srv/w/lib", "/srv/w/lib")
    same = machine.plan(writes=("/srv/w/lib",), installation=("/srv/w/lib",))
    assert _at(same.steps, "/srv/w/lib") == Bind("/srv/w/lib", "/srv/w/lib")


@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/1", "/sys/fs", "/dev", "/dev/kvm", "/run/user/1000/bus"]
)
def test_what_is_the_kernels_or_an_agents_is_never_bound(path: str) -> None:
    made = Machine(USUAL | {path: "d"}).plan(writes=(path,))
    assert not any(isinstance(step, Bind) and step.source == path and not step.device for step in made.steps)
    assert made.left_out == ((path, "is never bound"),)


def test_what_is_missing_or_a_socket_is_left_out_with_the_reason() -> None:
    made = Machine(USUAL | {"/srv/socket": "s"}).plan(reads=("/srv/none", "/srv/socket"))
    assert dict(made.left_out) == {
        "/srv/none": "does not exist",
        "/srv/socket": "is a socket, device or pipe",
    }


def test_covers_are_made_only_where_the_host_is_seen() -> None:
    machine = Machine(USUAL | {"/srv/w/.env": "f", "/srv/w/.aws": "d", HOME + "/.ssh": "d"})
    made = machine.plan(
        writes=("/srv/w",), covers=("/srv/w/.env", "/srv/w/.aws", "/srv/w/none", HOME + "/.ssh")
    )
    assert [step for step in made.steps if isinstance(step, Cover)] == [
        Cover("/srv/w/.aws", True),
        Cover("/srv/w/.env", False),
    ]
    assert made.sealed == ("/srv/w/.aws", "/")


def test_an_exact_grant_below_a_cover_is_bound_over_it() -> None:
    machine = Machine(USUAL | {"/srv/w/.ssh/known_hosts": "f"})
    made = machine.plan(reads=("/srv/w", "/srv/w/.ssh/known_hosts"), covers=("/srv/w/.ssh",))
    assert isinstance(_at(made.steps, "/srv/w/.ssh"), Cover)
    assert isinstance(_at(made.steps, "/srv/w/.ssh/known_hosts"), Bind)


def test_a_file_to_be_made_brings_its_directory_and_is_not_missing() -> None:
    path = "/srv/w/new/x.db"
    made = Machine(USUAL | {"/srv/w/other": "f"}).plan(
        writes=(path,), files=(path,), parents=("/srv/w",), missing=(path,)
    )
    assert _at(made.steps, "/srv/w") == Bind("/srv/w", "/srv/w", writable=True)
    assert made.left_out == ()


def test_a_file_without_such_a_directory_is_bound_alone() -> None:
    path = HOME + "/notes.txt"
    made = Machine(USUAL | {path: "f"}).plan(writes=(path,), files=(path,))
    assert _at(made.steps, path) == Bind(path, path, writable=True, directory=False)
    missing = Machine(USUAL).plan(writes=(path,), files=(path,), missing=(path,))
    assert missing.left_out == ((path, "does not exist"),)


def test_writable_mounts_are_executable_only_without_an_exec_gate() -> None:
    machine = Machine(USUAL | {"/srv/w": "d"})
    assert not any(getattr(step, "executable", False) for step in machine.plan(writes=("/srv/w",)).steps)
    made = machine.plan(writes=("/srv/w",), any_writable=True)
    assert {step.path for step in made.steps if getattr(step, "executable", False)} == {
        "/srv/w",
        "/tmp",
        HOME,
        STATE,
        CACHE,
    }
    assert Access("/srv/w", "execute") in made.access


def test_the_working_directory_is_there_even_if_it_shows_nothing() -> None:
    made = Machine(USUAL | {"/srv/p/secret": "f"}).plan(cwd="/srv/p")
    assert _at(made.steps, "/srv/p") == Directory("/srv/p")
    assert made.cwd == "/srv/p"


@pytest.mark.parametrize("what", ["-> /home/u", "f"])
def test_a_private_home_that_is_no_directory_is_refused(what: str) -> None:
    with pytest.raises(CannotConfine, match="private home"):
        Machine(USUAL | {STATE + "/home": what}).plan()
