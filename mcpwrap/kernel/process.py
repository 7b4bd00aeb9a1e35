"""Processes: namespaces, pidfds, another process's memory, prctl, capabilities, limits.

Sources: the man pages named at each function; numbers from include/uapi/linux at Linux 6.18.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
from collections.abc import Mapping

from mcpwrap.kernel.libc import LIBC, failure, syscall
from mcpwrap.kernel.numbers import NR

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4

_LINUX_CAPABILITY_VERSION_3 = 0x20080522

_PAGE = resource.getpagesize()


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its next children) into new namespaces; unshare(2)."""
    syscall(NR["unshare"], flags)


def setns(fd: int, kind: int) -> None:
    """Move this process into the namespace of `fd`, which must be of `kind` (CLONE_NEW*); setns(2)."""
    syscall(NR["setns"], fd, kind)


def pidfd_open(pid: int, flags: int = 0) -> int:
    """Return a pidfd (close-on-exec) for `pid`; pidfd_open(2)."""
    return syscall(NR["pidfd_open"], pid, flags)


def pidfd_getfd(pidfd: int, fd: int) -> int:
    """Return a copy (close-on-exec) of descriptor `fd` of the process of `pidfd`; pidfd_getfd(2)."""
    return syscall(NR["pidfd_getfd"], pidfd, fd, 0)


def pidfd_send_signal(pidfd: int, signal: int) -> None:
    """Send `signal` to the process of `pidfd`; pidfd_send_signal(2)."""
    syscall(NR["pidfd_send_signal"], pidfd, signal, None, 0)


def close_range(first: int, last: int = 0xFFFFFFFF, flags: int = 0) -> None:
    """Close descriptors `first` to `last`, both included; close_range(2)."""
    syscall(NR["close_range"], first, last, flags)


def set_limits(limits: Mapping[int, int]) -> None:
    """Set soft and hard limit of each resource (`resource.RLIMIT_*` → value), never above today's hard limit."""
    for which, value in limits.items():
        hard = resource.getrlimit(which)[1]
        if hard != resource.RLIM_INFINITY and (value == resource.RLIM_INFINITY or value > hard):
            value = hard
        resource.setrlimit(which, (value, value))


def queued_signals() -> int:
    """Return how many signals and timers of this user RLIMIT_SIGPENDING counts now: `SigQ` of proc_pid_status(5)."""
    with open("/proc/self/status", "rb") as status:
        line = next(each for each in status if each.startswith(b"SigQ:"))
    return int(line.split()[1].partition(b"/")[0])


# prctl(2)


def _prctl(option: int, value: int, other: int = 0) -> None:
    syscall(NR["prctl"], option, value, other, 0, 0)


def set_no_new_privs() -> None:
    """Make set-id bits and file capabilities void from now on, for good."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def set_dumpable(dumpable: bool) -> None:
    """Let (or not) processes of the same user read this one: /proc/PID, ptrace, core dumps."""
    _prctl(_PR_SET_DUMPABLE, int(dumpable))


def set_parent_death_signal(signal: int) -> None:
    """Get `signal` when the parent *thread* ends. Cleared by a change of credentials: set it after."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def set_child_subreaper() -> None:
    """Become the parent of descendants whose own parent ended."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


CAP_SYS_ADMIN = 21


def drop_capabilities(*, keep: int | None = None) -> None:
    """Empty the bounding, ambient, effective, permitted and inheritable sets of this thread.

    `keep` is one capability that stays effective and permitted; an exec would lose it all the same.

    The bounding set can be emptied only with CAP_SETPCAP; without it the set stays as it is,
    which with no_new_privs gives nothing to anybody. Raises OSError if any other set stays.
    """
    try:
        for capability in range(64):
            _prctl(_PR_CAPBSET_DROP, capability)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EPERM):  # EINVAL: past the kernel's last one
            raise
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = _CapabilityHeader(_LINUX_CAPABILITY_VERSION_3, 0)
    words = [0] * 6  # effective, permitted, inheritable of capabilities 0..31, then the same of 32..63
    if keep is not None:
        at = 3 * (keep // 32)
        words[at] = words[at + 1] = 1 << (keep % 32)
    syscall(NR["capset"], ctypes.byref(header), struct.pack("6I", *words))


# Another process's memory: process_vm_readv(2)


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


# Bare of `argtypes`, with every argument made beforehand: 1.6 µs a call, of which the kernel takes 1.3.
_readv = LIBC.process_vm_readv
_readv.restype = ctypes.c_ssize_t
_ONE = ctypes.c_ulong(1)
_NONE = ctypes.c_ulong(0)


class _Window:
    """One page-sized buffer with its two vectors: allocated once, not for every read."""

    __slots__ = ("buffer", "here", "here_at", "there", "there_at")

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_PAGE)
        self.here = _Vector(ctypes.addressof(self.buffer), _PAGE)
        self.there = _Vector()
        self.here_at = ctypes.byref(self.here)
        self.there_at = ctypes.byref(self.there)


_free: list[_Window] = [_Window()]
"""Idle windows. `pop` and `append` are atomic, so threads and nested calls never share one."""


def read_string(pid: int, address: int, limit: int = 4096) -> bytes:
    """Return the NUL-terminated string at `address` of `pid`, without its NUL.

    Reads no page beyond the one the NUL is in, so a string at the very end of a mapping is read
    as the kernel would read it. `limit` counts the NUL (PATH_MAX does).

    Raises OSError: EFAULT (not mapped), ENAMETOOLONG (no NUL within `limit`), EPERM, ESRCH.
    """
    try:
        window = _free.pop()
    except IndexError:
        window = _Window()
    try:
        there = window.there
        found = b""
        while True:
            want = _PAGE - address % _PAGE
            if want > limit:
                want = limit
            there.base = address
            there.size = want
            got = _readv(pid, window.here_at, _ONE, window.there_at, _ONE, _NONE)
            if got != want:
                if got == -1:
                    raise failure()
                raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
            piece: bytes = window.buffer.value
            if len(piece) < want:
                return found + piece if found else piece
            found += piece[:want]
            address += want
            limit -= want
            if not limit:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    finally:
        _free.append(window)


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return `size` bytes at `address` of `pid`.

    Raises OSError: EFAULT if not all of them are mapped, EPERM, ESRCH.
    """
    if not size:
        return b""
    buffer = ctypes.create_string_buffer(size)
    here = _Vector(ctypes.addressof(buffer), size)
    there = _Vector(address, size)
    got = _readv(pid, ctypes.byref(here), _ONE, ctypes.byref(there), _ONE, _NONE)
    if got == -1:
        raise failure()
    if got != size:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    return buffer.raw
