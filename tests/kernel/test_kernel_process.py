"""Another process's memory, page by page; limits, capabilities, descriptors."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpwrap.kernel import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
PAGE = mmap.PAGESIZE
ME = os.getpid()


@pytest.fixture
def pages() -> Iterator[tuple[mmap.mmap, int]]:
    """Two pages that can be read and a third that cannot, with their address."""
    area = mmap.mmap(-1, 3 * PAGE)
    held = ctypes.c_char.from_buffer(area)
    address = ctypes.addressof(held)
    libc = ctypes.CDLL(None)
    assert libc.mprotect(ctypes.c_void_p(address + 2 * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    yield area, address
    del held
    area.close()


def put(area: mmap.mmap, at: int, data: bytes) -> None:
    area.seek(at)
    area.write(data)


@pytest.mark.parametrize("length", [0, 1, 100, PAGE - 1, PAGE, PAGE + 1])
@pytest.mark.parametrize("after", [0, 1, 7])
def test_a_string_is_read_wherever_it_ends(pages: tuple[mmap.mmap, int], length: int, after: int) -> None:
    area, address = pages
    at = 2 * PAGE - after - length - 1
    put(area, at, b"x" * length + b"\0" + b"y" * after)
    assert process.read_string(ME, address + at, 2 * PAGE) == b"x" * length


def test_what_an_earlier_read_left_is_no_part_of_a_string(pages: tuple[mmap.mmap, int]) -> None:
    area, address = pages
    put(area, 0, b"long" * 100 + b"\0")
    put(area, PAGE - 2, b"ab" + b"\0")
    assert process.read_string(ME, address) == b"long" * 100
    assert process.read_string(ME, address + PAGE - 2) == b"ab"


@pytest.mark.parametrize(("length", "fits"), [(4095, True), (4096, False)])
def test_the_limit_counts_the_nul_as_path_max_does(
    pages: tuple[mmap.mmap, int], length: int, fits: bool
) -> None:
    area, address = pages
    put(area, 10, b"x" * length + b"\0")
    if fits:
        assert len(process.read_string(ME, address + 10)) == length
    else:
        with pytest.raises(OSError, match=rf"Errno {errno.ENAMETOOLONG}\b"):
            process.read_string(ME, address + 10)


@pytest.mark.parametrize("back", [0, 5])
def test_a_string_that_runs_out_of_the_mapping_is_a_fault(pages: tuple[mmap.mmap, int], back: int) -> None:
    area, address = pages
    put(area, 2 * PAGE - 5, b"xxxxx")
    with pytest.raises(OSError, match=rf"Errno {errno.EFAULT}\b"):
        process.read_string(ME, address + 2 * PAGE - back)


def test_a_string_at_null_is_a_fault_and_of_nobody_no_such_process() -> None:
    with pytest.raises(OSError, match=rf"Errno {errno.EFAULT}\b"):
        process.read_string(ME, 0)
    with pytest.raises(ProcessLookupError):
        process.read_string(2**22 + 1, 4096)


def test_memory_is_read_whole_or_not_at_all(pages: tuple[mmap.mmap, int]) -> None:
    area, address = pages
    put(area, PAGE - 2, b"abcd")
    assert process.read_memory(ME, address + PAGE - 2, 4) == b"abcd"
    assert process.read_memory(ME, 0, 0) == b""
    with pytest.raises(OSError, match=rf"Errno {errno.EFAULT}\b"):
        process.read_memory(ME, address + 2 * PAGE - 2, 4)


def test_threads_read_at_the_same_time_each_its_own(pages: tuple[mmap.mmap, int]) -> None:
    area, address = pages
    put(area, 0, b"first\0second\0")
    wrong: list[bytes] = []

    def read(at: int, wanted: bytes) -> None:
        for _ in range(2000):
            if (got := process.read_string(ME, address + at)) != wanted:
                wrong.append(got)

    threads = [threading.Thread(target=read, args=each) for each in ((0, b"first"), (6, b"second"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


def in_child(act: Callable[[], object]) -> str:
    """Run `act` in a forked process; return what it returned or raised, as text."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = str(act())
        except BaseException as problem:
            said = repr(problem)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    return said


def test_dropping_capabilities_leaves_none() -> None:
    def act() -> str:
        process.set_no_new_privs()
        process.drop_capabilities()
        lines = Path("/proc/self/status").read_text().splitlines()
        return " ".join(line.split()[1] for line in lines if line.startswith("Cap"))

    inheritable, permitted, effective, bounding, ambient = (int(each, 16) for each in in_child(act).split())
    assert not inheritable | permitted | effective | ambient
    if os.geteuid() == 0:
        assert not bounding


def test_limits_are_set_and_never_raised_above_the_hard_limit() -> None:
    def act() -> object:
        process.set_limits({resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: 100})
        process.set_limits({resource.RLIMIT_NOFILE: 1000, resource.RLIMIT_CORE: resource.RLIM_INFINITY})
        return resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)

    assert in_child(act) == "((100, 100), (0, 0))"


def test_close_range_closes_both_ends_and_all_between() -> None:
    def act() -> object:
        null = os.open("/dev/null", os.O_RDONLY)
        for number in (60, 61, 62, 63):
            os.dup2(null, number)
        process.close_range(61, 62)
        return sorted(int(n) for n in os.listdir("/proc/self/fd") if 60 <= int(n) <= 63)

    assert in_child(act) == "[60, 63]"


def test_prctl_wrappers_say_what_the_kernel_then_shows() -> None:
    def act() -> object:
        process.set_no_new_privs()
        process.set_child_subreaper()
        process.set_parent_death_signal(signal.SIGTERM)
        process.set_dumpable(False)
        libc = ctypes.CDLL(None)
        signal_ = ctypes.c_int()
        libc.prctl(2, ctypes.byref(signal_))
        return libc.prctl(39, 0, 0, 0, 0), libc.prctl(3), signal_.value

    assert in_child(act) == f"(1, 0, {int(signal.SIGTERM)})"


def test_a_pidfd_names_signals_and_lends_descriptors(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (tmp_path / "file").open() as file:
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[file.fileno()]
        )
        pidfd = process.pidfd_open(child.pid)
        copy = process.pidfd_getfd(pidfd, file.fileno())
        assert os.path.samestat(os.fstat(copy), os.fstat(file.fileno()))
        assert not os.get_inheritable(copy)
        process.pidfd_send_signal(pidfd, signal.SIGKILL)
        assert child.wait(10) == -signal.SIGKILL
        os.close(copy)
        os.close(pidfd)
        assert child.stdin
        child.stdin.close()


@pytest.mark.needs("userns")
def test_a_new_network_namespace_has_a_loopback_of_its_own() -> None:
    code = """
import socket
from mcpwrap.kernel import network, process
process.unshare(process.CLONE_NEWUSER | process.CLONE_NEWNET)
server = socket.socket()
server.bind(("0.0.0.0", 0))
server.listen()
with socket.socket() as client:
    assert client.connect_ex(("127.0.0.1", server.getsockname()[1])) != 0
network.bring_loopback_up()
socket.create_connection(("127.0.0.1", server.getsockname()[1]), 5).close()
server.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
