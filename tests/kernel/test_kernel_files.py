"""Acts on an object that is held by descriptor, whatever its name is by then."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from mcpwrap.kernel import files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2
"""UTIME_NOW, UTIME_OMIT."""


@pytest.fixture
def procfs() -> Iterator[int]:
    fd = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    yield fd
    os.close(fd)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """A file held by O_PATH whose name then became a symlink to another one."""
    (tmp_path / "file").write_text("content")
    (tmp_path / "other").write_text("other")
    (tmp_path / "other").chmod(0o600)
    fd = os.open(tmp_path / "file", os.O_PATH)
    (tmp_path / "file").rename(tmp_path / "moved")
    (tmp_path / "file").symlink_to("other")
    yield fd
    os.close(fd)


def test_times_and_length_are_of_what_is_held(procfs: int, held: int, tmp_path: Path) -> None:
    moved, other = tmp_path / "moved", tmp_path / "other"
    before = other.stat()
    files.utimens(procfs, held, (1, 2, 3, 4))
    status = moved.stat()
    assert (status.st_atime_ns, status.st_mtime_ns) == (10**9 + 2, 3 * 10**9 + 4)
    files.utimens(procfs, held, (0, _OMIT, 0, _NOW))
    status = moved.stat()
    assert status.st_atime_ns == 10**9 + 2
    assert status.st_mtime_ns > 10**18
    files.utimens(procfs, held, None)
    assert moved.stat().st_atime_ns > 10**18
    files.truncate(procfs, held, 3)
    assert moved.read_text() == "con"
    assert (other.read_text(), other.stat()) == ("other", before)


def test_a_held_file_gets_a_further_name(procfs: int, held: int, tmp_path: Path) -> None:
    target = os.open(tmp_path, os.O_PATH)
    files.link(procfs, held, target, "linked")
    os.close(target)
    assert (tmp_path / "linked").samefile(tmp_path / "moved")


def test_a_held_symlink_is_itself_the_object(procfs: int, held: int, tmp_path: Path) -> None:
    assert held
    directory = os.open(tmp_path, os.O_PATH)
    link = os.open("file", os.O_PATH | os.O_NOFOLLOW, dir_fd=directory)
    try:
        files.utimens(procfs, link, (1, 0, 1, 0))
        assert (tmp_path / "file").lstat().st_mtime == 1
        assert (tmp_path / "other").stat().st_mtime != 1
        with pytest.raises(OSError, match=rf"Errno {errno.ELOOP}\b"):
            files.truncate(procfs, link, 0)
        files.link(procfs, link, directory, "second")
        assert (tmp_path / "second").readlink() == (tmp_path / "file").readlink()
    finally:
        os.close(link)
        os.close(directory)


def test_truncating_what_is_no_regular_file_fails_at_once(procfs: int, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_PATH)
    with pytest.raises(OSError, match=rf"Errno {errno.ENXIO}\b"):  # nobody reads it
        files.truncate(procfs, held, 0)
    os.close(held)


def test_rename_flags_reach_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    fd = os.open(tmp_path, os.O_PATH)
    with pytest.raises(FileExistsError) as caught:
        files.renameat2(fd, "a", fd, "b", files.RENAME_NOREPLACE)
    assert (caught.value.filename, caught.value.filename2) == ("a", "b")
    files.renameat2(fd, "a", fd, "b", files.RENAME_EXCHANGE)
    assert (tmp_path / "a").read_text() == "b"
    files.renameat2(fd, "a", fd, "b")
    assert (tmp_path / "b").read_text() == "b"
    os.close(fd)


def test_openat2_keeps_to_its_rules(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/up").symlink_to("..")
    (tmp_path / "out").write_text("out")
    fd = os.open(tmp_path / "in", os.O_PATH)
    with pytest.raises(FileNotFoundError, match="up/out"):
        files.openat2(fd, "up/out", os.O_RDONLY, resolve=files.RESOLVE_IN_ROOT)
    made = files.openat2(fd, "new", os.O_WRONLY | os.O_CREAT, mode=0o600, resolve=files.RESOLVE_IN_ROOT)
    assert not os.get_inheritable(made)
    os.close(made)
    os.close(fd)


def test_a_nul_in_a_path_is_refused(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_PATH)
    with pytest.raises(ValueError, match="NUL"):
        files.openat2(fd, "a\0b", os.O_RDONLY)
    os.close(fd)
