"""Attacks of a second reading: each goes round what the first one had fixed."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import SessionEnded, text
from tests.e2e.victim import SECRET, Victim

SCRIPT = "mkdir bin; printf '#!/bin/bash\\necho script\\n' > bin/script; chmod 755 bin/script\n"
MARKER = "SWAPPED"
pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")


@pytest.fixture(scope="module")
def shared() -> Iterator[Victim]:
    with Victim("attacks-again", setup=SCRIPT, grant="attacks") as victim:
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


def _project(directory: Path) -> Path:
    project = directory / "empty" / "project"
    project.mkdir()
    (project / "main.py").write_text("the user's\n")
    return project


# Born directories


@pytest.mark.parametrize("name", [".mcp.json", ".claude/settings.json", ".bashrc"])
def test_a_directory_whose_parent_was_moved_away_does_not_come_back_as_new(name: str, victim: Victim) -> None:
    directory = victim.case(f"parent-{name.replace('/', '-')}")
    project = _project(directory)
    acts = {"parent": str(project.parent), "name": project.name, "planted": name}
    outcome = said(victim, "writer", "renew_by_its_parent", {"path": str(directory)}, **acts)
    assert not ((project / name).exists() and (project / "main.py").exists()), outcome


def test_a_directory_moved_away_by_an_earlier_call_does_not_come_back_as_new(victim: Victim) -> None:
    directory = victim.case("two-calls")
    project, bound = _project(directory), {"path": str(directory)}
    said(victim, "writer", "move_away", bound, directory=str(project))
    outcome = said(victim, "writer", "come_back_as_new", bound, directory=str(project), planted=".mcp.json")
    assert not ((project / ".mcp.json").exists() and (project / "main.py").exists()), outcome


def test_an_existing_directory_moved_into_a_new_one_keeps_its_protection(victim: Victim) -> None:
    directory = victim.case("below-born")
    project = _project(directory)
    acts = {"directory": str(project), "new": str(directory / "new"), "planted": ".mcp.json"}
    outcome = said(victim, "writer", "move_below_born", {"path": str(directory)}, **acts)
    planted = directory / "new" / "project"
    assert not ((planted / ".mcp.json").exists() and (planted / "main.py").exists()), outcome


def test_an_existing_directory_does_not_become_a_repository_that_gives_git_orders(victim: Victim) -> None:
    directory = victim.case("bear-git")
    project, flag = _project(directory), victim.place.work / "ran-born"
    config = f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {flag}; false"\n'
    outcome = said(
        victim, "writer", "bear_repository", {"path": str(directory)}, directory=str(project), config=config
    )
    environ = {"HOME": str(victim.place.work), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "status"], cwd=project, env=environ, capture_output=True, check=False, timeout=30)
    assert not flag.exists(), f"the user's own git ran what the server wrote: {outcome}"


# Links


def test_a_link_does_not_lead_out_of_the_grant_once_a_directory_on_its_way_is_a_link(victim: Victim) -> None:
    directory = victim.case("turned-link")
    tree = directory / "r"
    outcome = said(
        victim, "writer", "turn_link", {"path": str(tree)}, directory=str(tree), name="notes", target="b.txt"
    )
    link = tree / "m" / "notes"
    # The next call only names what lies in the tree.
    handed = said(victim, "reader", "read", {"path": str(link)}, path=str(link))
    assert Path(os.path.realpath(link)).is_relative_to(tree), (outcome, handed)


# Scripts


@pytest.mark.parametrize("act", ["execute_where_the_directory_turns", "execute_by_anothers_descriptor"])
def test_a_granted_script_stays_the_one_that_its_interpreter_opens(act: str, victim: Victim) -> None:
    acts: dict[str, Any] = {
        "script": str(victim.place.work / "bin" / "script"),
        "interpreter": "/bin/bash",
        "marker": MARKER,
    }
    outcome = said(victim, "other", act, **acts)
    print(outcome)
    assert not outcome.startswith(MARKER)


# Parked calls


def test_a_fifo_is_not_opened_after_its_call_has_ended(victim: Victim) -> None:
    directory = victim.case("fifo-later")
    fifo = directory / "r" / "pipe"
    os.mkfifo(fifo)
    said(victim, "reader", "open_for_later", {"path": str(directory / "r")}, path=str(fifo), name="later")

    def write() -> None:
        try:
            with fifo.open("w") as file:
                file.write(SECRET)
        except OSError:
            pass

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    got = said(victim, "nothing", "what_came", name="later", seconds=2)
    if writer.is_alive():
        os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        writer.join(5)
    assert SECRET not in got


def test_the_process_that_waits_for_a_parked_call_tells_nothing_of_mcpwrap(victim: Victim) -> None:
    assert "grant.toml" not in said(victim, "nothing", "read_parked", what="cmdline")


# Ancestors


def test_what_may_be_listed_above_a_bound_path_is_a_directory(victim: Victim) -> None:
    directory = victim.case("above")
    fifo = directory / "r" / "pipe"
    os.mkfifo(fifo)
    held = os.open(fifo, os.O_RDWR)
    os.write(held, SECRET.encode())
    try:
        outcome = said(victim, "reader", "listen_to", {"path": str(fifo / "x")}, path=str(fifo))
    finally:
        os.close(held)
    assert SECRET not in outcome, outcome


# Names that are protected as files only


def test_a_private_file_is_not_read_by_exchanging_it_with_a_directory(victim: Victim) -> None:
    directory = victim.case("exchange-env")
    tree = directory / "r"
    outcome = said(victim, "writer", "exchange_for_directory", {"path": str(tree)}, secret=str(tree / ".ENV"))
    assert SECRET not in outcome
    assert (tree / ".ENV").is_file()


@pytest.mark.parametrize("name", [".ENV", ".git"])
def test_a_file_that_is_protected_as_a_file_is_not_replaced_by_a_link(name: str, victim: Victim) -> None:
    directory = victim.case(f"replace{name}")
    tree = directory / "r" if name == ".ENV" else directory / "empty"
    if name == ".git":
        (tree / name).write_text("gitdir: ../elsewhere\n")
    outcome = said(victim, "writer", "replace_by_link", {"path": str(tree)}, path=str(tree / name), text="x")
    assert not (tree / name).is_symlink(), outcome


def test_git_is_not_pointed_by_a_link_to_a_config_the_server_wrote(victim: Victim) -> None:
    directory = victim.case("link-git")
    project, flag = _project(directory), victim.place.work / "ran-link"
    (project / "src").mkdir()
    config = f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {flag}; false"\n'
    acts = {"directory": str(project), "name": "src", "config": config}
    outcome = said(victim, "writer", "point_git_by_link", {"path": str(project)}, **acts)
    environ = {"HOME": str(victim.place.work), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(
        ["git", "status"], cwd=project / "src", env=environ, capture_output=True, check=False, timeout=30
    )
    assert not flag.exists(), f"the user's own git ran what the server wrote: {outcome}"


# Time


def test_nothing_is_renamed_after_the_call_has_been_answered(victim: Victim) -> None:
    directory = victim.case("late-rename")
    tree = directory / "empty" / "many"
    tree.mkdir()
    for number in range(9_900):
        (tree / f"{number:05}").touch()
    acts = {"source": str(tree), "destination": str(directory / "empty" / "moved")}
    said(victim, "writer", "rename_and_answer", {"path": str(directory)}, **acts)
    there = tree.exists()
    time.sleep(1.5)
    assert tree.exists() == there, "renamed after the answer, by a grant that was withdrawn"


def test_nothing_is_renamed_after_the_second_of_two_calls_has_been_answered() -> None:
    # The first answer has the broker look through the directory once more, by a grant that ends meanwhile, too.
    with Victim("attacks-late", grant="attacks") as victim:
        directory = victim.case("late")
        tree, moved, bound = (
            directory / "empty" / "many",
            directory / "empty" / "moved",
            {"path": str(directory)},
        )
        tree.mkdir()
        for number in range(9_900):
            (tree / f"{number:05}").touch()
        for seconds in (0.1, 0.12, 0.14, 0.16, 0.2):
            longer = victim.start("writer", "sleep", bound, seconds=seconds)
            acts = {"source": str(tree), "destination": str(moved)}
            victim.act("writer", "rename_and_answer", bound, **acts)
            victim.session.answer(longer)
            there = tree.exists()
            time.sleep(0.8)
            assert tree.exists() == there, f"renamed after both answers ({seconds} s)"
            if moved.exists():
                moved.rename(tree)


# Names a rule spells out


@pytest.mark.parametrize("target", ["other/.git/config", "other/.mcp.json"])
def test_a_tail_that_a_rule_names_is_not_led_to_another_protected_file(target: str) -> None:
    with Victim("attacks-tail", grant="attacks-again") as victim:
        directory = victim.case("tail")
        (directory / "other" / ".git").mkdir(parents=True)
        (directory / "other" / ".git" / "config").write_text("[core]\n")
        new = directory / "new"
        linked = said(
            victim,
            "writer",
            "lead_config_elsewhere",
            {"path": str(directory)},
            directory=str(new),
            target=f"../../{target}",
        )
        outcome = said(
            victim, "runner", "write_by", {"repo": str(new)}, path=str(directory / target), content="planted"
        )
        planted = directory / target
        assert not planted.exists() or planted.read_text() != "planted", (linked, outcome)


def test_an_existing_directory_does_not_become_a_bare_repository(victim: Victim) -> None:
    directory = victim.case("bear-bare")
    project, flag = _project(directory), victim.place.work / "ran-bare"
    config = (
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = {project}\n"
        f'\tfsmonitor = "touch {flag}; false"\n'
    )
    outcome = said(
        victim,
        "writer",
        "bear_bare_repository",
        {"path": str(project)},
        directory=str(project),
        config=config,
    )
    environ = {"HOME": str(victim.place.work), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "status"], cwd=project, env=environ, capture_output=True, check=False, timeout=30)
    assert not flag.exists(), f"the user's own git ran what the server wrote: {outcome}"


def test_a_granted_script_executed_by_a_turning_descriptor_stays_the_same(victim: Victim) -> None:
    acts: dict[str, Any] = {
        "script": str(victim.place.work / "bin" / "script"),
        "interpreter": "/bin/bash",
        "marker": MARKER,
    }
    assert not said(victim, "other", "execute_at_turning_descriptor", **acts).startswith(MARKER)


# The relay


def test_a_long_chain_of_links_does_not_end_the_run_of_who_names_it(victim: Victim) -> None:
    tree = victim.case("chain") / "r"
    said(victim, "writer", "chain_links", {"path": str(tree)}, directory=str(tree), count=1_500)
    link = str(tree / "l0")
    outcome = said(victim, "reader", "read", {"path": link}, path=link)
    assert outcome != "ended", (victim.place.work / "stderr").read_text()[-2000:]
