"""Each layer of tier C is seen, as in test_layers.py: with it an act is refused, without it it does its harm."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.e2e import test_layers as layers_of_b
from tests.e2e.client import failed, text
from tests.e2e.test_layers import Act, run
from tests.e2e.victim import SECRET, Victim

pytestmark = pytest.mark.needs("user", "landlock", "seccomp")

VARIABLE = "MCPWRAP_TEST_SECRET"


def signals_a_stranger(victim: Victim) -> bool:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        victim.act("nothing", "send_signal", pid=stranger.pid, how="kill", number=int(signal.SIGKILL))
        try:
            stranger.wait(0.3)
        except subprocess.TimeoutExpired:
            stranger.kill()
            return False
    return True


def makes_a_stranger_slow(victim: Victim) -> bool:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        victim.act("nothing", "touch_process", pid=stranger.pid, how="priority")
        slow = os.getpriority(os.PRIO_PROCESS, stranger.pid)
        stranger.kill()
    return slow == 19


def reads_a_strangers_environment(victim: Victim) -> bool:
    with subprocess.Popen(["sleep", "60"], env={VARIABLE: SECRET}) as stranger:
        said = text(victim.act("nothing", "read", path=f"/proc/{stranger.pid}/environ"))
        stranger.kill()
    return SECRET in said


def reads_the_command_of_a_stranger(victim: Victim) -> bool:
    with subprocess.Popen(["sleep", "60.125"]) as stranger:
        said = text(victim.act("nothing", "read", path=f"/proc/{stranger.pid}/cmdline"))
        stranger.kill()
    return "60.125" in said


def keeps_a_file_for_later_calls(victim: Victim) -> bool:
    """Give a file another name on the server's own ground while it is granted, and write by that name later."""
    directory, own = victim.case("border") / "r", f"{victim.temporary}/kept"
    source = str(directory / "f")
    victim.act("writer", "hardlink", {"path": str(directory)}, source=source, destination=own)
    victim.act("nothing", "write", path=own)
    return (directory / "f").read_text() == "owned"


def watches_a_directory(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "watch", path=str(victim.place.work / "out")))


SEEN = [
    ("broker", layers_of_b.reads_a_second_file),
    ("windows", layers_of_b.reads_after_its_call_is_over),
    ("private", layers_of_b.reads_a_dotenv),
    ("protected", layers_of_b.writes_git_config),
    ("inodes", layers_of_b.reads_a_private_file_by_a_hard_link),
    ("tree walk", layers_of_b.moves_a_directory_that_holds_git),
    ("links", layers_of_b.makes_a_link_out_of_its_directory),
    ("verification", layers_of_b.runs_the_loader_in_the_place_of_a_program),
    ("system calls", layers_of_b.makes_a_keyring),
    ("limits", layers_of_b.forks_without_end),
    ("memory", layers_of_b.holds_more_memory_than_its_limit),
    ("keeper", layers_of_b.outlives_the_launcher),
    ("loopback", layers_of_b.connects_to_the_host),
    ("border", keeps_a_file_for_later_calls),
    ("watching", watches_a_directory),
    ("numbers", makes_a_stranger_slow),
    ("numbers,scopes", signals_a_stranger),
    ("numbers", reads_the_command_of_a_stranger),
    ("numbers,landlock", reads_a_strangers_environment),
    ("broker,landlock", layers_of_b.reads_a_file_nobody_granted),
    ("exec gate,landlock", layers_of_b.runs_a_program_nobody_granted),
    ("exec gate,landlock", layers_of_b.runs_a_program_it_wrote),
]
SECOND = [
    ("broker", layers_of_b.reads_a_file_nobody_granted),
    ("landlock", layers_of_b.reads_a_file_nobody_granted),
    ("exec gate", layers_of_b.runs_a_program_it_wrote),
    ("landlock", layers_of_b.runs_a_program_it_wrote),
    ("numbers", reads_a_strangers_environment),
    ("numbers", signals_a_stranger),
    ("scopes", signals_a_stranger),
]


def name(value: object) -> str:
    return value if isinstance(value, str) else str(getattr(value, "__name__", value))


@pytest.mark.parametrize(("layers", "act"), SEEN, ids=name)
def test_without_a_layer_an_act_that_was_refused_does_its_harm(layers: str, act: Act) -> None:
    assert not run("", act, "filter"), "refused with all layers"
    assert run(layers, act, "filter"), f"nothing sees that {layers} is gone"


@pytest.mark.parametrize(("layers", "act"), SECOND, ids=name)
def test_where_two_layers_hold_the_same_one_is_enough(layers: str, act: Act) -> None:
    assert not run(layers, act, "filter")
