"""Attacks found by reading the broker: each lives between two of its checks, and the host must not notice."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Session, SessionEnded, failed, text
from tests.e2e.corpus import bench, mcpwrap
from tests.e2e.victim import SECRET, SERVER, Victim, filled, refused, snapshot

SCRIPT = "mkdir bin; printf '#!/bin/bash\\necho script\\n' > bin/script; chmod 755 bin/script\n"
pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

MEMORY_LIMIT = 256 << 20
RELAY_GROWTH = 12 << 20
"""Bytes the relay may grow by while it hears of 12,000 refusals of 4 KiB each."""
MARKER = "SWAPPED"


@pytest.fixture(scope="module")
def shared() -> Iterator[Victim]:
    with Victim("attacks", setup=SCRIPT, grant="attacks") as victim:
        yield victim


@pytest.fixture
def victim(shared: Victim) -> Victim:
    shared.restart_if_dead()
    return shared


def said(victim: Victim, tool: str, act: str, bound: Mapping[str, Any] | None = None, **acts: Any) -> str:
    """Return what an act came to; that mcpwrap ended the tree is an outcome, too."""
    try:
        outcome = text(victim.act(tool, act, bound, **acts))
    except SessionEnded:
        return "ended"
    assert not outcome.startswith("FAULT"), outcome
    return outcome


# Places


@pytest.mark.parametrize("ground", ["home/.tool", "temporary"])
def test_a_directory_above_a_mount_cannot_be_renamed_on_the_servers_own_ground(ground: str) -> None:
    # The working directory lies between HOME (or /tmp) and what is granted: moved away, the mount would be at a
    # path of the server's own, where everything is allowed without any call.
    place = bench("attacks-carry", "mkdir -p home/.tool\n")
    above = place.work / ground if ground != "temporary" else Path(tempfile.mkdtemp(dir="/tmp"))
    project = above / "project"
    (project / "docs").mkdir(parents=True)
    (project / "docs" / "b.txt").write_text(SECRET)
    before = snapshot(project)
    grant = place.work / "grant.toml"
    template = (Path(__file__).parent / "grants" / "attacks-home.toml").read_text()
    grant.write_text(template.replace("{P}", str(project)))
    grant.chmod(0o600)
    command = [*mcpwrap(), "--grant", str(grant), "--", sys.executable, "-B", str(SERVER)]
    try:
        with Session(command, env=place.env, cwd=project, stderr=place.work / "stderr") as session:
            session.initialize()
            acts = {"directory": str(project), "place": str(above / "elsewhere"), "name": "docs/b.txt"}
            answer = session.call("nothing", {"act": "carry_away", "with": acts})
        assert text(answer).startswith(("EBUSY", "EACCES", "EXDEV", "EROFS")), answer
        assert SECRET not in text(answer)
        assert snapshot(project) == before
    finally:
        if ground == "temporary":
            shutil.rmtree(above)


def test_a_second_run_cannot_carry_the_mounts_of_the_first_away() -> None:
    # Both have the same private home. What is a mount point of the one is a mere directory to the other, and
    # renaming it there takes the mount along, pinned or not.
    place = bench(
        "attacks-two", f"mkdir -p home/.tool/project/docs; echo {SECRET} > home/.tool/project/docs/b.txt\n"
    )
    tool = place.work / "home" / ".tool"
    before = snapshot(tool)
    template = (Path(__file__).parent / "grants" / "attacks-home.toml").read_text()
    (place.work / "data" / "docs").mkdir()
    sessions = []
    for name, project in (("first", tool / "project"), ("second", place.work / "data")):
        grant = place.work / f"{name}.toml"
        grant.write_text(template.replace("{P}", str(project)))
        grant.chmod(0o600)
        command = [*mcpwrap(), "--grant", str(grant), "--", sys.executable, "-B", str(SERVER)]
        sessions.append(Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / name))
        sessions[-1].initialize()
    first, second = sessions
    try:
        acts = {"source": str(tool / "project"), "destination": str(tool / "elsewhere")}
        moved = second.call("nothing", {"act": "rename", "with": acts})
        path = str(tool / "elsewhere" / "docs" / "b.txt")
        answer = first.call("nothing", {"act": "read", "with": {"path": path}})
        assert "FAULT" not in text(moved)
        assert SECRET not in text(answer)
        path = str(tool / "elsewhere" / "docs" / ".mcp.json")
        first.call("nothing", {"act": "write", "with": {"path": path}})
        assert snapshot(tool) == before
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("name", [".mcp.json", ".vscode/tasks.json", ".claude/settings.json", ".bashrc"])
def test_an_existing_directory_does_not_pass_for_one_made_by_this_call(name: str, victim: Victim) -> None:
    directory = victim.case(f"born-{name.replace('/', '-')}")
    tree = directory / "empty"
    (tree / "main.py").write_text("the user's\n")
    said(victim, "writer", "be_born_again", {"path": str(directory)}, directory=str(tree), names=[name])
    assert not (tree / name).exists()


def test_an_existing_directory_moved_onto_a_new_one_keeps_its_protection(victim: Victim) -> None:
    directory = victim.case("onto-born")
    (directory / "empty" / "main.py").write_text("the user's\n")
    acts = {"directory": str(directory / "empty"), "new": str(directory / "new"), "name": ".mcp.json"}
    said(victim, "writer", "move_into_born", {"path": str(directory)}, **acts)
    assert not (directory / "empty" / ".mcp.json").exists()


# Links


@pytest.mark.parametrize(
    "target",
    ["{H}/.ssh/id_ed25519", "{H}/.bashrc", "/tmp/elsewhere", "/dev/shm/elsewhere"],
    ids=["private", "protected", "temporary", "shared memory"],
)
def test_a_link_on_the_host_does_not_lead_to_what_only_the_sandbox_has_there(
    target: str, victim: Victim
) -> None:
    directory = victim.case(f"link-{target.replace('/', '-').replace('{H}', 'home')}")
    leads_to = target.replace("{H}", victim.place.env["HOME"])
    link = directory / "r" / "notes.txt"
    outcome = said(
        victim, "writer", "symlink", {"path": str(directory / "r")}, target=leads_to, path=str(link)
    )
    assert not link.is_symlink(), f"{outcome}: {link} -> {leads_to}"


def test_a_link_that_is_moved_does_not_lead_out_of_the_grant(victim: Victim) -> None:
    directory = victim.case("link-moved")
    tree = directory / "r"
    acts = {"directory": str(tree), "text": "../b.txt", "name": "notes"}
    said(victim, "writer", "link_then_move", {"path": str(tree)}, **acts)
    assert Path(os.path.realpath(tree / "notes")).is_relative_to(tree)


def test_a_link_does_not_lead_out_of_the_grant_by_way_of_another_link(victim: Victim) -> None:
    directory = victim.case("link-by-link")
    tree = directory / "r"
    acts = {"directory": str(tree), "name": "notes", "target": "b.txt"}
    said(victim, "writer", "link_by_link", {"path": str(tree)}, **acts)
    assert Path(os.path.realpath(tree / "notes")).is_relative_to(tree)


# What git takes orders from


def _git(*words: str, cwd: Path, home: Path) -> None:
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=cwd, env=environ, capture_output=True, check=False, timeout=30)


def _plant_repository(victim: Victim, tree: Path, flag: Path) -> None:
    """Make, by the server, a directory that git takes for a repository, with a program in its config."""
    config = f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {flag}; false"\n'
    made = {
        "objects/info/x": "",
        "refs/heads/x.md": "",
        "HEAD": "ref: refs/heads/main\n",
        "config": config,
    }
    for name, content in made.items():
        path = tree / "gitdata" / name
        for parent in reversed(path.relative_to(tree).parents[:-1]):
            victim.act("writer", "mkdir", {"path": str(tree)}, path=str(tree / parent))
        victim.act("writer", "write", {"path": str(tree)}, path=str(path), content=content)


@pytest.mark.parametrize(
    ("pointer", "content", "inside"),
    [(".git/commondir", "../gitdata\n", "."), ("src/.git", "gitdir: ../gitdata\n", "src")],
    ids=["commondir", "gitfile"],
)
def test_git_is_not_pointed_to_a_config_the_server_wrote(
    pointer: str, content: str, inside: str, victim: Victim
) -> None:
    directory = victim.case(f"git-{inside.strip('.')}")
    tree, flag = directory / "project", victim.place.work / f"ran-{inside.strip('.')}"
    (tree / "src").mkdir(parents=True)
    _git("init", "-q", ".", cwd=tree, home=victim.place.work)
    _plant_repository(victim, tree, flag)
    said(victim, "writer", "write", {"path": str(tree)}, path=str(tree / pointer), content=content)
    _git("status", cwd=tree / inside, home=victim.place.work)
    assert not flag.exists(), f"the user's own git ran what the server wrote by {pointer}"


# Programs


def test_an_execution_is_verified_though_the_program_is_the_one_that_executes(victim: Victim) -> None:
    # The image before is the one expected: a trap of the main thread in between must not pass for the proof.
    assert "coreutils" not in said(victim, "nothing", "execute_by_swapped_loader", marker="coreutils")


def test_a_granted_script_does_not_grant_its_interpreter(victim: Victim) -> None:
    acts: dict[str, Any] = {
        "script": str(victim.place.work / "bin" / "script"),
        "interpreter": "/bin/bash",
        "marker": MARKER,
    }
    assert not said(victim, "other", "execute_by_swapped_script", **acts).startswith(MARKER)


def test_a_granted_script_is_the_one_that_its_interpreter_opens(victim: Victim) -> None:
    # The kernel hands on the path as it was written: a link of the server's own may lead elsewhere by then.
    acts: dict[str, Any] = {
        "script": str(victim.place.work / "bin" / "script"),
        "interpreter": "/bin/bash",
        "marker": MARKER,
    }
    assert not said(victim, "other", "execute_replaced_script", **acts).startswith(MARKER)


def test_a_granted_script_runs_though_no_line_names_its_interpreter() -> None:
    with Victim("attacks-script", setup=SCRIPT, grant="attacks-script") as victim:
        script = str(victim.place.work / "bin" / "script")
        assert text(victim.act("other", "execute", argv=[script])).startswith("script")


def test_a_granted_script_executed_by_a_directory_descriptor_does_not_end_the_server(victim: Victim) -> None:
    answer = victim.act("other", "execute_at", directory=str(victim.place.work / "bin"), name="script")
    assert text(answer).startswith(("script", "EACCES", "ENOENT")), answer


# The next start


def test_a_private_home_that_was_closed_by_the_server_does_not_keep_it_from_starting_again() -> None:
    with Victim("attacks-closed", grant="attacks") as victim:
        home = victim.place.work / "home"
        try:
            victim.act("nothing", "close_to_all", path=str(home / ".local"))
            victim.session.close()
            victim.restart_if_dead()
            assert not failed(victim.act("nothing", "sleep", seconds=0))
        finally:
            subprocess.run(["chmod", "-R", "u+rwx", home], check=True)


# The host's means


def test_shared_anonymous_memory_counts_towards_the_limit() -> None:
    options = ["--limit-memory", str(MEMORY_LIMIT)]
    with (
        Victim("attacks-memory", options=options, grant="attacks") as victim,
        pytest.raises(SessionEnded),
    ):
        victim.act("nothing", "hold_shared_memory", size=MEMORY_LIMIT * 4, seconds=3)


def test_the_relay_does_not_remember_refusals_without_bound() -> None:
    with Victim("attacks-refusals", grant="attacks") as victim:
        directory = victim.case("many")
        bound = {"path": str(directory / "empty")}
        acts = {"directory": str(directory / "empty")}
        call = victim.start("writer", "refuse_many", bound, first=0, count=2_000, **acts)
        before = _resident(victim.session.process.pid)
        assert text(victim.session.answer(call)).startswith("2000")
        before = max(before, _resident(victim.session.process.pid))
        answer = victim.act("writer", "refuse_many", bound, first=2_000, count=12_000, **acts)
        assert text(answer).startswith("12000")
        assert _peak(victim.session.process.pid) - before < RELAY_GROWTH


def test_the_user_can_still_watch_files_while_a_server_takes_all_it_can() -> None:
    with Victim("attacks-inotify", grant="attacks") as victim:
        call = victim.start("nothing", "hold_inotify", seconds=1)
        victim.act("nothing", "read", path="/dev/null")  # the call before has begun
        victim.session.answer(call)
        fd = ctypes.CDLL(None).inotify_init1(os.O_CLOEXEC)
        assert fd >= 0, "no inotify instance is left for the user"
        os.close(fd)


# The broker


@pytest.mark.parametrize(
    ("act", "acts"),
    [
        ("truncate_negative", {"path": "{D}/f"}),
        ("chown_to_nobody", {"path": "{D}/f"}),
        ("rename_deep", {"directory": "{D}", "depth": 1_200}),
    ],
)
def test_a_call_with_odd_arguments_gets_an_errno_and_ends_nothing(
    act: str, acts: dict[str, object], victim: Victim
) -> None:
    tree = victim.case(act) / "r"
    try:
        answer = victim.act("writer", act, {"path": str(tree)}, **filled(acts, tree, victim.place.work))
    finally:
        subprocess.run(["rm", "-rf", tree / "deep", tree / "deeper"], check=True)  # too deep for shutil
    assert refused(answer) or text(answer).startswith(("EINVAL", "renamed")), answer
    assert not failed(victim.act("writer", "read", {"path": str(tree)}, path=str(tree / "f")))


def _status(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def _resident(pid: int) -> int:
    return _status(pid, "VmRSS:")


def _peak(pid: int) -> int:
    return _status(pid, "VmHWM:")


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("name", [".env", ".git"])
@pytest.mark.parametrize("kind", ["directory", "link", "fifo"])
def test_a_file_that_matters_is_not_displaced_by_something_of_another_kind(
    kind: str, name: str, exchange: bool, victim: Victim
) -> None:
    tree = victim.case(f"displace{name}{kind}{exchange}") / "r"
    path = tree / name
    if path.is_dir():
        shutil.rmtree(path)
    path.write_text(SECRET)
    acts = {"kind": kind, "directory": str(tree), "name": name, "exchange": exchange}
    answer = victim.act("writer", "displace", {"path": str(tree)}, **acts)
    assert refused(answer), answer
    assert path.read_text() == SECRET


def test_a_directory_shown_for_the_sake_of_what_is_below_may_be_listed() -> None:
    place = bench("attacks-single", "mkdir -p home/work/a\n")
    work = place.work / "home" / "work"
    grant = place.work / "grant.toml"
    grant.write_text(f'schema = 1\n[tools.writer]\nfs_write = ["{work}/a/new.txt"]\n')
    grant.chmod(0o600)
    command = [*mcpwrap(), "--grant", str(grant), "--", sys.executable, "-B", str(SERVER)]
    with Session(command, env=place.env, cwd=work, stderr=place.work / "stderr") as session:
        session.initialize()
        answer = session.call("writer", {"act": "list_directory", "with": {"path": str(work)}})
    assert text(answer) == "a"
