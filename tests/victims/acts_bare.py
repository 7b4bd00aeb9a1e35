"""Acts that matter where there are no namespaces: on processes, queues and files of the whole machine."""

import ctypes
import errno
import fcntl
import os
import platform
import signal
import socket
import struct
import tempfile
import time

from acts_kernel import syscall

NUMBERS = {
    # name: (x86_64, aarch64)
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "setpgid": (109, 154),
    "getsid": (124, 156),
    "prlimit64": (302, 261),
    "msgget": (68, 186),
    "semget": (64, 190),
    "shmget": (29, 194),
    "mq_open": (240, 180),
    "mq_notify": (244, 184),
    "process_madvise": (440, 440),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
}
NR = {name: pair[platform.machine() == "aarch64"] for name, pair in NUMBERS.items()}


def _info(number):
    # struct siginfo: si_signo, si_errno, si_code = SI_QUEUE, then the sender
    return ctypes.create_string_buffer(struct.pack("iiiiii", number, 0, -1, 0, os.getpid(), os.getuid()), 128)


def send_signal(pid, how, number=signal.SIGTERM):
    """Send a signal by each of the ways there are."""
    if how == "kill":
        syscall(NR["kill"], pid, number)
    elif how == "kill group":
        syscall(NR["kill"], -pid, number)
    elif how == "kill everybody":
        syscall(NR["kill"], -1, number)
    elif how == "tkill":
        syscall(NR["tkill"], pid, number)
    elif how == "tgkill":
        syscall(NR["tgkill"], pid, pid, number)
    elif how == "rt_sigqueueinfo":
        syscall(NR["rt_sigqueueinfo"], pid, number, _info(number))
    elif how == "rt_tgsigqueueinfo":
        syscall(NR["rt_tgsigqueueinfo"], pid, pid, number, _info(number))
    elif how == "pidfd":
        fd = syscall(NR["pidfd_open"], pid, 0)
        syscall(NR["pidfd_send_signal"], fd, number, 0, 0)
    elif how == "owner of a pipe":
        reader, writer = os.pipe()
        fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
        fcntl.fcntl(reader, 10, number)  # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETFL, fcntl.fcntl(reader, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(writer, b"x")
        time.sleep(0.1)
    else:
        raise ValueError(how)
    return "sent"


def signals_inside(how):
    """The same to a child, which ends of it: what is inside stays possible."""
    child = os.fork()
    if not child:
        os.setpgid(0, 0)
        while True:
            time.sleep(60)
    while os.getpgid(child) != child:
        time.sleep(0.01)
    send_signal(child, how, signal.SIGUSR1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != -signal.SIGUSR1:
        raise OSError(errno.EIO, f"status {status}")
    return "ended"


def signals_everybody(number):
    """kill(-1), which this process itself is spared by the kernel and its threads survive by ignoring it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        syscall(NR["kill"], -1, number)
    except OSError as refused:
        return f"errno {refused.errno}"
    return "sent"


def signals_itself():
    caught = []
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    import threading

    signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
    caught.append(signal.sigtimedwait([signal.SIGUSR1], 5))
    return str(bool(caught[0]))


def touch_process(pid, how):
    """Change or ask something of another process."""
    mask = ctypes.create_string_buffer(b"\x01", 128)
    parameter = ctypes.create_string_buffer(8)
    acts = {
        "priority": lambda: syscall(NR["setpriority"], 0, pid, 19),
        "priority of a group": lambda: syscall(NR["setpriority"], 1, pid, 19),
        "priority of the user": lambda: syscall(NR["setpriority"], 2, os.getuid(), 19),
        "priority of input and output": lambda: syscall(NR["ioprio_set"], 1, pid, 3 << 13),
        "processors": lambda: syscall(NR["sched_setaffinity"], pid, 128, mask),
        "scheduler": lambda: syscall(NR["sched_setscheduler"], pid, 5, parameter),
        "limits": lambda: syscall(NR["prlimit64"], pid, 7, 0, ctypes.create_string_buffer(16)),
        "session": lambda: syscall(NR["getsid"], pid),
    }
    acts[how]()
    return "done"


def queue(kind):
    """Make something of System V or POSIX that is the whole machine's without an IPC namespace."""
    if kind == "mq_open":
        return str(
            syscall(NR["mq_open"], f"mcpwrap-{os.getpid()}".encode(), os.O_CREAT | os.O_RDWR, 0o600, 0)
        )
    return str(
        syscall(
            NR[kind],
            0x6D637077 + os.getpid(),
            *((1,) if kind == "semget" else (4096,) if kind == "shmget" else ()),
            0o1600,
        )
    )


def watch(path):
    fd = syscall(NR["inotify_init1"], 0)
    try:
        return f"watch {syscall(NR['inotify_add_watch'], fd, os.fsencode(path), 0x100)}"
    finally:
        os.close(fd)


def watch_and_see(path):
    """Watch a directory, make a file in it, and tell its name as the watch does."""
    fd = syscall(NR["inotify_init1"], 0)
    syscall(NR["inotify_add_watch"], fd, os.fsencode(path), 0x100)
    with open(os.path.join(path, "seen"), "w"):
        pass
    return os.read(fd, 4096)[16:].rstrip(b"\0").decode()


def talk_by_path():
    path = tempfile.mktemp()
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as one:
        listener.bind(path)
        listener.listen()
        one.connect(path)
        with listener.accept()[0] as other:
            other.sendall(b"unix")
            return one.recv(8).decode()


def environment(name):
    return os.environ.get(name, "")


def file_size(path):
    return str(os.stat(path).st_size)


def exists(pid):
    return str(os.path.exists(f"/proc/{pid}"))


def load_written_library(path):
    """Map a file the server wrote, to execute it."""
    import mmap

    with open(path, "wb") as file:
        file.write(b"\xc3" * mmap.PAGESIZE)
    with open(path, "rb") as file:
        mmap.mmap(
            file.fileno(), mmap.PAGESIZE, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC
        ).close()
    return "mapped"


def fill_temporary(size):
    directory = os.environ.get("TMPDIR", "/tmp")
    with open(os.path.join(directory, "large"), "wb") as file:
        file.truncate(0)
        file.seek(size - 1)
        file.write(b"x")
    return str(os.statvfs(directory).f_blocks * os.statvfs(directory).f_frsize > 1 << 30)


def device_of(path):
    return str(os.stat(path).st_dev)


def leave_tree(count):
    """Leave processes in sessions of their own, forked twice, each with a child; return when all are there."""
    reader, writer = os.pipe()
    for _ in range(count):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    signal.signal(number, signal.SIG_IGN)
                os.fork()
                os.write(writer, b"x")
                os.closerange(0, 1024)
                time.sleep(600)
            os._exit(0)
        os.wait()
    os.close(writer)
    said = b""
    while len(said) < 2 * count:
        said += os.read(reader, 64)
    os.close(reader)
    return "left"
