"""What decides calls that are judged by their arguments: the numbers, and the checks made of them.

An `int` argument is compared by its low 32 bits, which is all the kernel takes of it.
"""

from __future__ import annotations

import errno

from mcpwrap.kernel.bpf import Check
from mcpwrap.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_USER_NOTIF

ALLOW = RET_ALLOW
TRAP = RET_USER_NOTIF
ABSENT = RET_ERRNO | errno.ENOSYS
NOT_PERMITTED = RET_ERRNO | errno.EPERM
NO_ACCESS = RET_ERRNO | errno.EACCES
NOT_SUPPORTED = RET_ERRNO | errno.EOPNOTSUPP
PRETEND = RET_ERRNO
"""Answer success, do nothing."""

# ioctl, by what is asked (include/uapi/asm-generic/ioctls.h, linux/sockios.h, linux/fs.h)
_TERMINAL = (*range(0x5401, 0x540C), 0x540E, 0x540F, 0x5410, 0x5411, 0x5413, 0x5414, 0x5422, 0x5429)
"""TCGETS … TCFLSH, TIOCSCTTY, TIOC[GS]PGRP, TIOCOUTQ, TIOC[GS]WINSZ, TIOCNOTTY, TIOCGSID."""
_PTY = (0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D, 0x80045430, 0x40045431, 0x5441)
"""TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER."""
_DESCRIPTOR = (0x2, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x5460)
"""FIGETBSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE."""
_FILE = (0x40049409, 0x4020940D, 0xC0189436, 0x80086601, 0x801C581F, 0x80087601, 0xC020660B)
"""FICLONE, FICLONERANGE, FIDEDUPERANGE (they ask for a writable descriptor), and of the FS_IOC_ family
GETFLAGS, FSGETXATTR, GETVERSION, FIEMAP."""
_INTERFACE = (0x8905, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D, 0x8921, 0x8927, 0x8933)
"""SIOCATMARK, SIOCGIF{NAME,CONF,FLAGS,ADDR,DSTADDR,BRDADDR,NETMASK,METRIC,MTU,HWADDR,INDEX}."""
_FORBIDDEN_IOCTL = (0x5412, 0x541C, 0x40086602, 0x401C5820)
"""TIOCSTI, TIOCLINUX, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR."""

