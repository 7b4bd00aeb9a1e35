"""`$arg`: what a call's arguments grant, and what they cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcpwrap.limits import BOUND_CHARACTERS_PER_CALL, BOUND_VALUES_PER_CALL
from mcpwrap.policy import bind as reasons
from mcpwrap.protocol.glance import LongText
from tests.unit.policy.machine import HOME, READ, WRITE, Machine

if TYPE_CHECKING:
    from mcpwrap.policy.active import Bound

WORK = f"{HOME}/work"
GRANT = """
[policy]
within = ["~/work", "~/more"]
[tools.read]
fs_read = ["$arg:path"]
[tools.many]
fs_read = ["$arg:items[].p", "$arg:a.b"]
[tools.write]
fs_write = ["$arg:path"]
[tools.git]
fs_write = ["$arg:repo/.git/config"]
"""
FILES = (
    f"{WORK}/a {WORK}/d/b {HOME}/more/a {HOME}/more/only {HOME}/.ssh/id {WORK}/.env {HOME}/other/x "
    f"{WORK}/r/.git/config {HOME}/workshop/x '{WORK}/%41".replace("'", "")
)


@pytest.fixture
def machine() -> Machine:
    links = {
        f"{WORK}/out": "../other",
        f"{WORK}/in": "d",
        f"{WORK}/cross": "../more",
        f"{WORK}/key": f"{HOME}/.ssh/id",
        f"{WORK}/new": "../other/new",
        f"{HOME}/alias": "work",
    }
    machine = Machine(FILES, links)
    machine.add(f"{WORK}/fifo", "other")
    return machine


def bind(machine: Machine, tool: str, **arguments: object) -> Bound:
    return machine.policy(GRANT).bind(tool, arguments, machine.resolve)


def paths(bound: Bound) -> list[tuple[str, str]]:
    return [(path.path, path.kind) for path in bound.paths]


def roots(bound: Bound) -> list[str]:
    return [path.root for path in bound.paths]


def why(bound: Bound) -> list[str]:
    assert not bound.paths
    return [each.reason for each in bound.unbound]


@pytest.mark.parametrize(
    ("value", "path", "kind"),
    [
        (f"{WORK}/a", f"{WORK}/a", "file"),
        (f"{WORK}//a", f"{WORK}/a", "file"),
        (f"{WORK}/./d/../a", f"{WORK}/a", "file"),
        (f"{WORK}/d/", f"{WORK}/d", "tree"),
        (WORK, WORK, "tree"),
        ("~/work/a", f"{WORK}/a", "file"),
        (f"file://{WORK}/a", f"{WORK}/a", "file"),
        (f"FILE://localhost{WORK}/%61", f"{WORK}/a", "file"),
        (f"{WORK}/%41", f"{WORK}/%41", "file"),
        (f"{WORK}/in/b", f"{WORK}/d/b", "file"),
    ],
)
def test_a_value_binds_the_object_it_leads_to(machine: Machine, value: str, path: str, kind: str) -> None:
    bound = bind(machine, "read", path=value)
    assert paths(bound) == [(path, kind)]
    assert bound.paths[0].need is READ
    assert not bound.unbound


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (f"{HOME}/other/x", reasons.OUTSIDE),
        (f"{HOME}/workshop/x", reasons.OUTSIDE),
        (f"{WORK}/../other/x", reasons.OUTSIDE),
        ("/etc/passwd", reasons.OUTSIDE),
        ("../../../etc/passwd", reasons.OUTSIDE),
        ("file:///etc/passwd", reasons.OUTSIDE),
        (f"file://{WORK}/%2e%2e/other/x", reasons.OUTSIDE),
        ("file://elsewhere/x", None),
        (f"{WORK}/out/x", reasons.LEADS_OUTSIDE),
        (f"{WORK}/new", reasons.LEADS_OUTSIDE),
        (f"{WORK}/cross/a", reasons.LEADS_OUTSIDE),
        (f"{HOME}/alias/a", reasons.OUTSIDE),
        (f"{WORK}/out/../a", reasons.LEADS_OUTSIDE),
        (f"{WORK}/key", reasons.LEADS_OUTSIDE),
        (f"{WORK}/.env", "private:.env*"),
        (f"{WORK}/fifo", reasons.NO_FILE),
        ("", reasons.EMPTY),
        (f"{WORK}/a\0b", reasons.NUL),
        (f"file://{WORK}/a%00", reasons.NUL),
        (LongText(40_000), reasons.TOO_LONG),
        (7, reasons.NOT_TEXT),
        ({}, reasons.NOT_TEXT),
        ([f"{WORK}/a"], reasons.NOT_TEXT),
        (None, reasons.ABSENT),
    ],
)
def test_a_value_that_does_not_lie_inside_binds_nothing_and_says_why(
    machine: Machine, value: object, reason: str | None
) -> None:
    bound = bind(machine, "read", path=value)
    if reason is None:  # a relative name, which does not exist
        assert {kind for _, kind in paths(bound)} == {"create"}
    else:
        assert why(bound) == [reason]


def test_an_absent_argument_binds_nothing(machine: Machine) -> None:
    assert why(bind(machine, "read")) == [reasons.ABSENT]


def test_relative_values_bind_every_candidate_that_lies_inside(machine: Machine) -> None:
    assert paths(bind(machine, "read", path="a")) == [(f"{WORK}/a", "file"), (f"{HOME}/more/a", "file")]
    assert (f"{HOME}/more/only", "file") in paths(bind(machine, "read", path="only"))


def test_items_and_nested_names_are_followed(machine: Machine) -> None:
    bound = bind(
        machine, "many", items=[{"p": f"{WORK}/a"}, {"p": "/etc/x"}, {"q": 1}, 3], a={"b": f"{WORK}/d"}
    )
    assert paths(bound) == [(f"{WORK}/a", "file"), (f"{WORK}/d", "tree")]
    assert [each.reason for each in bound.unbound] == [reasons.OUTSIDE]
    assert bound.unbound[0].argument == "items[].p"


def test_one_call_binds_so_many_values_and_no_more(machine: Machine) -> None:
    bound = bind(
        machine, "many", items=[{"p": f"{WORK}/n{number}"} for number in range(BOUND_VALUES_PER_CALL + 50)]
    )
    assert len(paths(bound)) == BOUND_VALUES_PER_CALL
    assert reasons.TOO_MANY in [each.reason for each in bound.unbound]


def test_a_missing_path_binds_itself_and_its_missing_parents(machine: Machine) -> None:
    bound = bind(machine, "write", path=f"{WORK}/x/y/z")
    assert paths(bound) == [(f"{WORK}/x/y/z", "create")]
    assert roots(bound) == [WORK]
    effective = machine.call(machine.policy(GRANT), "write", path=f"{WORK}/x/y/z")
    for above in (f"{WORK}/x/y", f"{WORK}/x", WORK):
        assert effective.decide(WRITE, above, creating=True, regular=False).allowed
        assert effective.decide(READ, above, regular=False).allowed
    assert effective.decide(WRITE, f"{WORK}/x/y/z", creating=True).allowed
    assert effective.decide(WRITE, f"{WORK}/x/y/z/below", creating=True).allowed
    assert not effective.decide(WRITE, f"{WORK}/x", creating=True).allowed
    assert not effective.decide(WRITE, f"{WORK}/x", regular=False).allowed
    assert not effective.decide(WRITE, f"{WORK}/x/beside", creating=True).allowed
    assert not effective.decide(READ, f"{WORK}/x/beside").allowed


def test_a_path_of_thousands_of_directories_binds_in_one_record(machine: Machine) -> None:
    deep = WORK + "/a" * 1_900
    bound = bind(machine, "write", path=deep)
    assert paths(bound) == [(deep, "create")]
    effective = machine.call(machine.policy(GRANT), "write", path=deep)
    assert effective.decide(WRITE, deep[:-2], creating=True, regular=False).allowed


def test_a_text_longer_than_any_path_binds_nothing(machine: Machine) -> None:
    assert why(bind(machine, "read", path=f"{WORK}/a" + "/b" * 2_100)) == [reasons.TOO_LONG]


def test_the_characters_of_all_values_are_bounded(machine: Machine) -> None:
    each = WORK + "/a" * 1_900
    bound = bind(machine, "many", items=[{"p": f"{each}/{number}"} for number in range(200)])
    assert 0 < sum(len(path.path) for path in bound.paths) <= BOUND_CHARACTERS_PER_CALL
    assert reasons.TOO_MANY in [each.reason for each in bound.unbound]


def test_directories_above_a_bound_path_may_be_listed_and_no_more(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "read", path=f"{WORK}/d/b")
    for above in (f"{WORK}/d", WORK):
        assert effective.decide(READ, above, regular=False).allowed
        assert not effective.decide(READ, above).allowed
        assert not effective.decide(WRITE, above, regular=False).allowed
    assert not effective.decide(READ, f"{WORK}/r", regular=False).allowed
    assert not effective.decide(READ, f"{WORK}/a").allowed
    assert not effective.decide(WRITE, f"{WORK}/new", creating=True, regular=False).allowed


def test_a_literal_tail_names_exactly(machine: Machine) -> None:
    bound = bind(machine, "git", repo=f"{WORK}/r")
    assert paths(bound) == [(f"{WORK}/r/.git/config", "exact")]
    effective = machine.call(machine.policy(GRANT), "git", repo=f"{WORK}/r")
    assert effective.decide(WRITE, f"{WORK}/r/.git/config").allowed
    assert not effective.decide(WRITE, f"{WORK}/r/.git/hooks/x").allowed
    assert not effective.decide(READ, f"{WORK}/r/x").allowed


def test_a_bound_tree_does_not_reach_private_and_write_protected_places(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "write", path=WORK)
    assert effective.decide(WRITE, f"{WORK}/a").allowed
    assert not effective.decide(READ, f"{WORK}/.env").allowed
    assert not effective.decide(WRITE, f"{WORK}/r/.git/config").allowed


def test_a_root_that_is_a_link_holds_as_written_and_as_resolved() -> None:
    machine = Machine("/data/w/a", {f"{HOME}/work": "/data/w"})
    for value in (f"{HOME}/work/a", "/data/w/a"):
        assert paths(bind(machine, "read", path=value)) == [("/data/w/a", "file")]


NAMES = [".a.swp", "a~", "a.tmp", "a-x", "a_1", "a#", ".a.tmp.1"]
OTHERS = ["authorized_keys", "ab", "b", "a", ".a", "xa.tmp", "..a.tmp", "sub/a.tmp"]


@pytest.mark.parametrize("name", NAMES)
def test_an_atomic_writers_temporary_file_is_made_written_and_renamed_onto_the_bound_one(
    machine: Machine, name: str
) -> None:
    effective = machine.call(machine.policy(GRANT), "write", path=f"{WORK}/a")
    path = f"{WORK}/{name}"
    assert not effective.decide(WRITE, path).allowed  # one that is there already is another's
    assert effective.decide(WRITE, path, creating=True).allowed
    assert not effective.decide(WRITE, path, creating=True, regular=False).allowed
    effective.created(path, directory=False)
    assert effective.decide(WRITE, path).allowed
    assert effective.decide(READ, path).allowed
    onto = effective.decide_rename(path, f"{WORK}/a", replaced=(1, 1))
    assert [decision.allowed for _, decision in onto] == [True, True]
    elsewhere = effective.decide_rename(path, f"{WORK}/{name}x")
    assert not all(decision.allowed for _, decision in elsewhere)
    away = effective.decide_rename(f"{WORK}/a", path)
    assert [decision.rule for _, decision in away][1] == "atomic-name"
    exchanged = effective.decide_rename(path, f"{WORK}/a", replaced=(1, 1), exchange=True)
    assert not all(decision.allowed for _, decision in exchanged)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_granted_by_name_is_replaced_by_way_of_a_temporary_one_too(
    machine: Machine, name: str
) -> None:
    policy = machine.policy(f'[tools.note]\nfs_write = ["{WORK}/a", "{WORK}/d"]')
    effective = machine.call(policy, "note")
    path = f"{WORK}/{name}"
    assert effective.decide(WRITE, path, creating=True).allowed
    effective.created(path, directory=False)
    assert all(
        decision.allowed for _, decision in effective.decide_rename(path, f"{WORK}/a", replaced=(1, 1))
    )
    assert not effective.decide(WRITE, f"{WORK}/d.tmp", creating=True).allowed
    assert not machine.call(policy, "other").decide(WRITE, path, creating=True).allowed


@pytest.mark.parametrize("name", [name for name in OTHERS if name != "a"])
def test_other_names_beside_the_bound_file_stay_out_of_reach(machine: Machine, name: str) -> None:
    effective = machine.call(machine.policy(GRANT), "write", path=f"{WORK}/a")
    assert not effective.decide(WRITE, f"{WORK}/{name}", creating=True).allowed


def test_a_temporary_name_that_is_private_or_protected_is_refused(machine: Machine) -> None:
    machine.add(f"{WORK}/env", "file")
    effective = machine.call(machine.policy(GRANT), "write", path=f"{WORK}/env")
    assert effective.decide(WRITE, f"{WORK}/.env.local", creating=True).rule == "private:.env*"


def test_a_bound_file_is_not_replaced_by_something_else(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "write", path=f"{WORK}/a")
    assert not effective.decide(WRITE, f"{WORK}/a", creating=True, regular=False).allowed
    assert effective.decide(WRITE, f"{WORK}/a", creating=True).allowed


def test_reading_rules_have_no_temporary_names(machine: Machine) -> None:
    effective = machine.call(machine.policy(GRANT), "read", path=f"{WORK}/a")
    assert not effective.decide(WRITE, f"{WORK}/a.tmp", creating=True).allowed


def test_a_missing_root_is_not_made_for_an_argument() -> None:
    machine = Machine()
    bound = machine.policy('[tools.t]\nfs_write = ["$arg:p in ~/no/root"]').bind(
        "t", {"p": f"{HOME}/no/root/x"}, machine.resolve
    )
    assert paths(bound) == [(f"{HOME}/no/root/x", "create")]
    assert roots(bound) == [f"{HOME}/no/root"]
