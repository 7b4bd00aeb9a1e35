"""The reviewed list: every verdict in it, on both machines, as the assembled filter gives it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from mcpwrap.kernel.bpf import Check
from mcpwrap.kernel.numbers import AUDIT_ARCHES, MACHINE, table
from mcpwrap.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_USER_NOTIF
from mcpwrap.sandbox.seccomp import program, trapped, verdicts
from mcpwrap.sandbox.syscalls import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable

ANY = 0xDEAD0000BEEF
HIGH = 1 << 40

# (call, arguments, what it gets): one line at least for each side of each group.
CASES: list[tuple[str, tuple[int, ...], int]] = [
    ("openat", (ANY, ANY, 0), RET_USER_NOTIF),
    ("renameat2", (), RET_USER_NOTIF),
    ("fchmod", (), RET_USER_NOTIF),
    ("fsetxattr", (), RET_USER_NOTIF),
    ("execve", (), RET_USER_NOTIF),
    ("execveat", (), RET_USER_NOTIF),
    ("set_tid_address", (), RET_USER_NOTIF),
    ("connect", (), RET_USER_NOTIF),
    ("bind", (), RET_USER_NOTIF),
    ("faccessat", (ANY, ANY, 0), RET_ALLOW),
    ("faccessat", (ANY, ANY, 1), RET_USER_NOTIF),
    ("faccessat2", (ANY, ANY, 1, 0), RET_USER_NOTIF),
    ("sendto", (3, ANY, 1, 0, 0, 0), RET_ALLOW),
    ("sendto", (3, ANY, 1, 0, 16, 16), RET_USER_NOTIF),
    ("sendto", (3, ANY, 1, 0, HIGH, 16), RET_USER_NOTIF),
    ("socket", (1, 1, 0), RET_ALLOW),
    ("socket", (1, 5 | 0o2004000, 0), RET_ALLOW),
    ("socket", (1 | HIGH, 1, 0), RET_ALLOW),
    ("socket", (1, 2, 0), errno.EACCES),
    ("socket", (1 | HIGH, 2 | HIGH, 0), errno.EACCES),
    ("socket", (1, 3, 0), errno.EACCES),
    ("socket", (2, 1, 6), RET_ALLOW),
    ("socket", (10, 1 | 0o2000000, 0), RET_ALLOW),
    ("socket", (2, 2, 17), RET_ALLOW),
    ("socket", (2, 1, 262), errno.EPROTONOSUPPORT),
    ("socket", (2, 2, 1), errno.EPROTONOSUPPORT),
    ("socket", (2, 3, 1), errno.EPERM),
    ("socket", (2, 5, 132), errno.EPERM),
    ("socket", (16, 3, 0), RET_ALLOW),
    ("socket", (16, 3, 9), errno.EPROTONOSUPPORT),
    ("socket", (17, 3, 0), errno.EAFNOSUPPORT),
    ("socket", (40, 1, 0), errno.EAFNOSUPPORT),
    ("socket", (38, 5, 0), errno.EAFNOSUPPORT),
    ("socketpair", (1, 1, 0), RET_ALLOW),
    ("socketpair", (1, 2, 0), errno.EACCES),
    ("socketpair", (30, 1, 0), errno.EAFNOSUPPORT),
    ("clone", (0x3D0F00,), RET_ALLOW),
    ("clone", (0x1200011,), RET_ALLOW),
    ("clone", (0x10000000,), errno.EPERM),
    ("clone", (0x20000 | HIGH,), errno.EPERM),
    ("clone", (0x8011,), errno.EPERM),
    ("getxattr", (), errno.EOPNOTSUPP),
    ("lgetxattr", (), errno.EOPNOTSUPP),
    ("listxattr", (), errno.EOPNOTSUPP),
    ("llistxattr", (), errno.EOPNOTSUPP),
    ("fgetxattr", (), RET_ALLOW),
    ("clone", (0x10000,), errno.EPERM),
    ("clone", (0x10200,), RET_ALLOW),
    ("memfd_create", (ANY, 1), errno.EACCES),
    ("memfd_create", (ANY, 0x10), errno.EACCES),
    ("memfd_create", (ANY, 0x9), RET_ALLOW),
    ("ioctl", (0, 0x5401), RET_ALLOW),
    ("ioctl", (0, 0x5401 | HIGH), RET_ALLOW),
    ("ioctl", (0, 0x5412), errno.EPERM),
    ("ioctl", (0, 0x5412 | HIGH), errno.EPERM),
    ("ioctl", (0, 0x541C), errno.EPERM),
    ("ioctl", (0, 0x40086602), errno.EPERM),
    ("ioctl", (0, 0x5000940F), errno.ENOTTY),
    ("prctl", (15, ANY), RET_ALLOW),
    ("prctl", (4, 0), RET_ERRNO),
    ("prctl", (22, 2), errno.EINVAL),
    ("prctl", (35, 1), errno.EINVAL),
    ("fcntl", (3, 2, 1), RET_ALLOW),
    ("fcntl", (3, 38, 1), RET_ALLOW),
    ("fcntl", (3, 1030, 0), RET_ALLOW),
    ("fcntl", (3, 1024, 0), errno.EACCES),
    ("fcntl", (3, 1040 | HIGH, 0), errno.EACCES),
    ("fcntl", (3, 1041, 0), errno.EINVAL),
    ("personality", (0xFFFFFFFF,), RET_ALLOW),
    ("personality", (0,), RET_ALLOW),
    ("personality", (0x0400000,), errno.EPERM),
    ("prlimit64", (0, 7), RET_ALLOW),
    ("prlimit64", (1, 7), errno.EPERM),
    ("ptrace", (), errno.EPERM),
    ("bpf", (), errno.EPERM),
    ("keyctl", (), errno.EPERM),
    ("mount", (), errno.EPERM),
    ("open_tree", (), errno.EPERM),
    ("settimeofday", (), errno.EPERM),
    ("open_by_handle_at", (), errno.EPERM),
    ("io_uring_setup", (), errno.ENOSYS),
    ("clone3", (), errno.ENOSYS),
    ("openat2", (), errno.ENOSYS),
    ("seccomp", (), errno.ENOSYS),
    ("landlock_restrict_self", (), errno.ENOSYS),
    ("fchmodat2", (), errno.ENOSYS),
    ("file_setattr", (), errno.ENOSYS),
    ("setxattrat", (), errno.ENOSYS),
    ("shmget", (), errno.ENOSYS),
    ("io_submit", (), errno.ENOSYS),
    ("read", (), RET_ALLOW),
    ("newfstatat", (), RET_ALLOW),
    ("kill", (), RET_ALLOW),
]

X86_64_CASES: list[tuple[str, tuple[int, ...], int]] = [
    ("open", (ANY, 0), RET_USER_NOTIF),
    ("creat", (), RET_USER_NOTIF),
    ("access", (ANY, 4), RET_ALLOW),
    ("access", (ANY, 5), RET_USER_NOTIF),
    ("access", (ANY, 1 | HIGH), RET_USER_NOTIF),
    ("arch_prctl", (0x1002, ANY), RET_USER_NOTIF),
    ("arch_prctl", (0x1003, ANY), RET_ALLOW),
    ("arch_prctl", (0x3001, ANY), errno.EINVAL),
    ("fork", (), RET_ALLOW),
    ("modify_ldt", (), errno.ENOSYS),
    ("uselib", (), errno.ENOSYS),
]


def value(wanted: int) -> int:
    return wanted if wanted > 0xFFFF or not wanted else RET_ERRNO | wanted


@pytest.mark.parametrize("name", AUDIT_ARCHES)
def test_every_case_is_answered_as_listed(name: str, machine: Callable[..., int]) -> None:
    filter_ = program(True, machine=name)
    for call, arguments, wanted in CASES + (X86_64_CASES if name == "x86_64" else []):
        got = machine(filter_, AUDIT_ARCHES[name], table(name)[call], arguments)
        assert got == value(wanted), (call, arguments, hex(got))


@pytest.mark.parametrize("name", AUDIT_ARCHES)
def test_what_is_not_listed_is_absent(name: str, machine: Callable[..., int]) -> None:
    listed = {table(name)[call] for call in verdicts(name)}
    for number in {*range(1024)} - listed:
        assert machine(program(True, machine=name), AUDIT_ARCHES[name], number) == RET_ERRNO | errno.ENOSYS


def test_no_call_is_in_two_groups() -> None:
    named = [call for group in GROUPS for call in group.calls.split()]
    assert len(named) == len(set(named))


def test_every_name_is_a_call_of_some_machine() -> None:
    known = {name for machine in AUDIT_ARCHES for name in table(machine)}
    assert {call for group in GROUPS for call in group.calls.split()} <= known


def test_every_group_says_why_and_has_a_case() -> None:
    tried = {call for call, _, _ in CASES + X86_64_CASES}
    for group in GROUPS:
        assert group.reason, group.name
        if group.verdict != RET_ALLOW:
            assert tried & set(group.calls.split()), group.name


def test_every_call_that_names_a_path_and_changes_something_is_trapped_or_refused() -> None:
    changing = (
        "open openat creat truncate rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir "
        "mkdirat rmdir mknod mknodat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes "
        "futimesat utimensat setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr "
        "removexattrat file_setattr execve execveat connect bind openat2 open_by_handle_at"
    )
    for call in changing.split():
        for name in AUDIT_ARCHES:
            assert verdicts(name).get(call) != RET_ALLOW, call


def test_without_a_listener_nothing_is_trapped() -> None:
    for name in AUDIT_ARCHES:
        for verdict in verdicts(name, listener=False).values():
            pending = [verdict]
            while pending:
                each = pending.pop()
                assert each != RET_USER_NOTIF
                if isinstance(each, Check):
                    pending += [each.then, each.otherwise]


def test_the_trapped_calls_are_of_this_machine() -> None:
    assert set(table(MACHINE)) >= trapped() >= {"openat", "execve", "sendto", "utimensat", "connect"}
