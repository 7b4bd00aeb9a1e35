"""The server's processes: what they may see and do to others, and that none of them outlives the relay."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcpwrap.limits import SIGNALS
from tests.conftest import landlock_abi
from tests.kernel.confined import Place, Tree, place
from tests.kernel.test_sandbox_view import ERRNO, JSON

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

STATUS = (
    JSON
    + """
lines = [line.rstrip("\\n") for line in open("/proc/self/status")]
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
"""
)
BACKGROUND = """
import os, time
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(writer, b"x")
        time.sleep(60)
    os._exit(0)
os.wait()
os.read(reader, 1)
"""


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as found:
        yield found


def test_the_exit_status_passes_through(here: Place) -> None:
    assert here.run("raise SystemExit(37)").status["exit"] == {"status": 37}


def test_death_by_a_signal_is_told_as_128_and_the_signal(here: Place) -> None:
    assert here.run("import os, signal; os.kill(os.getpid(), signal.SIGTERM)").status["exit"] == {
        "status": 143
    }


def test_a_program_that_is_not_in_the_view_is_127(here: Place) -> None:
    status = here.run([f"{here.root}/missing", "x"]).status
    assert status["failed"]["exit_status"] == 127
    assert f"{here.root}/missing" in status["failed"]["what"]


def test_a_file_that_is_no_program_is_126(here: Place) -> None:
    text = here.make("text", "no program")
    os.chmod(text, 0o644)
    assert here.run([text]).status["failed"]["exit_status"] == 126


def test_only_the_servers_own_processes_are_to_be_seen(here: Place) -> None:
    code = (
        JSON
        + "show([sorted(name for name in os.listdir('/proc') if name.isdigit()), os.getpid(), os.getppid()])"
    )
    assert here.run(code).value() == [["1", "2"], 2, 0]


def test_pid_1_cannot_be_read_or_signalled(here: Place) -> None:
    code = ERRNO + (
        "names = ('environ', 'mem', 'maps', 'auxv')\n"
        "show([outcome(open, '/proc/1/' + name) for name in names] + [outcome(os.readlink, '/proc/1/root')])\n"
    )
    assert here.run(code).value() == ["EACCES", "EACCES", "EACCES", "EACCES", "EACCES"]
    # Landlock's scope says no (ABI 6); without it the kernel takes no signal for pid 1 from inside its namespace.
    assert here.run("import os; os.kill(1, 9)").status["exit"] == {"status": 1 if landlock_abi() >= 6 else 0}


def test_no_descriptor_but_the_three_is_inherited(here: Place) -> None:
    code = JSON + "show(sorted(os.listdir('/proc/self/fd')))"
    # The fourth is the listing itself.
    assert here.run(code).value() == ["0", "1", "2", "3"]


def test_the_end_of_its_input_is_seen(here: Place) -> None:
    assert here.run(JSON + "show(sys.stdin.read())", stdin="all").value() == "all"


def test_no_privilege_is_left(here: Place) -> None:
    code = STATUS + "show({name: status[name] for name in status if name.startswith(('Cap', 'NoNew'))})"
    found = here.run(code).value()
    assert found.pop("NoNewPrivs") == "1"
    assert set(found.values()) == {"0" * 16}


def test_the_user_is_the_same_inside_and_outside(here: Place) -> None:
    owned = here.make("work/file", "x")
    code = JSON + f"show([os.getuid(), os.getgid(), os.stat({owned!r}).st_uid, os.stat('.').st_uid])"
    found = here.run(code, reads=[owned]).value()
    assert len(set(found)) == 1
    assert found[0] != 0


def test_signals_and_session_are_as_after_a_plain_start(here: Place) -> None:
    code = STATUS + "show([status['SigBlk'], status['SigIgn'], os.getsid(0) == os.getpid()])"
    argv = [os.path.realpath("/bin/sh"), "-c", "grep -E '^Sig(Blk|Ign)' /proc/self/status"]
    found = here.run(argv, executables=["/usr/bin/grep"]).out.split()
    # Whatever ran the tests may ignore more (glibc's own 32); a plain start would hand that on, too.
    assert found == ["SigBlk:", "0" * 16, "SigIgn:", f"{_ignored_by_all():016x}"]
    assert here.run(code).value()[2] is True


def test_limits_are_in_force(here: Place) -> None:
    code = JSON + (
        "import resource as r\nshow([r.getrlimit(each) for each in (r.RLIMIT_NPROC, r.RLIMIT_NOFILE, r.RLIMIT_CORE)])"
    )
    assert here.run(code).value() == [[512, 512], [4096, 4096], [0, 0]]
    assert here.run(code, limits={"processes": 40, "descriptors": 64}).value() == [[40, 40], [64, 64], [0, 0]]


def test_timers_and_queued_signals_are_bounded(here: Place) -> None:
    """They are counted for the user, whose other programs need some as well."""
    code = JSON + (
        "import ctypes\nlibc, made = ctypes.CDLL(None, use_errno=True), ctypes.c_void_p()\n"
        "count = 0\nwhile not libc.timer_create(0, None, ctypes.byref(made)): count += 1\n"
        "show([count, ctypes.get_errno()])"
    )
    count, error = here.run(code).value()
    assert error == errno.EAGAIN and 0 < count <= SIGNALS


def test_a_fork_bomb_stops_at_the_limit(here: Place) -> None:
    code = (
        ERRNO
        + """
