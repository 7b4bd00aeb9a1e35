"""System calls by number: what an honest server has no use for."""

import ctypes
import fcntl
import os
import platform
import struct

AT_FDCWD = -100
# name: (x86_64, aarch64); None where the architecture has none.
TABLE = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "delete_module": (176, 106),
    "execveat": (322, 281),
    "fanotify_init": (300, 262),
    "fchmodat2": (452, 452),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "linkat": (265, 37),
    "memfd_create": (319, 279),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "openat": (257, 56),
    "openat2": (437, 437),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "renameat2": (316, 276),
    "request_key": (249, 218),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setxattrat": (463, 463),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
NR = {name: numbers[platform.machine() == "aarch64"] for name, numbers in TABLE.items()}

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602


def syscall(number, *arguments):
    passed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(name, arguments=()):
    """Make a system call with plain numbers; the zero pages it may want are given as null."""
    return f"{name} returned {syscall(NR[name], *arguments)}"


def io_uring():
    parameters = ctypes.create_string_buffer(120)
    return f"ring {syscall(NR['io_uring_setup'], 8, parameters)}"


def key():
    # KEYCTL_GET_KEYRING_ID of the session keyring, made if it is not there
    return f"keyring {syscall(NR['keyctl'], 0, -3, 1)}"


def new_user_namespace():
    pid = os.fork()
    if pid == 0:
        try:
            syscall(NR["unshare"], CLONE_NEWUSER)
            os._exit(0)
        except OSError as refused:
            os._exit(refused.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))
    return "a user namespace of its own"


def clone_user_namespace():
    pid = syscall(NR["clone"], CLONE_NEWUSER | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "a child in a user namespace"


def read_parent_memory():
    return f"attached {syscall(NR['ptrace'], 16, os.getppid() or 1, 0, 0)}"


def trace_child():
    pid = os.fork()
    if pid == 0:
        while True:
            os.sched_yield()
    try:
        return f"attached {syscall(NR['ptrace'], 16, pid, 0, 0)}"
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def read_own_memory_from_outside():
    buffer = ctypes.create_string_buffer(b"x" * 8)
    into = ctypes.create_string_buffer(8)
    local = ctypes.create_string_buffer(struct.pack("PP", ctypes.addressof(into), 8))
    remote = ctypes.create_string_buffer(struct.pack("PP", ctypes.addressof(buffer), 8))
    return f"read {syscall(NR['process_vm_readv'], os.getpid(), local, 1, remote, 1, 0)}"


def steal_fd():
    fd = syscall(NR["pidfd_open"], os.getpid(), 0)
    return f"fd {syscall(NR['pidfd_getfd'], fd, 0, 0)}"


def user_fault():
    return f"userfaultfd {syscall(NR['userfaultfd'], 1)}"


def push_input(high_bits=False):
    request = TIOCSTI | (1 << 32 if high_bits else 0)
    number = 16 if platform.machine() == "x86_64" else 29
    return f"pushed {syscall(number, 0, request, b'x')}"


def console_input():
    number = 16 if platform.machine() == "x86_64" else 29
    return f"pushed {syscall(number, 0, TIOCLINUX, bytes([3]))}"


def set_inode_flags(path):
    fd = os.open(path, os.O_RDONLY)
    held = bytearray(8)
    fcntl.ioctl(fd, FS_IOC_GETFLAGS, held)
    wanted = struct.unpack("l", held)[0] | 0x80  # "no access times": an owner may set it
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("l", wanted))
    return "flags set"


def x32_getpid():
    if platform.machine() != "x86_64":
        raise OSError(38, "no x32 here")
    return f"pid {syscall(0x40000000 + 39)}"


def gain_privileges():
    os.setuid(0)
    return f"uid {os.getuid()}"


def identity():
    with open("/proc/self/status") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    wanted = ("CapEff", "CapPrm", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
    return " ".join(f"{name}={fields[name]}" for name in wanted) + f" uid={os.getuid()} ppid={os.getppid()}"
