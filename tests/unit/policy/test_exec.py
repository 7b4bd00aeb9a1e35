"""What may be executed."""

from __future__ import annotations

import pytest

from tests.unit.policy.machine import CACHE, EXEC, HOME, READ, SERVER, WRITE, Machine, idle

FILES = f"/usr/bin/node /opt/tool/bin/tool /opt/tool/lib/x /usr/lib/git-core/git-remote {HOME}/work/hook {HOME}/work/s"


@pytest.fixture
def machine() -> Machine:
    return Machine(FILES, {"/usr/bin/py": "python3.11", "/usr/bin/alias": "/opt/tool/bin/tool"})


def test_the_commands_own_programs_run_in_every_phase(machine: Machine) -> None:
    policy = machine.policy("")
    for effective in (idle(policy, startup=True), idle(policy), machine.call(policy)):
        assert effective.decide(EXEC, "/usr/bin/python3.11").rule == "command"


def test_a_bare_name_grants_the_real_file_it_resolves_to(machine: Machine) -> None:
    policy = machine.policy('[tools.t]\nexec = ["alias"]')
    effective = machine.call(policy)
    assert effective.decide(EXEC, "/opt/tool/bin/tool").rule == "tools.t.exec[0]"
    assert not effective.decide(EXEC, "/usr/bin/git").allowed
    assert not machine.call(policy, "other").decide(EXEC, "/opt/tool/bin/tool").allowed


def test_a_granted_program_and_its_installation_are_readable_while_the_rule_holds(machine: Machine) -> None:
    policy = machine.policy('[tools.t]\nexec = ["alias"]', program_roots=lambda _: ("/opt/tool",))
    assert machine.call(policy).decide(READ, "/opt/tool/lib/x").rule == "tools.t.exec[0]"
    assert not machine.call(policy, "other").decide(READ, "/opt/tool/lib/x").allowed
    assert policy.floor.executables == ("/opt/tool/bin/tool",)
    assert "/opt/tool" in policy.floor.reads


def test_a_pattern_grants_real_files(machine: Machine) -> None:
    policy = machine.policy('[server]\nexec = ["/usr/lib/git-core/*"]')
    assert idle(policy).decide(EXEC, "/usr/lib/git-core/git-remote").allowed
    assert not idle(policy).decide(EXEC, "/usr/lib/git").allowed
    assert policy.floor.executables == ("/usr/lib/git-core",)


def test_a_program_that_is_not_there_is_reported(machine: Machine) -> None:
    assert [rule.program for rule in machine.policy('[server]\nexec = ["nowhere"]').unresolved] == ["nowhere"]


@pytest.mark.parametrize(
    "path", ["/usr/lib/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"]
)
def test_loaders_are_no_programs(machine: Machine, path: str) -> None:
    policy = machine.policy('[server]\nexec = ["any-writable"]', programs=(path,))
    assert idle(policy).decide(EXEC, path).rule == "loader"


def test_nothing_the_server_could_write_is_executable(machine: Machine) -> None:
    policy = machine.policy('[tools.t]\nfs_write = ["~/work"]\nexec = ["~/work/hook"]\n[tools.u]\n')
    for tool in ("t", "u"):
        effective = machine.call(policy, tool)
        for path in (f"{HOME}/work/hook", f"{HOME}/x", "/tmp/x", "/dev/shm/x"):
            assert effective.decide(EXEC, path).rule == "writable"


def test_a_rule_for_the_cache_lets_what_a_launcher_put_there_run_in_every_phase(machine: Machine) -> None:
    policy = machine.policy('[server]\nexec = ["$CACHE/**"]')
    assert policy.floor.executables == (CACHE,)
    for effective in (idle(policy, startup=True), idle(policy), machine.call(policy)):
        assert effective.decide(EXEC, f"{CACHE}/npm/bin/x").rule == "server.exec[0]"
        assert effective.interpreter(f"{CACHE}/bin/x", f"{CACHE}/bin/python").allowed
        assert not effective.changeable(f"{CACHE}/bin/link"), (
            "start-up may write there, and is trusted with it"
        )
        assert effective.decide(EXEC, f"{HOME}/x").rule == "writable"
        assert effective.interpreter(f"{CACHE}/bin/x", "/tmp/python").rule == "writable"
    assert not idle(policy).decide(WRITE, f"{CACHE}/npm/bin/x").allowed


def test_what_cannot_be_frozen_runs_while_the_server_starts_and_never_in_a_call(machine: Machine) -> None:
    policy = machine.policy('[server]\nexec = ["$CACHE/**"]', bare=True)
    assert idle(policy, startup=True).decide(EXEC, f"{CACHE}/npm/bin/x").allowed
    for effective in (idle(policy), machine.call(policy)):
        assert effective.decide(EXEC, f"{CACHE}/npm/bin/x").rule == "writable"
        assert effective.changeable(f"{CACHE}/bin/link")


def test_a_script_in_the_cache_has_no_interpreter_there_without_a_rule_for_it(machine: Machine) -> None:
    policy = machine.policy('[server]\nexec = ["$CACHE/bin/*"]')
    assert idle(policy).decide(EXEC, f"{CACHE}/bin/x").allowed
    assert idle(policy).interpreter(f"{CACHE}/bin/x", f"{CACHE}/lib/python").rule == "writable"
    assert idle(policy).changeable(f"{CACHE}/lib/link")


def test_any_writable_gives_up_the_gate_for_its_table_only(machine: Machine) -> None:
    policy = machine.policy('[tools.t]\nfs_write = ["~/work"]\nexec = ["any-writable"]\n[tools.u]\n')
    assert machine.call(policy, "t").decide(EXEC, f"{HOME}/work/hook").allowed
    assert not machine.call(policy, "u").decide(EXEC, f"{HOME}/work/hook").allowed
    assert policy.floor.any_writable


def test_a_script_grants_its_interpreter_for_itself_only(machine: Machine) -> None:
    policy = machine.policy('[server]\nexec = ["~/work/s"]')
    effective = idle(policy)
    assert effective.interpreter(f"{HOME}/work/s", "/usr/bin/node").rule == "server.exec[0]"
    assert not effective.decide(EXEC, "/usr/bin/node").allowed
    assert not effective.interpreter(f"{HOME}/work/other", "/usr/bin/node").allowed
    assert effective.interpreter(f"{HOME}/work/s", "/lib64/ld-linux-x86-64.so.2").rule == "loader"
    assert effective.interpreter(f"{HOME}/work/s", "/tmp/node").rule == "writable"
    assert effective.interpreter(f"{HOME}/work/s", "pipe:[1]").rule == "no-path"


def test_the_installation_inside_a_writable_tree_stays_executable(machine: Machine) -> None:
    policy = machine.policy(
        '[tools.t]\nfs_write = ["~/work"]\n[server]\nexec = ["~/work/srv/bin/x"]',
        installation=(f"{HOME}/work/srv",),
        identity=lambda path: (1, hash(path)),
    )
    assert machine.call(policy).decide(EXEC, f"{HOME}/work/srv/bin/x").allowed
    assert SERVER not in policy.floor.writes