import signal
children = []
def bomb():
    while True:
        pid = os.fork()
        if not pid:
            signal.pause()
        children.append(pid)
show([outcome(bomb), len(children) < 64])
"""
    )
    assert here.run(code, limits={"processes": 64}).value() == ["EAGAIN", True]


def test_a_memory_bomb_ends_the_tree_and_the_reason_is_told(here: Place) -> None:
    code = (
        "import time\nkept = []\nwhile True:\n    kept.append(bytearray(b'x' * (16 << 20))); time.sleep(0.02)"
    )
    status = here.run(code, limits={"memory": 256 << 20}).status
    assert "256 MiB" in status["ended"]["reason"]
    assert status["exit"] == {"status": 137}


def test_memory_files_count_too(here: Place) -> None:
    sealed = 8  # MFD_NOEXEC_SEAL of Linux 6.3: without it no memory file can be had inside
    try:
        os.close(os.memfd_create("", sealed))
    except OSError:
        pytest.skip("this kernel cannot seal a memory file against exec, so the sandbox has none")
    code = "import os, time\nfd = os.memfd_create('', 8)\nwhile True: os.write(fd, bytes(16 << 20)), time.sleep(0.02)"
    status = here.run(code, limits={"memory": 256 << 20}).status
    assert "256 MiB" in status["ended"]["reason"]


def test_one_process_cannot_outgrow_its_own_limit(here: Place) -> None:
    code = JSON + "try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    show('refused')"
    assert here.run(code, limits={"data": 512 << 20}).value() == "refused"


def test_what_a_server_leaves_behind_ends_with_it(here: Place) -> None:
    with here.running(BACKGROUND + "print(3, flush=True)\n") as (relay, pids):
        assert Tree([pids["stem"]]).gone(10), "the stem ends although a child of the server sleeps"
        relay.kill()


@pytest.mark.parametrize("stopped", [False, True])
def test_sigkill_of_the_relay_leaves_no_process(here: Place, stopped: bool) -> None:
    with here.running(BACKGROUND + "print(3, flush=True)\ntime.sleep(60)\n") as (relay, pids):
        tree = [pids["stem"], *_descendants(pids["stem"])]
        assert len(tree) == 4, "stem, pid 1, the server and what it started"
        watched = Tree(tree)
        if stopped:
            os.kill(pids["stem"], signal.SIGSTOP)
        relay.kill()
        assert watched.gone(1)


def test_death_of_the_stem_leaves_no_process(here: Place) -> None:
    with here.running(BACKGROUND + "print(3, flush=True)\ntime.sleep(60)\n") as (_, pids):
        watched = Tree(_descendants(pids["stem"]))
        os.kill(pids["stem"], signal.SIGKILL)
        assert watched.gone(1)


def test_the_server_is_the_kernels_first_choice_when_memory_runs_out(here: Place) -> None:
    with here.running(
        JSON + "print(int(open('/proc/self/oom_score_adj').read()), flush=True); sys.stdin.read()"
    ) as (
        _,
        pids,
    ):
        assert pids["said"] == 500
        with open(f"/proc/{pids['stem']}/oom_score_adj") as file:
            assert int(file.read()) < 500


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        with open(f"/proc/{each}/task/{each}/children") as file:
            children = [int(word) for word in file.read().split()]
        found += children
        waiting += children
    return found


def _ignored_by_all() -> int:
    """Return the mask of signals this process was started with ignored: not those that Python ignores."""
    lines = Path("/proc/self/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:"))
    return mask & ~(1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1)
