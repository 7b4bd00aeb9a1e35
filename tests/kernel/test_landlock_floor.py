"""The floor and the nested domain, in a process that entered them."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpwrap.kernel import landlock as kernel
from mcpwrap.kernel import process
from mcpwrap.sandbox import landlock

ROOT = Path(__file__).parents[2]
VICTIM = str(ROOT / "tests/victims/landlocked.py")
EACCES = errno.EACCES

pytestmark = pytest.mark.needs("landlock2")


def command(floor: dict[str, Any] | None, acts: list[list[Any]], **more: Any) -> list[str]:
    return [sys.executable, VICTIM, json.dumps({"floor": floor, "nested": False, "acts": acts, **more})]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def outcomes(floor: dict[str, Any] | None, *acts: list[Any], **more: Any) -> list[int]:
    done = subprocess.run(
        command(floor, list(acts), **more),
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        pass_fds=more.get("pass_fds", ()),
    )
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("read", "write", "run", "private", "none", "write/sub"):
        (tmp_path / name).mkdir()
        for directory in ("empty", "into"):
            (tmp_path / name / directory).mkdir()
        for file in ("file", "old", "useless"):
            (tmp_path / name / file).write_text("x")
        shutil.copy("/bin/true", tmp_path / name / "program")
    return tmp_path


def floor(tree: Path, **more: Any) -> dict[str, Any]:
    return {
        "reads": [str(tree / "read")],
        "writes": [str(tree / "write")],
        "executables": [str(tree / "run"), "/lib", "/usr/lib", "/lib64"],
        "private": [str(tree / "private")],
        **more,
    }


def everything(at: Path) -> list[list[Any]]:
    return [
        ["read", f"{at}/file"],
        ["list", f"{at}"],
        ["execute", f"{at}/program"],
        ["write", f"{at}/file"],
        ["truncate", f"{at}/file"],
        ["create", f"{at}/new"],
        ["mkdir", f"{at}/made"],
        ["symlink", "file", f"{at}/link"],
        ["fifo", f"{at}/fifo"],
        ["rename", f"{at}/old", f"{at}/into/new"],
        ["unlink", f"{at}/useless"],
        ["rmdir", f"{at}/empty"],
        ["unix", f"{at}/socket"],
    ]


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("place", "allowed"),
    [
        ("none", ()),
        ("read", ("read", "list")),
        ("run", ("read", "list", "execute")),
        (
            "write",
            "read list write truncate create mkdir symlink fifo rename unlink rmdir".split(),
        ),
        (
            "private",
            "read list write truncate create mkdir symlink fifo rename unlink rmdir unix".split(),
        ),
    ],
)
def test_each_kind_of_place_allows_its_acts_only(
    tree: Path, place: str, allowed: tuple[str, ...], nested: bool
) -> None:
    if kernel.abi() < 3:
        pytest.skip("truncate is of ABI 3")
    acts = everything(tree / place)
    got = dict(zip([act[0] for act in acts], outcomes(floor(tree), *acts, nested=nested), strict=True))
    assert {name for name, result in got.items() if result == 0} == set(allowed)
    assert {result for result in got.values() if result} <= {EACCES, errno.EXDEV}


def test_the_same_acts_all_work_without_the_floor(tree: Path) -> None:
    assert not any(outcomes(None, *everything(tree / "none")))


@pytest.mark.parametrize("abi", [2, 5, 6, 7])
def test_a_nested_domain_takes_no_right_on_files_away(tree: Path, abi: int) -> None:
    if kernel.abi() < abi:
        pytest.skip(f"ABI {kernel.abi()}")
    acts = [
        ["rename", f"{tree}/write/file", f"{tree}/write/sub/moved"],
        ["link", f"{tree}/write/sub/moved", f"{tree}/write/linked"],
    ]
    assert outcomes(floor(tree), *acts, nested=True, abi=abi) == [0, 0]


def test_a_file_can_be_a_place(tree: Path) -> None:
    places = {"reads": [f"{tree}/read/file"], "writes": [f"{tree}/write/file"]}
    acts = [
        ["read", f"{tree}/read/file"],
        ["write", f"{tree}/read/file"],
        ["read", f"{tree}/read/program"],
        ["write", f"{tree}/write/file"],
        ["read", f"{tree}/write/program"],
    ]
    assert outcomes(places, *acts) == [0, EACCES, EACCES, 0, EACCES]


def test_a_descriptor_can_be_a_place(tree: Path) -> None:
    fd = os.open(tree / "read", os.O_PATH)
    try:
        acts = [["read", f"{tree}/read/file"], ["read", f"{tree}/none/file"]]
        assert outcomes({"reads": [fd]}, *acts, pass_fds=[fd]) == [0, EACCES]
    finally:
        os.close(fd)


def test_a_missing_place_is_an_error_and_nothing_is_restricted(tree: Path) -> None:
    child = os.fork()
    if not child:
        try:
            process.set_no_new_privs()
            landlock.floor(reads=[str(tree / "absent")], abi=kernel.abi())
        except FileNotFoundError as problem:
            (tree / "none/file").read_text()
            os._exit(0 if problem.filename == str(tree / "absent") else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.needs("landlock5")
def test_device_ioctls_are_for_devices_only() -> None:
    acts = [["device", "/dev/ptmx"]]
    assert outcomes({"devices": ["/dev"]}, *acts) == [0]
    assert outcomes({"writes": ["/dev"]}, *acts) == [EACCES]


@pytest.mark.needs("landlock6")
def test_signals_and_abstract_sockets_stop_at_the_nested_domain() -> None:
    name = f"mcpwrap-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0" + name)
        server.listen()
        acts: list[list[Any]] = [["kill", os.getpid()], ["abstract", name]]
        everywhere = {"executables": ["/"], "writes": ["/"]}
        assert outcomes(everywhere, *acts) == [0, 0]
        assert outcomes(everywhere, *acts, nested=True) == [errno.EPERM, errno.EPERM]


@pytest.mark.parametrize("abi", [2, 5, 7])
def test_the_outer_domain_reads_the_nested_one_and_never_the_other_way(abi: int) -> None:
    """In a child: enter a floor, then start a process that enters it too and nests."""
    if kernel.abi() < abi:
        pytest.skip(f"ABI {kernel.abi()}")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        said = "nothing"
        try:
            process.set_no_new_privs()
            process.set_child_subreaper()
            landlock.floor(executables=["/"], writes=["/"], abi=abi)
            word = ctypes.c_uint64(7)
            acts = [["memory", os.getpid(), ctypes.addressof(word)]]
            inner = subprocess.Popen(
                command(None, acts, nested=True, abi=abi, wait=True),
                env=ENVIRONMENT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert inner.stdout
            refused = json.loads(inner.stdout.readline())
            line = Path(f"/proc/{inner.pid}/maps").read_text().splitlines()[0]
            read = process.read_memory(inner.pid, int(line.split("-")[0], 16), 4)
            inner.communicate(timeout=10)
            said = f"{refused} {read!r}"
        except BaseException as problem:
            said = repr(problem)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    assert said == f"[{errno.EPERM}] " + repr(b"\x7fELF")


def test_a_ruleset_closes_its_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with kernel.Ruleset(kernel.FS_READ_FILE, abi=kernel.abi()) as ruleset:
        ruleset.allow(str(tmp_path), kernel.FS_READ_FILE)
    with pytest.raises(FileNotFoundError), kernel.Ruleset(kernel.FS_READ_FILE, abi=kernel.abi()) as ruleset:
        ruleset.allow(str(tmp_path / "absent"), kernel.FS_READ_FILE)
    assert os.listdir("/proc/self/fd") == before


def test_a_stale_errno_is_no_failure(tmp_path: Path) -> None:
    ctypes.set_errno(errno.ENOSPC)
    with kernel.Ruleset(kernel.FS_READ_FILE, abi=kernel.abi()) as ruleset:
        ruleset.allow(str(tmp_path), kernel.FS_READ_FILE)


def test_a_ruleset_of_nothing_is_an_error() -> None:
    with pytest.raises(OSError, match=rf"Errno {errno.ENOMSG}\b"):
        kernel.Ruleset(kernel.FS_IOCTL_DEV, abi=2)


@pytest.mark.parametrize(("abi", "count"), [(7, 0), (6, 0), (5, 1), (4, 2), (2, 3)])
def test_what_an_older_kernel_leaves_open_is_said(abi: int, count: int) -> None:
    assert len(landlock.lacking(abi)) == count
