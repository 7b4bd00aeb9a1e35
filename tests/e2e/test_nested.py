"""`nested_sandbox`: a sandbox can be made inside as a browser makes one, and what it must not open stays closed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.client import SessionEnded, failed, text
from tests.e2e.corpus import mcpwrap
from tests.e2e.test_layers import WITHOUT
from tests.e2e.victim import SECRET, Victim, refused

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

NO_CAPABILITIES = "0" * 16
SCRIPT = r"mkdir bin; printf '#!/bin/sh\necho script\n' > bin/script; chmod 755 bin/script"
SETUP = f"echo {SECRET} > data/closed; chmod 600 data/closed; {SCRIPT}"
NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER = 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000

NO_NAMESPACES = """
import os, sys
from mcpwrap.kernel import bpf, numbers, process, seccomp
process.set_no_new_privs()
refused = {numbers.NR["unshare"]: seccomp.RET_ERRNO | 1}
seccomp.load(bpf.assemble(numbers.AUDIT_ARCH, refused, seccomp.RET_ALLOW), listener=False)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def shared() -> Iterator[Victim]:
    with Victim("nested", setup=SETUP, grant="nested") as victim:
        yield victim


@pytest.fixture
def victim(shared: Victim) -> Victim:
    shared.restart_if_dead()
    return shared


@pytest.fixture(scope="module")
def bare() -> Iterator[Victim]:
    with Victim("nested-bare", "bare", setup=SETUP) as victim:
        yield victim


@pytest.fixture(scope="module")
def plain() -> Iterator[Victim]:
    with Victim("nested-plain", setup=SETUP) as victim:
        yield victim


def act(victim: Victim, *words: object, tool: str = "nothing") -> Any:
    answer = victim.act(tool, "nested", arguments=[str(word) for word in words])
    assert not failed(answer), text(answer)
    return json.loads(text(answer).partition("\n")[0])


@pytest.mark.parametrize("how", ["furnished", "twice", "further"])
def test_a_sandbox_is_made_inside_and_finds_itself_in_proc(victim: Victim, bare: Victim, how: str) -> None:
    made, control = act(victim, how), act(bare, how)
    for each in (made, control):
        assert each["pid"] == 1
        assert each["same"]
        assert each["again"]
        assert each["uid_map"] == [str(each["uid"])] * 2 + ["1"]
        assert each["capabilities"] != NO_CAPABILITIES
    assert set(made["namespaces"]).isdisjoint(act(victim, "namespaces")), "they are new ones"


def test_without_the_line_none_is_made(plain: Victim) -> None:
    assert act(plain, "furnished") == "EPERM"
    assert act(plain, "unshared", NEWUSER) == "EPERM"
    assert act(plain, "filtered", "") == "EPERM"


@pytest.mark.parametrize(
    ("words", "errno"),
    [
        (("called", "mount", 0, 0, 0, 0, 0), "EPERM"),
        (("called", "umount2", 0, 0), "EPERM"),
        (("called", "pivot_root", 0, 0), "EPERM"),
        (("called", "fsopen", 0, 0), "EPERM"),
        (("called", "open_tree", -1, 0, 0), "EPERM"),
        (("called", "bpf", 0, 0, 0), "EPERM"),
        (("called", "keyctl", 0, -3, 1), "EPERM"),
        (("called", "ptrace", 0, 0, 0, 0), "EPERM"),
        (("called", "process_vm_readv", 1, 0, 0, 0, 0, 0), "EPERM"),
        (("called", "pidfd_getfd", -1, 0, 0), "EPERM"),
        (("called", "sethostname", 0, 0), "EPERM"),
        (("cloned", NEWUSER | NEWNS), "EPERM"),
        (("cloned", NEWUSER | NEWUTS), "EPERM"),
        (("cloned", NEWUSER | NEWIPC), "EPERM"),
        (("cloned", NEWUSER | NEWCGROUP), "EPERM"),
        (("unshared", NEWNS), "EPERM"),
        (("unshared", NEWUSER | NEWNS), "EPERM"),
        (("packet_filter",), "EPERM"),
        (("supervised", 8), "EINVAL"),
        (("supervised", 32), "EINVAL"),
        (("shared_place", 0), "EPERM"),
        (("mapped_parent",), "EACCES"),
        (("opened", "/proc/1/uid_map"), "EACCES"),
        (("opened", "/proc/self/oom_score_adj"), "EACCES"),
        (("read", "/proc/1/environ"), "EACCES"),
        (("entered",), "EACCES"),
        (("mapped", "0 0 1"), "EPERM"),
        (("rooted", "/tmp"), "EACCES"),
        (("rooted", "/"), "EACCES"),
        (("rooted", "/usr/share"), "EACCES"),
        (("rooted", "/proc/self/fd"), "EACCES"),
    ],
)
def test_what_no_browser_asks_for_is_refused_there(
    victim: Victim, words: tuple[object, ...], errno: str
) -> None:
    assert act(victim, *words) == errno


