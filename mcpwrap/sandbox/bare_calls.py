"""What is judged otherwise where there are no namespaces (tier C): loopback, processes, queues are the host's.

Groups as those of `syscalls`, laid over its list.
"""

from __future__ import annotations

import errno

from mcpwrap.kernel.bpf import Check, Verdict
from mcpwrap.kernel.seccomp import RET_ERRNO
from mcpwrap.sandbox import arguments
from mcpwrap.sandbox.arguments import ABSENT, ALLOW, NO_ACCESS, NOT_PERMITTED, TRAP
from mcpwrap.sandbox.syscalls import Group

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_STREAM, _SEQPACKET, _KIND = 1, 5, 0xF
_TCP = 6
_MSG_FASTOPEN = 0x20000000
_NO_FAST_OPEN = RET_ERRNO | errno.EOPNOTSUPP
_CLONE_FS, _CLONE_THREAD = 0x200, 0x10000
_PROCESS, _GROUP = 0, 1
"""PRIO_PROCESS, PRIO_PGRP; of ioprio_set IOPRIO_WHO_PROCESS, IOPRIO_WHO_PGRP are one higher."""


def _sockets(made: Verdict) -> Check:
    """`made` is what becomes of the sockets that may be."""
    unix = Check(1, (_STREAM, _SEQPACKET), made, NO_ACCESS, mask=_KIND)
    tcp = Check(2, (0, _TCP), made, RET_ERRNO | errno.EPROTONOSUPPORT)
    internet = Check(1, (_STREAM,), tcp, NO_ACCESS, mask=_KIND)
    rest = Check(0, (_AF_INET, _AF_INET6), internet, RET_ERRNO | errno.EAFNOSUPPORT)
    return Check(0, (_AF_UNIX,), unix, rest)


def _unless_fast_open(argument: int, verdict: Verdict) -> Check:
    return Check(argument, (0,), verdict, _NO_FAST_OPEN, mask=_MSG_FASTOPEN)


def _own(argument: int = 0) -> Check:
    """Zero is the caller itself; whom another number means the broker looks up."""
    return Check(argument, (0,), ALLOW, TRAP)


def _priority(process: int) -> Check:
    own_group = Check(1, (0,), ALLOW, NOT_PERMITTED)
    return Check(0, (process,), _own(1), Check(0, (process + 1,), own_group, NOT_PERMITTED))


_NO_OPTION = RET_ERRNO | errno.ENOPROTOOPT
_SOL_IP, _SOL_SOCKET, _SOL_TCP, _SOL_IPV6 = 0, 1, 6, 41
_OF_SOCKETS = (
    2,
    *range(6, 14),
    15,
    16,
    18,
    19,
    20,
    21,
    29,
    34,
    35,
    37,
    42,
    45,
    46,
    47,
    49,
    60,
    *range(63, 68),
)
"""SO_{REUSEADDR,BROADCAST,SNDBUF,RCVBUF,KEEPALIVE,OOBINLINE,NO_CHECK,PRIORITY,LINGER,REUSEPORT,PASSCRED,RCVLOWAT,
SNDLOWAT,RCVTIMEO,SNDTIMEO,TIMESTAMP,PASSSEC,TIMESTAMPNS,TIMESTAMPING,PEEK_OFF,SELECT_ERR_QUEUE,BUSY_POLL,
MAX_PACING_RATE,INCOMING_CPU,ZEROCOPY} and the five that end in _NEW (include/uapi/asm-generic/socket.h)."""
_OF_TCP = (*range(1, 11), 12, 13, 16, 17, 18, 25, 36, 37)
"""TCP_{NODELAY … WINDOW_CLAMP,QUICKACK,CONGESTION,THIN_*,USER_TIMEOUT,NOTSENT_LOWAT,INQ,TX_DELAY}: none that
puts data into a SYN (FASTOPEN_CONNECT), or makes another kind of socket of it (ULP)."""
_OF_IP = (1, 2, 8, 10, 11, 12, 13, 24)
"""IP_{TOS,TTL,PKTINFO,MTU_DISCOVER,RECVERR,RECVTTL,RECVTOS,BIND_ADDRESS_NO_PORT}."""
_OF_IPV6 = (16, 23, 25, 26, 49, 51, 62, 66, 67, 70, 72)
"""IPV6_{UNICAST_HOPS,MTU_DISCOVER,RECVERR,V6ONLY,RECVPKTINFO,RECVHOPLIMIT,DONTFRAG,RECVTCLASS,TCLASS,
AUTOFLOWLABEL,ADDR_PREFERENCES}."""


