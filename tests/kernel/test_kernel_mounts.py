"""Mount calls, in a mount namespace of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.needs("userns")

BEGIN = """
import errno, os, sys
from mcpwrap.kernel import mounts, process
uid, gid = os.getuid(), os.getgid()
process.unshare(process.CLONE_NEWUSER | process.CLONE_NEWNS)
open("/proc/self/setgroups", "w").write("deny")
open("/proc/self/uid_map", "w").write(f"{uid} {uid} 1")
open("/proc/self/gid_map", "w").write(f"{gid} {gid} 1")
mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
base = sys.argv[1]

def fails(number, act, *arguments):
    try:
        act(*arguments)
    except OSError as problem:
        assert problem.errno == number, problem
        return problem
    raise AssertionError("did not fail")
"""


def inside(tmp_path: Path, code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_file_system_is_mounted_with_flags_and_options_and_taken_away(tmp_path: Path) -> None:
    inside(
        tmp_path,
        """
mounts.mount("tmpfs", base, "tmpfs", mounts.MS_NOSUID | mounts.MS_NODEV, "size=1m,mode=0700")
open(base + "/file", "w").write("x")
assert os.statvfs(base).f_blocks * os.statvfs(base).f_bsize == 1 << 20
assert os.statvfs(base).f_flag & os.ST_NOSUID
mounts.umount_detach(base)
assert os.listdir(base) == []
""",
    )


def test_a_failure_names_what_and_where(tmp_path: Path) -> None:
    inside(
        tmp_path,
        """
problem = fails(errno.ENOENT, mounts.mount, base + "/no", base, None, 0x1000)  # MS_BIND
assert (problem.filename, problem.filename2) == (base + "/no", base)
assert fails(errno.EINVAL, mounts.umount_detach, base).filename == base
assert fails(errno.ENOENT, lambda: mounts.mount_setattr(base + "/no", set_=1)).filename == base + "/no"
""",
    )


def test_attributes_change_for_all_mounts_below(tmp_path: Path) -> None:
    inside(
        tmp_path,
        """
mounts.mount("tmpfs", base, "tmpfs")
os.mkdir(base + "/in")
mounts.mount("tmpfs", base + "/in", "tmpfs")
mounts.mount_setattr(base, set_=mounts.MOUNT_ATTR_RDONLY | mounts.MOUNT_ATTR_NOEXEC)
open(base + "/in/file", "w").close()
fails(errno.EROFS, os.mkdir, base + "/b")
mounts.mount_setattr(base, set_=mounts.MOUNT_ATTR_RDONLY, recursive=True)
fails(errno.EROFS, os.mkdir, base + "/in/b")
mounts.mount_setattr(base, clear=mounts.MOUNT_ATTR_RDONLY, recursive=True)
os.mkdir(base + "/in/b")
assert os.statvfs(base).f_flag & os.ST_NOEXEC
""",
    )


def test_a_detached_copy_is_changed_and_attached_by_descriptor(tmp_path: Path) -> None:
    inside(
        tmp_path,
        """
mounts.mount("tmpfs", base, "tmpfs")
for name in ("from", "to", "too"):
    os.mkdir(base + "/" + name)
open(base + "/from/file", "w").write("x")
tree = mounts.open_tree(base + "/from", clone=True, recursive=True)
assert not os.get_inheritable(tree)
mounts.mount_setattr("", dirfd=tree, set_=mounts.MOUNT_ATTR_RDONLY)
mounts.move_mount(tree, base + "/to")
assert open(base + "/to/file").read() == "x"
fails(errno.EROFS, os.unlink, base + "/to/file")
os.close(tree)
place = os.open(base + "/too", os.O_PATH)
mounts.move_mount(mounts.open_tree("from", clone=True, dirfd=os.open(base, os.O_PATH)), "", dirfd=place)
assert os.listdir(base + "/too") == ["file"]
""",
    )


def test_the_root_is_exchanged(tmp_path: Path) -> None:
    inside(
        tmp_path,
        """
mounts.mount("tmpfs", base, "tmpfs")
os.mkdir(base + "/old")
mounts.pivot_root(base, base + "/old")
os.chdir("/")
assert os.listdir("/") == ["old"]
mounts.umount_detach("/old")
assert os.listdir("/old") == []
""",
    )