@pytest.mark.parametrize(
    "words",
    [
        ("cloned", NEWUSER | NEWNS),
        ("unshared", NEWNS),
        ("supervised", 8),
        ("shared_place", 0),
        ("opened", "/proc/self/oom_score_adj"),
        ("rooted", "/tmp"),
        ("rooted", "/usr/share"),
    ],
)
def test_bare_the_same_is_done(bare: Victim, words: tuple[object, ...]) -> None:
    assert not str(act(bare, *words)).startswith("E")


def test_capabilities_inside_open_no_file(victim: Victim, bare: Victim) -> None:
    assert SECRET in act(bare, "read", bare.data / "closed")
    for path in (victim.data / "closed", victim.place.work / "out" / "secret.txt", "/etc/hostname"):
        assert act(victim, "read", path) in ("EACCES", "ENOENT")


def test_the_empty_root_of_a_browser_is_empty(victim: Victim) -> None:
    tries = ["open /etc/os-release", "open os-release", "at self/status", "execute /bin/cat"]
    found = act(victim, "rooted", "/proc/self/fdinfo/", *tries, tool="runner")
    assert found == {
        "open /etc/os-release": "EACCES",
        "open os-release": "ENOENT",
        "at self/status": "Name:",
        "execute /bin/cat": "EACCES",
    }
    assert act(victim, "read", "/etc/os-release"), "others see what they saw"


@pytest.mark.parametrize("how", ["seccomp", "prctl"])
def test_a_filter_of_its_own_is_put_on(victim: Victim, how: str) -> None:
    assert int(act(victim, "filtered", "", how)) >= 2


@pytest.mark.parametrize("how", ["seccomp", "prctl"])
def test_who_hides_what_it_executes_executes_nothing(victim: Victim, bare: Victim, how: str) -> None:
    assert act(bare, "filtered", "/bin/cat", how) == "executed"
    assert act(victim, "filtered", "/bin/cat", how, tool="runner") == "EACCES"
    answer = victim.act("runner", "execute", argv=["/bin/cat", "/dev/null"])
    assert not failed(answer), text(answer)


def test_a_script_is_executed_by_its_absolute_name_alone(victim: Victim) -> None:
    """Who made it by clone(CLONE_VFORK | CLONE_FS) still shares its working directory, and moves it meanwhile."""
    directory = victim.place.work / "bin"
    assert text(victim.act("runner", "execute", argv=[str(directory / "script")])) == "script\n"
    assert refused(victim.act("runner", "execute_in", directory=str(directory), name="./script"))


def test_with_that_rule_taken_out_it_executes() -> None:
    launcher = [sys.executable, "-I", str(WITHOUT), "own filters"]
    with Victim("nested-without", setup=SETUP, grant="nested", launcher=launcher) as victim:
        assert act(victim, "filtered", "/bin/cat", tool="runner") == "executed"


def test_namespaces_are_counted(victim: Victim, bare: Victim) -> None:
    assert act(bare, "many", 200) == 200
    assert act(victim, "many", 200) < 100


@pytest.mark.parametrize(("grant", "noun"), [("nested", "nested_sandbox"), ("copied", "install_write")])
def test_without_namespaces_it_is_refused_and_not_left_out(grant: str, noun: str) -> None:
    launcher = [sys.executable, "-I", "-c", NO_NAMESPACES, *mcpwrap()]
    with pytest.raises(SessionEnded, match=f"the grant says {noun}, which needs namespaces"):
        Victim(f"nested-C-{grant}", setup=SETUP, grant=grant, launcher=launcher)