def _options() -> Check:
    check: Verdict = _NO_OPTION
    for level, options in (
        (_SOL_IPV6, _OF_IPV6),
        (_SOL_IP, _OF_IP),
        (_SOL_TCP, _OF_TCP),
        (_SOL_SOCKET, _OF_SOCKETS),
    ):
        check = Check(1, (level,), Check(2, options, ALLOW, _NO_OPTION), check)
    assert isinstance(check, Check)
    return check


_ALWAYS = (
    Group(
        "new processes",
        "the broker lets each pass, and none once it has ended: so no process escapes the end by being another one",
        TRAP,
        "fork vfork",
    ),
    Group(
        "clone",
        "as on the list; threads are no new processes",
        arguments.CLONE._replace(
            then=Check(0, (0,), TRAP, arguments.ONE_PLACE, mask=_CLONE_FS | _CLONE_THREAD),
        ),
        "clone",
    ),
    Group(
        "socket options",
        "an allow list: by the others (IPV6_RTHDR, IP_OPTIONS, SO_BINDTODEVICE) what the broker connects to one "
        "place sends its packets to another, with data in them",
        _options(),
        "setsockopt",
    ),
    Group(
        "sockets",
        "only streams, so that whatever is sent goes where the broker connected it to: no datagrams, and no "
        "netlink, which would show the host's interfaces",
        _sockets(ALLOW),
        "socket",
    ),
    Group("listening", "a port of the host would be taken by listening alone", TRAP, "listen"),
    Group(
        "send to an address",
        "MSG_FASTOPEN connects, past Landlock too",
        _unless_fast_open(3, arguments.SEND_TO),
        "sendto",
    ),
    Group("sendmsg", "MSG_FASTOPEN connects", _unless_fast_open(2, ALLOW), "sendmsg"),
    Group("sendmmsg", "MSG_FASTOPEN connects", _unless_fast_open(3, ALLOW), "sendmmsg"),
    Group(
        "watching names",
        "a watch tells the names of what is made and removed, in every directory of the host",
        TRAP,
        "inotify_add_watch",
    ),
    Group(
        "processes by number",
        "numbers are the host's: the broker lets those of the tree pass",
        _own(),
        "getpgid getsid setpgid sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
        "sched_getscheduler sched_setscheduler sched_rr_get_interval sched_getattr sched_setattr",
    ),
    Group("priorities", "as `processes by number`; never a user's", _priority(0), "getpriority setpriority"),
    Group("priorities of input and output", "as `priorities`", _priority(1), "ioprio_get ioprio_set"),
    Group(
        "System V semaphores, queues; POSIX queues",
        "they are the host's",
        ABSENT,
        "semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend "
        "mq_timedreceive mq_notify mq_getsetattr",
    ),
    Group(
        "ioctl",
        "as on the list, without those that name the host's interfaces",
        arguments.IOCTL_BARE,
        "ioctl",
    ),
)

_SIGNALS = (
    Group(
        "signals",
        "Landlock holds no signals here (below ABI 6): the broker lets those to the tree pass",
        TRAP,
        "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo",
    ),
    Group("pidfds", "whom one means cannot be told safely; callers fall back to kill", ABSENT, "pidfd_open"),
    Group("signals by pidfd", "as `pidfds`", ABSENT, "pidfd_send_signal"),
    Group("fcntl", "as on the list, without what sends signals", arguments.FCNTL_SILENT, "fcntl"),
)

_MADE_BY_BROKER = Group(
    "sockets",
    "the broker cannot take a socket out of the server here, so it makes each and keeps it until it is connected",
    _sockets(TRAP),
    "socket",
)


def groups(*, scoped: bool, copies: bool) -> tuple[Group, ...]:
    """Return the groups of this machine: `scoped`, Landlock holds signals; `copies`, pidfd_getfd works."""
    return (*_ALWAYS, *(() if scoped else _SIGNALS), *(() if copies else (_MADE_BY_BROKER,)))


UNWATCHED = (
    Group(
        "sockets",
        "without a broker nobody looks which socket file is connected to",
        arguments.SOCKET_INSIDE,
        "socket",
    ),
)
"""Tier B-: laid over a list of which nothing is trapped, in an empty network."""