_NAMESPACES = 0x7E020000
_CLONE_PARENT = 0x8000
_CLONE_FS, _CLONE_THREAD = 0x200, 0x10000
_MFD_NOEXEC_SEAL = 0x8
_F_LEASES = (1024, 1040)
"""F_SETLEASE, F_SETDELEG."""
_F_OTHERS = (1030, 1025, 1026, 1027, 1028, 1029, 1031, 1032, 1033, 1034, 1035, 1036, 1037, 1038)
"""F_DUPFD_CLOEXEC first: it is the one that is hot. The rest up to F_SET_FILE_RW_HINT."""
_ABOVE_63 = 0xFFFFFFC0
"""The commands of POSIX and the locks are below 64."""
_F_SIGNALS = (8, 10, 15)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX: together they send any signal to any process of the user."""
_PER_LINUX, _PER_ASK = 0, 0xFFFFFFFF
_PR_SET_DUMPABLE = 4
_ARCH_SET_FS, _ARCH_OTHERS = 0x1002, (0x1001, 0x1003, 0x1004, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025)
"""ARCH_{SET_GS,GET_FS,GET_GS} and the five ARCH_*_XCOMP_*, which a library asks for before it uses AMX."""
_PRCTL = (
    1,
    2,
    3,
    7,
    8,
    15,
    16,
    21,
    23,
    24,
    25,
    26,
    27,
    28,
    29,
    30,
    33,
    34,
    36,
    37,
    38,
    39,
    40,
    41,
    42,
    47,
    52,
    53,
)
"""{SET,GET}_PDEATHSIG, GET_DUMPABLE, {GET,SET}_KEEPCAPS, {SET,GET}_NAME, GET_SECCOMP, CAPBSET_{READ,DROP},
{GET,SET}_TSC, {GET,SET}_SECUREBITS, {SET,GET}_TIMERSLACK, MCE_KILL{,_GET}, {SET,GET}_CHILD_SUBREAPER,
{SET,GET}_NO_NEW_PRIVS, GET_TID_ADDRESS, {SET,GET}_THP_DISABLE, CAP_AMBIENT, {GET,SET}_SPECULATION_CTRL."""
_PRCTL_MEMORY = (51, 55, 56, 65, 66, 0x53564D41)
"""SVE_GET_VL, {SET,GET}_TAGGED_ADDR_CTRL, {SET,GET}_MDWE, SET_VMA (names of anonymous mappings)."""

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _RAW, _SEQPACKET, _KIND = 1, 2, 3, 5, 0xF
_TCP, _UDP, _NETLINK_ROUTE = 6, 17, 0

_UNIX = Check(1, (_STREAM, _SEQPACKET), ALLOW, NO_ACCESS, mask=_KIND)
_INTERNET = Check(
    1,
    (_STREAM,),
    Check(2, (0, _TCP), ALLOW, RET_ERRNO | errno.EPROTONOSUPPORT),
    Check(
        1,
        (_DATAGRAM,),
        Check(2, (0, _UDP), ALLOW, RET_ERRNO | errno.EPROTONOSUPPORT),
        NOT_PERMITTED,
        mask=_KIND,
    ),
    mask=_KIND,
)
_NETLINK = Check(2, (_NETLINK_ROUTE,), ALLOW, RET_ERRNO | errno.EPROTONOSUPPORT)

_NO_FAMILY = RET_ERRNO | errno.EAFNOSUPPORT

SOCKET = Check(
    0,
    (_AF_UNIX,),
    _UNIX,
    Check(0, (_AF_INET, _AF_INET6), _INTERNET, Check(0, (_AF_NETLINK,), _NETLINK, _NO_FAMILY)),
)
SOCKET_INSIDE = Check(
    0,
    (_AF_INET, _AF_INET6),
    _INTERNET,
    Check(0, (_AF_NETLINK,), _NETLINK, Check(0, (_AF_UNIX,), NO_ACCESS, _NO_FAMILY)),
)
"""As SOCKET, and none of AF_UNIX."""
SOCKET_PAIR = Check(0, (_AF_UNIX,), _UNIX, _NO_FAMILY)
SEND_TO = Check(4, (0,), Check(4, (0,), ALLOW, TRAP, high=True), TRAP)
ONE_PLACE = Check(0, (_CLONE_FS, _CLONE_THREAD), NOT_PERMITTED, ALLOW, mask=_CLONE_FS | _CLONE_THREAD)
"""The threads of a process share their working directory, and nobody else does: another process could move it after
the broker has looked, and a thread with one of its own would execute where the process is not."""
CLONE = Check(0, (0,), ONE_PLACE, NOT_PERMITTED, mask=_NAMESPACES | _CLONE_PARENT)
MEMORY_FILE = Check(1, (0,), NO_ACCESS, ALLOW, mask=_MFD_NOEXEC_SEAL)
THREAD_POINTER = Check(0, (_ARCH_SET_FS,), TRAP, Check(0, _ARCH_OTHERS, ALLOW, RET_ERRNO | errno.EINVAL))
IOCTL = Check(
    1,
    (*_TERMINAL, *_PTY, *_DESCRIPTOR, *_FILE, *_INTERFACE),
    ALLOW,
    Check(1, _FORBIDDEN_IOCTL, NOT_PERMITTED, RET_ERRNO | errno.ENOTTY),
)
IOCTL_BARE = IOCTL._replace(values=(*_TERMINAL, *_PTY, *_DESCRIPTOR, *_FILE))
PRCTL = Check(
    0,
    (*_PRCTL, *_PRCTL_MEMORY),
    ALLOW,
    Check(0, (_PR_SET_DUMPABLE,), PRETEND, RET_ERRNO | errno.EINVAL),
)
FCNTL = Check(
    1,
    (0,),
    ALLOW,
    Check(1, _F_OTHERS, ALLOW, Check(1, _F_LEASES, NO_ACCESS, RET_ERRNO | errno.EINVAL)),
    mask=_ABOVE_63,
)
FCNTL_SILENT = Check(1, _F_SIGNALS, NOT_PERMITTED, FCNTL)
PERSONALITY = Check(0, (_PER_LINUX, _PER_ASK), ALLOW, NOT_PERMITTED)
_X_OK = 1
MAY_EXECUTE = Check(1, (0,), ALLOW, TRAP, mask=_X_OK)
MAY_EXECUTE_AT = Check(2, (0,), ALLOW, TRAP, mask=_X_OK)
OWN_LIMITS = Check(0, (0,), ALLOW, NOT_PERMITTED)
