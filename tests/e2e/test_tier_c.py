"""A server without namespaces: what of the machine is closed all the same, and what is weaker, each shown.

The same acts as at tier B are in test_victims_*.py, the network is in tests/kernel/test_tier_c_network.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpwrap.sandbox.tiers import TIERS
from tests.e2e.client import Session, failed, text
from tests.e2e.corpus import bench, mcpwrap
from tests.e2e.victim import DEPRIVED, SERVER, Victim, refused

pytestmark = pytest.mark.needs("user", "landlock", "seccomp")

WITHOUT = Path(__file__).resolve().parents[1] / "victims" / "without.py"
OLD = [sys.executable, "-I", "-B", str(WITHOUT), "scopes"]
"""mcpwrap on a kernel whose Landlock does not hold signals."""
LONGEST_OF_SOCKETS = 90
"""Characters of a directory: the name of a socket has 107 (unix(7)), and the socket is called something, too."""

WAYS = (
    *("kill", "kill group", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd"),
    "owner of a pipe",
)
TOUCHES = (
    *("priority", "priority of a group", "priority of the user", "priority of input and output"),
    *("processors", "scheduler", "limits", "session"),
)


@pytest.fixture(scope="module", params=[True, False], ids=["Landlock holds signals", "the broker does"])
def shared(request: pytest.FixtureRequest) -> Iterator[Victim]:
    launcher = None if request.param else OLD
    with Victim("tier-c", lacking="filter", launcher=launcher) as victim:
        yield victim


@pytest.fixture
def victim(shared: Victim) -> Victim:
    shared.restart_if_dead()
    return shared


@pytest.fixture(scope="module")
def bare() -> Iterator[Victim]:
    with Victim("tier-c-bare", "bare") as victim:
        yield victim


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the same user that has nothing to do with the server."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def alive(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(0.2)
    except subprocess.TimeoutExpired:
        return True
    return False


# Processes of the machine


@pytest.mark.parametrize("how", WAYS)
def test_no_process_of_the_machine_is_signalled(
    how: str, victim: Victim, bare: Victim, stranger: subprocess.Popen[bytes]
) -> None:
    answer = victim.act("nothing", "send_signal", pid=stranger.pid, how=how)
    assert "FAULT" not in text(answer), answer
    assert failed(answer) or how == "owner of a pipe", answer
    assert alive(stranger)
    bare.act("nothing", "send_signal", pid=stranger.pid, how=how)
    assert not alive(stranger), "the bare run proves nothing"


@pytest.mark.parametrize("how", [way for way in WAYS if way not in ("pidfd", "owner of a pipe")])
def test_processes_of_the_tree_are(how: str, victim: Victim) -> None:
    answer = victim.act("nothing", "signals_inside", how=how)
    assert text(answer) == "ended", answer


def test_a_thread_signals_itself(victim: Victim) -> None:
    assert text(victim.act("nothing", "signals_itself")) == "True"


def test_everybody_is_nobody_outside_the_tree(victim: Victim, stranger: subprocess.Popen[bytes]) -> None:
    victim.act("nothing", "signals_everybody", number=int(signal.SIGUSR2))
    assert alive(stranger)


def test_the_parts_of_mcpwrap_are_not_signalled(victim: Victim) -> None:
    for pid in _ancestors(_server_of(victim)):
        for how in ("kill", "tgkill"):
            assert failed(victim.act("nothing", "send_signal", pid=pid, how=how, number=9))
    assert not failed(victim.act("nothing", "identity"))


@pytest.mark.parametrize("how", TOUCHES)
def test_no_process_of_the_machine_is_touched(
    how: str, victim: Victim, bare: Victim, stranger: subprocess.Popen[bytes]
) -> None:
    answer = victim.act("nothing", "touch_process", pid=stranger.pid, how=how)
    assert refused(answer) or text(answer).startswith("ESRCH"), answer
    if how != "priority of the user":  # of the test's own processes too
        assert not failed(bare.act("nothing", "touch_process", pid=stranger.pid, how=how))


def test_of_processes_only_those_of_the_tree_are_read(
    victim: Victim, stranger: subprocess.Popen[bytes]
) -> None:
    assert refused(victim.act("nothing", "processes")), "a list of everybody's"
    others = [stranger.pid, os.getpid(), *_ancestors(_server_of(victim))]
    for pid in others:
        for name in ("status", "cmdline", "environ", "maps", "fd", "fdinfo/0", "task"):
            act = "list_directory" if name in ("fd", "task") else "read"
            assert refused(victim.act("nothing", act, path=f"/proc/{pid}/{name}")), (pid, name)
    own = _server_of(victim)
    for path in ("/proc/self/status", f"/proc/{own}/status", "/proc/thread-self/comm", "/dev/fd/../comm"):
        assert not failed(victim.act("nothing", "read", path=path)), path
    assert refused(victim.act("nothing", "read", path="/proc/self/net/tcp"))
    assert refused(victim.act("nothing", "read", path="/proc/net/tcp"))


@pytest.mark.parametrize("kind", ["msgget", "semget", "shmget", "mq_open"])
def test_no_queue_of_the_machine_is_made(kind: str, victim: Victim) -> None:
    assert text(victim.act("nothing", "queue", kind=kind)).startswith("ENOSYS")


# Files


def test_names_are_watched_only_where_they_may_be_read(victim: Victim) -> None:
    directory = victim.case(f"watched-{id(victim)}")
    assert refused(victim.act("nothing", "watch", path=str(victim.place.work / "out")))
    assert refused(
        victim.act("reader", "watch", {"path": str(directory / "a.txt")}, path=str(directory / "r"))
    )
    granted = str(directory / "r")
    assert text(victim.act("writer", "watch_and_see", {"path": granted}, path=granted)) == "seen"
    assert text(victim.act("nothing", "watch_and_see", path=victim.temporary)) == "seen"


def test_no_file_comes_to_be_on_both_sides_of_the_servers_own_ground(victim: Victim) -> None:
    directory = victim.case(f"border-{id(victim)}") / "r"
    own = f"{victim.temporary}/kept"
    bound = {"path": str(directory)}
    for act in ("hardlink", "rename"):
        answer = victim.act("writer", act, bound, source=str(directory / "f"), destination=own)
        assert text(answer).startswith("EXDEV"), answer
    assert text(victim.act("nothing", "write", path=own)) == "written"
    answer = victim.act("writer", "rename", bound, source=own, destination=str(directory / "g"))
    assert text(answer).startswith("EXDEV"), answer
    assert (directory / "f").read_text() == "file\n"
    assert not (directory / "g").exists()


def test_the_servers_own_places_stay_where_they_are(victim: Victim) -> None:
    for path in (victim.temporary, text(victim.act("nothing", "environment", name="HOME"))):
        answer = victim.act("nothing", "rename", source=path, destination=path + "-moved")
        assert text(answer).startswith(("EBUSY", "EROFS")), answer


def test_the_home_directory_is_not_written_and_dotfiles_there_are_absent(victim: Victim) -> None:
    home = victim.place.work / "home"
    (home / ".gitconfig").write_text("[user]\n")
    assert text(victim.act("nothing", "read", path=str(home / ".gitconfig"))).startswith("ENOENT")
    assert refused(victim.act("nothing", "write", path=str(home / ".profile")))
    own = text(victim.act("nothing", "environment", name="HOME"))
    assert own != str(home)
    assert text(victim.act("nothing", "write", path=f"{own}/.settings")) == "written"
    assert refused(victim.act("nothing", "write", path=f"{own}/document.txt"))
    assert {path.name for path in home.iterdir()} <= {".gitconfig", ".local", ".cache"}


def test_temporary_files_do_not_outlive_a_run() -> None:
    with Victim("tier-c-temporary", lacking="filter") as victim:
        directory = Path(victim.temporary)
        victim.act("nothing", "write", path=str(directory / "file"))
        victim.act("nothing", "mkdir", path=str(directory / "sub"))
        victim.act("nothing", "write", path=str(directory / "sub" / "file"))
        assert (directory / "sub" / "file").exists()
        assert directory.stat().st_mode & 0o777 == 0o700
        victim.session.close()
        victim.restart_if_dead()
        assert list(directory.iterdir()) == []


# What is weaker: each row of `TIERS["C"].weaker`, and of SECURITY.md


def test_weaker_names_sizes_and_attributes_are_seen(victim: Victim) -> None:
    secret = victim.place.work / "out" / "secret.txt"
    assert text(victim.act("nothing", "file_size", path=str(secret))) == str(secret.stat().st_size)
    assert refused(victim.act("nothing", "read", path=str(secret))), "but the content is not"


def test_weaker_home_and_temporary_files_are_elsewhere(victim: Victim) -> None:
    state = victim.place.work / "home" / ".local" / "share" / "mcpwrap"
    for name, directory in (("HOME", "home"), ("TMPDIR", "tmp")):
        path = Path(text(victim.act("nothing", "environment", name=name)))
        assert state in path.parents and path.name == directory
    for place in ("/tmp/file", "/dev/shm/file"):
        assert refused(victim.act("nothing", "write", path=place))


def test_weaker_temporary_files_are_on_disk(victim: Victim) -> None:
    assert text(victim.act("nothing", "device_of", path=victim.temporary)) == str(
        victim.place.work.stat().st_dev
    )


def test_weaker_processes_are_seen_to_exist(victim: Victim) -> None:
    assert text(victim.act("nothing", "exists", pid=os.getpid())) == "True"


def test_weaker_no_loopback_datagrams_or_abstract_sockets(victim: Victim) -> None:
    assert failed(victim.act("nothing", "talk_inside"))
    assert failed(victim.act("nothing", "send_udp", host="127.0.0.1", port=9))
    assert failed(victim.act("nothing", "connect_abstract", name="x"))


def test_by_a_path_socket_in_its_own_place_a_server_talks(victim: Victim) -> None:
    if len(str(victim.temporary)) > LONGEST_OF_SOCKETS:
        pytest.skip(f"{victim.temporary} is too long for the name of a socket")
    assert text(victim.act("nothing", "talk_by_path")) == "unix"


def test_weaker_what_the_server_wrote_is_loaded_as_a_library(victim: Victim) -> None:
    path = f"{victim.temporary}/library"
    assert text(victim.act("nothing", "load_written_library", path=path)) == "mapped"


def test_weaker_limits_of_the_user_are_shared() -> None:
    with Victim("tier-c-forks", lacking="filter", options=["--limit-processes", "64"]) as victim:
        said = text(victim.act("nothing", "bomb_forks", limit=4000))
        assert said.endswith("errno 11"), said


def test_every_weaker_row_is_shown_here() -> None:
    shown = [name for name in globals() if name.startswith("test_weaker_")]
    assert len(shown) == len(TIERS["C"].weaker)


def _server_of(victim: Victim) -> int:
    said = text(victim.act("nothing", "read", path="/proc/self/status"))
    return next(int(line.split()[1]) for line in said.splitlines() if line.startswith("Tgid:"))


def _ancestors(pid: int) -> list[int]:
    """Return keeper, stem and relay."""
    found = []
    for _ in range(3):
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


@pytest.mark.needs("userns")
def test_a_server_that_was_held_so_starts_at_tier_b_as_well() -> None:
    """What stood in its HOME as a link for lack of a view has to give way to the directory itself."""
    place = bench("both-tiers", "mkdir -p home/work/project")
    grant = place.work / "grant.toml"
    grant.write_text('[server]\nfs_write = ["~/work/project"]\n')
    grant.chmod(0o600)
    wrapped = [*mcpwrap(), "--grant", str(grant), "--", sys.executable, "-B", str(SERVER)]
    for lacking in ("filter", "", "filter"):
        command = [sys.executable, "-I", "-B", str(DEPRIVED), lacking, *wrapped] if lacking else wrapped
        with Session(command, env=place.env, cwd=place.work, stderr=place.work / "stderr") as session:
            session.initialize()
            path = str(place.work / "home/work/project/file")
            answer = session.call("nothing", {"act": "write", "with": {"path": path}})
            assert text(answer) == "written", session.stderr()
            assert ("held at tier C" in session.stderr()) is bool(lacking)
