"""Acts on files beyond the call's own grant: each succeeds bare, is refused, and leaves the host as it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.e2e.client import failed, text
from tests.e2e.victim import Victim, filled, refused, snapshot

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")


@dataclass(frozen=True, slots=True)
class Case:
    """One act: `bound` is what the grant binds, `acts` the act's arguments; {D} is the case's directory.

    `bare` is False where an ordinary user's kernel refuses the act too, so that only the refusal is seen.
    """

    name: str
    tool: str
    act: str
    acts: dict[str, Any]
    bound: dict[str, Any] = field(default_factory=lambda: {"path": "{D}/a.txt"})
    bare: bool = True


TREE = {"path": "{D}/r"}
CASES = [
    Case("reads_a_second_file", "reader", "read", {"path": "{D}/b.txt"}),
    Case("reads_a_second_file_by_dotdot", "reader", "read", {"path": "{D}/empty/../b.txt"}),
    Case("reads_by_a_directory_fd", "reader", "read_by_directory_fd", {"directory": "{D}", "name": "b.txt"}),
    Case("reads_after_chdir", "reader", "read_after_chdir", {"directory": "{D}", "name": "b.txt"}),
    Case("reads_through_proc_self_root", "reader", "read", {"path": "/proc/self/root{D}/b.txt"}),
    Case("reads_through_proc_thread_self", "reader", "read", {"path": "/proc/thread-self/root{D}/b.txt"}),
    Case(
        "reads_through_proc_self_cwd",
        "reader",
        "read_after_chdir",
        {"directory": "{D}", "name": "/proc/self/cwd/b.txt"},
    ),
    Case("reads_a_planted_link", "reader", "read", {"path": "{D}/link.txt"}),
    Case(
        "reads_its_own_argument_if_that_is_a_link_out",
        "reader",
        "read",
        {"path": "{D}/link_out"},
        {"path": "{D}/link_out"},
    ),
    Case("reads_by_openat2", "reader", "openat2", {"path": "{D}/b.txt"}),
    Case("reads_an_attribute_of_a_second_file", "reader", "read_attribute", {"path": "{D}/b.txt"}),
    Case("reopens_a_path_fd", "reader", "reopen_path_fd", {"path": "{D}/b.txt"}),
    Case("lists_a_directory", "reader", "list_directory", {"path": "{D}/r"}),
    Case(
        "reads_out_of_within",
        "reader",
        "read",
        {"path": "{W}/out/secret.txt"},
        {"path": "{W}/out/secret.txt"},
    ),
    Case(
        "reads_a_key",
        "reader",
        "read",
        {"path": "{W}/home/.ssh/id_ed25519"},
        {"path": "{W}/home/.ssh/id_ed25519"},
    ),
    Case(
        "reads_a_key_by_a_hard_link",
        "reader",
        "read",
        {"path": "{W}/data/keys/innocent"},
        {"path": "{W}/data/keys"},
    ),
    Case("reads_a_private_file_by_a_hard_link", "reader", "read", {"path": "{D}/r/innocent"}, TREE),
    Case("reads_a_dotenv_it_names", "reader", "read", {"path": "{D}/.env"}, {"path": "{D}/.env"}),
    Case("reads_a_dotenv_below_its_directory", "reader", "read", {"path": "{D}/.env"}, {"path": "{D}"}),
    Case("reads_a_dotenv_in_capitals", "reader", "read", {"path": "{D}/r/.ENV"}, TREE),
    Case("writes_what_it_may_read", "reader", "write", {"path": "{D}/a.txt"}),
    Case("writes_through_proc_self_fd", "reader", "reopen_for_writing", {"path": "{D}/a.txt"}),
    Case("writes_through_dev_fd", "reader", "reopen_by_dev_fd", {"path": "{D}/a.txt"}),
    Case("changes_a_mode_by_a_read_fd", "reader", "chmod_by_read_fd", {"path": "{D}/a.txt", "mode": 0o777}),
    Case("changes_an_owner_by_a_read_fd", "reader", "chown_by_read_fd", {"path": "{D}/a.txt"}),
    Case("sets_an_attribute_by_a_read_fd", "reader", "xattr_by_read_fd", {"path": "{D}/a.txt"}),
    Case("sets_times_by_a_read_fd", "reader", "times_by_read_fd", {"path": "{D}/a.txt"}),
    Case("sets_inode_flags_by_a_read_fd", "reader", "set_inode_flags", {"path": "{D}/a.txt"}),
    Case("empties_what_it_may_read", "reader", "open_read_truncating", {"path": "{D}/a.txt"}),
    Case("writes_a_second_file", "writer", "write", {"path": "{D}/b.txt"}),
    Case("appends_to_a_second_file", "writer", "append", {"path": "{D}/b.txt"}),
    Case("empties_a_second_file_by_opening", "writer", "open_truncating", {"path": "{D}/b.txt"}),
    Case("empties_a_second_file_by_opening_to_read", "writer", "open_read_truncating", {"path": "{D}/b.txt"}),
    Case("empties_a_second_file", "writer", "truncate", {"path": "{D}/b.txt"}),
    Case("creates_a_file_beside", "writer", "create", {"path": "{D}/authorized_keys"}),
    Case("creates_a_longer_name", "writer", "create", {"path": "{D}/a.txtual"}),
    Case("removes_a_second_file", "writer", "unlink", {"path": "{D}/b.txt"}),
    Case("makes_a_directory", "writer", "mkdir", {"path": "{D}/new"}),
    Case("removes_a_directory", "writer", "rmdir", {"path": "{D}/empty"}),
    Case("renames_a_second_file", "writer", "rename", {"source": "{D}/b.txt", "destination": "{D}/c.txt"}),
    Case(
        "renames_its_file_over_another",
        "writer",
        "rename",
        {"source": "{D}/a.txt", "destination": "{D}/b.txt"},
    ),
    Case(
        "renames_another_over_its_file",
        "writer",
        "rename",
        {"source": "{D}/b.txt", "destination": "{D}/a.txt"},
    ),
    Case(
        "exchanges_its_file_for_another",
        "writer",
        "exchange",
        {"source": "{D}/a.txt", "destination": "{D}/b.txt"},
    ),
    Case(
        "links_a_second_file_beside_its_own",
        "writer",
        "hardlink",
        {"source": "{D}/b.txt", "destination": "{D}/a.txt.x"},
    ),
    Case(
        "links_its_file_elsewhere", "writer", "hardlink", {"source": "{D}/a.txt", "destination": "{D}/c.txt"}
    ),
    Case("links_by_an_fd", "reader", "hardlink_by_fd", {"source": "{D}/a.txt", "destination": "{D}/c.txt"}),
    Case("changes_a_mode", "writer", "chmod", {"path": "{D}/b.txt", "mode": 0o777}),
    Case("changes_a_mode_by_fchmodat2", "writer", "fchmodat2", {"path": "{D}/b.txt", "mode": 0o777}),
    Case("sets_an_attribute", "writer", "xattr", {"path": "{D}/b.txt"}),
    Case("sets_times", "writer", "times", {"path": "{D}/b.txt"}),
    Case("makes_a_fifo", "writer", "make_fifo", {"path": "{D}/fifo"}),
    Case("makes_a_device", "writer", "make_device", {"path": "{D}/r/device"}, TREE, bare=False),
    Case(
        "makes_a_link_out_of_its_directory",
        "writer",
        "symlink",
        {"target": "{W}/out/secret.txt", "path": "{D}/r/ln"},
        TREE,
    ),
    Case("writes_git_config", "writer", "write", {"path": "{D}/r/.git/config"}, TREE),
    Case("writes_a_hook", "writer", "write", {"path": "{D}/r/.git/hooks/post-commit"}, TREE),
    Case("writes_a_client_config", "writer", "write", {"path": "{D}/r/.mcp.json"}, TREE),
    Case("writes_a_client_config_in_capitals", "writer", "write", {"path": "{D}/r/.MCP.json"}, TREE),
    Case(
        "renames_a_file_onto_a_hook",
        "writer",
        "rename",
        {"source": "{D}/r/f", "destination": "{D}/r/.git/hooks/x"},
        TREE,
    ),
    Case(
        "links_git_config",
        "writer",
        "hardlink",
        {"source": "{D}/r/.git/config", "destination": "{D}/r/x"},
        TREE,
    ),
    Case(
        "links_an_unnamed_file_onto_a_hook",
        "writer",
        "link_temporary_file_by_proc",
        {"directory": "{D}/r", "destination": "{D}/r/.git/hooks/x"},
        TREE,
    ),
    Case(
        "moves_git_aside",
        "writer",
        "move_aside_write_and_back",
        {"directory": "{D}/r/.git", "aside": "{D}/r/g", "inside": "hooks/x"},
        TREE,
    ),
    Case(
        "moves_a_directory_that_holds_git",
        "writer",
        "move_aside_write_and_back",
        {"directory": "{D}/r/sub", "aside": "{D}/r/s2", "inside": ".git/x"},
        TREE,
    ),
    Case(
        "exchanges_git_for_another_directory",
        "writer",
        "exchange",
        {"source": "{D}/r/.git", "destination": "{D}/r/other"},
        TREE,
    ),
    Case("maps_a_written_file_executable", "writer", "map_executable", {"path": "{D}/a.txt"}),
    Case("reads_mcpwraps_grant", "reader", "read", {"path": "{W}/grant.toml"}, bare=False),
    Case("reads_the_audit", "reader", "list_directory", {"path": "{W}/state"}),
    Case("changes_its_root", "reader", "chroot_and_read", {"path": "/etc/hostname"}, bare=False),
]
WEAKER_WITHOUT_VIEW = ("maps_a_written_file_executable",)
MAY_CHANGE = {"maps_a_written_file_executable": "a.txt"}


@pytest.fixture(scope="module", params=["", "filter", "docker"], ids=["B", "C", "C in a container"])
def victims(request: pytest.FixtureRequest) -> Iterator[tuple[Victim, Victim]]:
    """The same server bare and behind mcpwrap, on machines that lack nothing or namespaces."""
    setup = "mkdir -m 700 home/.ssh; echo SECRET-B | tee home/.ssh/id_ed25519 > home/.netrc; mkdir -p state"
    setup += "; mkdir data/keys; ln home/.ssh/id_ed25519 data/keys/innocent"
    with (
        Victim("files-bare", "bare", setup=setup) as bare,
        Victim("files", setup=setup, lacking=request.param) as wrapped,
    ):
        yield bare, wrapped


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_act_beyond_the_grant_is_refused_and_changes_nothing(
    case: Case, victims: tuple[Victim, Victim]
) -> None:
    if case.name in WEAKER_WITHOUT_VIEW and victims[1].lacking:
        pytest.skip("tests/e2e/test_tier_c.py shows it")
    for victim in victims:
        victim.restart_if_dead()
        directory = victim.case(case.name)
        os.link(victim.place.work / "home" / ".netrc", directory / "r" / "innocent")
        (directory / "r" / "other").mkdir()
        before = snapshot(directory)
        bound, acts = (filled(value, directory, victim.place.work) for value in (case.bound, case.acts))
        answer = victim.act(case.tool, case.act, bound, **acts)
        assert "FAULT" not in text(answer), answer
        if victim is victims[0]:
            if text(answer).startswith("ENOSYS"):
                pytest.skip("this kernel does not have the call")
            assert failed(answer) != case.bare, f"bare: {answer}"
            continue
        assert failed(answer), f"it worked: {answer}"
        assert refused(answer), answer
        after = snapshot(directory)
        after.pop(MAY_CHANGE.get(case.name, ""), None)
        assert {name: before[name] for name in after} == after
        assert after.keys() | set(MAY_CHANGE.values()) >= before.keys()


def test_a_granted_file_is_read_and_written(victims: tuple[Victim, Victim]) -> None:
    victim = victims[1]
    victim.restart_if_dead()
    directory = victim.case("granted")
    path = str(directory / "a.txt")
    assert text(victim.act("reader", "read", {"path": path}, path=path)) == "mine\n"
    assert text(victim.act("writer", "write", {"path": path}, path=path)) == "written"
    assert (directory / "a.txt").read_text() == "owned"


def test_paths_that_end_in_no_name_are_answered_as_the_kernel_does(victims: tuple[Victim, Victim]) -> None:
    """Archives have a member `.`, and programs that make directories begin there."""
    said = []
    for victim in victims:
        victim.restart_if_dead()
        directory = str(victim.case("no-names"))
        answer = victim.act("writer", "names_that_are_none", {"path": directory}, directory=directory)
        said.append(json.loads(text(answer).partition("\n[mcpwrap]")[0]))
    bare, wrapped = said
    assert len(bare) == 121
    assert {name: (wrapped[name], bare[name]) for name in bare if wrapped[name] != bare[name]} == {}


def test_a_fifo_holds_up_nobody(victims: tuple[Victim, Victim]) -> None:
    victim = victims[1]
    victim.restart_if_dead()
    directory = victim.case("fifo")
    os.mkfifo(directory / "r" / "pipe")
    for _ in range(8):
        bound, path = {"path": str(directory / "r")}, str(directory / "r" / "pipe")
        assert text(victim.act("reader", "open_fifo_in_thread", bound, path=path)).startswith("waiting")
    path = str(directory / "a.txt")
    answer = victim.session.call("reader", {"act": "read", "path": path, "with": {"path": path}}, seconds=10)
    assert text(answer).startswith("mine\n")


def test_set_id_bits_do_not_reach_the_host(victims: tuple[Victim, Victim]) -> None:
    victim = victims[1]
    victim.restart_if_dead()
    directory = victim.case("setuid")
    for name, act in (("made", "make_setuid"), ("created", "create_setuid")):
        path = directory / "r" / name
        victim.act("writer", act, {"path": str(path.parent)}, path=str(path))
        assert not path.exists() or path.stat().st_mode & 0o6000 == 0


def test_a_hostile_file_name_does_not_write_the_explanation(victims: tuple[Victim, Victim]) -> None:
    victim = victims[1]
    victim.restart_if_dead()
    directory = victim.case("names")
    name = 'x"]\n[tools."*"]\nfs_read = ["~"]\u202e\x1b[2J'
    (directory / name).write_text("SECRET-B")
    path = str(directory / "a.txt")
    answer = victim.act("reader", "read", {"path": path}, path=str(directory / name))
    assert refused(answer)
    explanation = text({"result": {"content": answer["result"]["content"][1:]}})
    assert "refused by mcpwrap" in explanation
    for said in (explanation, victim.session.stderr()):
        assert "\u202e" not in said
        assert "\x1b" not in said
        assert '\n[tools."*"]\nfs_read = ["~"]' not in said
