"""What is judged otherwise with `nested_sandbox`: what a browser's own sandbox asks of the kernel, and no more.

Groups as those of `syscalls`, laid over its list. In a user namespace of its own a process has every capability
over what it makes there: a pid and a network namespace, a root. It still has no mounts, enters no namespace that
exists, and is asked about by every call that names a file.
"""

from __future__ import annotations

import errno

from mcpwrap.kernel.bpf import Check
from mcpwrap.kernel.seccomp import RET_ERRNO
from mcpwrap.sandbox import arguments
from mcpwrap.sandbox.arguments import ALLOW, NOT_PERMITTED, TRAP
from mcpwrap.sandbox.syscalls import Group

_NEWUSER = 0x10000000
_OTHER_NAMESPACES = 0x0E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC: a browser makes none of these."""
_CLONE_PARENT = 0x8000
_CLONE_VM, _CLONE_FS, _CLONE_VFORK, _CLONE_THREAD = 0x100, 0x200, 0x4000, 0x10000
_VFORK = _CLONE_VM | _CLONE_VFORK

_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_FILTER_FLAGS = 0x1 | 0x2 | 0x4 | 0x10
"""TSYNC, LOG, SPEC_ALLOW, TSYNC_ESRCH; not NEW_LISTENER: another supervisor would answer in the broker's place."""
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_INVALID = RET_ERRNO | errno.EINVAL

_SOL_IP, _SOL_IPV6 = 0, 41
_TABLES = (64, 65, 96, 97, 128, 129, *range(1153, 1168))
"""{IPT,IP6T,ARPT,EBT}_SO_SET_{REPLACE,ADD_COUNTERS} and IP_VS_SO_SET_*: packet filters, whose code has been the
most frequent way from a user namespace into the kernel."""

_ONE_PLACE = arguments.ONE_PLACE._replace(
    then=Check(
        0,
        (_CLONE_FS,),
        Check(0, (_VFORK,), ALLOW, NOT_PERMITTED, mask=_VFORK),
        NOT_PERMITTED,
        mask=_CLONE_FS | _CLONE_THREAD,
    )
)
"""The one process that may share its root and working directory: it gives its waiting parent an empty root."""

GROUPS = (
    Group(
        "clone",
        "as on the list, and user, pid and network namespaces",
        Check(0, (0,), _ONE_PLACE, NOT_PERMITTED, mask=_OTHER_NAMESPACES | _CLONE_PARENT),
        "clone",
    ),
    Group(
        "own user namespace",
        "a process that executes loses the capabilities of its namespace, and makes another one",
        Check(0, (_NEWUSER,), ALLOW, NOT_PERMITTED),
        "unshare",
    ),
    Group("empty root", "the broker lets through the empty directory browsers take for it", TRAP, "chroot"),
    Group(
        "own filters",
        "the broker lets them through in a process that executes nothing any more: they answer before it does",
        Check(
            0,
            (_SET_MODE_FILTER,),
            Check(1, (0,), TRAP, _INVALID, mask=0xFFFFFFFF & ~_FILTER_FLAGS),
            Check(0, (_GET_ACTION_AVAIL,), ALLOW, _INVALID),
        ),
        "seccomp",
    ),
    Group(
        "prctl",
        "as on the list, and `own filters` by their older name",
        Check(0, (_PR_SET_SECCOMP,), Check(1, (_MODE_FILTER,), TRAP, _INVALID), arguments.PRCTL),
        "prctl",
    ),
    Group(
        "socket options",
        "no packet filters in a network namespace of its own",
        Check(1, (_SOL_IP, _SOL_IPV6), Check(2, _TABLES, NOT_PERMITTED, ALLOW), ALLOW),
        "setsockopt",
    ),
)
