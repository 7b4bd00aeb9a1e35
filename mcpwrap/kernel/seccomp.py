"""Loading a seccomp filter, and answering what it hands over (user notification).

The notification functions are the hottest code of mcpwrap: one `receive` and one `respond` or
`add_fd_send` for every trapped call of the server. They share no state, so threads may use them.

Sources: seccomp(2), seccomp_unotify(2), include/uapi/linux/seccomp.h at Linux 6.18.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from fcntl import ioctl

from mcpwrap.kernel.libc import syscall
from mcpwrap.kernel.numbers import NR

RET_KILL_PROCESS = 0x80000000
RET_ERRNO = 0x00050000
RET_USER_NOTIF = 0x7FC00000
RET_ALLOW = 0x7FFF0000

CONTINUE = 1
"""SECCOMP_USER_NOTIF_FLAG_CONTINUE: the kernel makes the call after all, reading its memory anew."""

_SET_MODE_FILTER = 1
_GET_NOTIF_SIZES = 3
_FILTER_FLAG_NEW_LISTENER = 1 << 3
_FILTER_FLAG_WAIT_KILLABLE_RECV = 1 << 5

_RECV = 0xC0502100
_SEND = 0xC0182101
_ID_VALID = 0x40082102
_ADDFD = 0xC0182103
_SET_FLAGS = 0x40082104

_SYNC_WAKE_UP = 1
_ADDFD_FLAG_SEND = 2

INSTRUCTION = struct.Struct("=HBBI")
"""struct sock_filter: code, jump if true, jump if false, constant."""

_NOTIFICATION = struct.Struct("=QI4xi4xQ6Q")
"""struct seccomp_notif: id, pid, (flags), nr, (arch), instruction pointer, args."""
_RESPONSE = struct.Struct("=QqiI")
"""struct seccomp_notif_resp: id, val, error, flags."""
_ADDED = struct.Struct("=QIIII")
"""struct seccomp_notif_addfd: id, flags, srcfd, newfd, newfd_flags."""
_ID = struct.Struct("=Q")


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def load(program: bytes, *, listener: bool) -> int | None:
    """Put this thread, and all it starts from now on, under the filter `program`.

    `program` is a run of `INSTRUCTION`s. With `listener`, returns the descriptor (close-on-exec)
    on which RET_USER_NOTIF calls arrive; a caller that was received then waits for the answer
    with only fatal signals able to end the wait. Needs no_new_privs, or CAP_SYS_ADMIN.

    Raises OSError: EBUSY where an outer filter has a listener already; EINVAL below Linux 5.19;
    EOPNOTSUPP if this kernel's notifications have another size than those known here.
    """
    if listener and notification_sizes()[:2] != (_NOTIFICATION.size, _RESPONSE.size):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
    flags = _FILTER_FLAG_NEW_LISTENER | _FILTER_FLAG_WAIT_KILLABLE_RECV if listener else 0
    counted = _Program(len(program) // INSTRUCTION.size, program)
    result = syscall(NR["seccomp"], _SET_MODE_FILTER, flags, ctypes.byref(counted))
    return result if listener else None


def notification_sizes() -> tuple[int, int, int]:
    """Return what this kernel says the sizes of seccomp_notif, seccomp_notif_resp, seccomp_data are."""
    sizes = (ctypes.c_uint16 * 3)()
    syscall(NR["seccomp"], _GET_NOTIF_SIZES, 0, sizes)
    return sizes[0], sizes[1], sizes[2]


class Notification:
    """One trapped call: `nr` and `args` as in the registers of thread `pid`, `id` names the notification."""

    __slots__ = ("args", "id", "nr", "pid")

    def __init__(self, pid: int, id: int, nr: int, args: tuple[int, ...]) -> None:
        self.pid = pid
        self.id = id
        self.nr = nr
        self.args = args


_EMPTY = bytes(_NOTIFICATION.size)
_unpack = _NOTIFICATION.unpack_from


def receive(fd: int) -> Notification | None:
    """Wait for the next trapped call; None if its caller died meanwhile.

    Raises OSError: EBADF and the like only; an interrupted wait goes on.
    """
    buffer = bytearray(_EMPTY)
    while True:
        try:
            ioctl(fd, _RECV, buffer, True)
            break
        except InterruptedError:
            continue
        except FileNotFoundError:
            return None
    fields = _unpack(buffer)
    return Notification(fields[1], fields[0], fields[2], fields[4:])


def respond(fd: int, id: int, *, error: int = 0, value: int = 0, flags: int = 0) -> bool:
    """Answer: the call fails with errno `error`, or returns `value`, or is made (`flags=CONTINUE`).

    Returns False if the caller died meanwhile.
    """
    try:
        ioctl(fd, _SEND, bytearray(_RESPONSE.pack(id, value, -error, flags)), True)
    except FileNotFoundError:
        return False
    return True


def add_fd_send(fd: int, id: int, source: int, cloexec: bool) -> int:
    """Give the caller a copy of descriptor `source` and let its call return the new number.

    Returns that number, or -1 if the caller died meanwhile. The calling process must have no
    signal handler: an interrupted wait would let the trapped call return 0.

    Raises OSError: EMFILE if the caller may have no further descriptor; then it is still waiting.
    """
    request = bytearray(_ADDED.pack(id, _ADDFD_FLAG_SEND, source, 0, os.O_CLOEXEC if cloexec else 0))
    try:
        number: int = ioctl(fd, _ADDFD, request, True)
    except FileNotFoundError:
        return -1
    return number


def alive(fd: int, id: int) -> bool:
    """Say whether the caller still waits: what was read of it (memory, /proc/PID) until now is its own."""
    try:
        ioctl(fd, _ID_VALID, bytearray(_ID.pack(id)), True)
    except FileNotFoundError:
        return False
    return True


def set_sync_wake_up(fd: int) -> bool:
    """Let caller and listener run in turns on one CPU; False below Linux 6.6, which cannot."""
    try:
        ioctl(fd, _SET_FLAGS, _SYNC_WAKE_UP)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOTTY):
            return False
        raise
    return True
