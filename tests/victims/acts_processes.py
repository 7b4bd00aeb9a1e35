"""Acts on processes: running what was not granted, hiding, and taking more than one's share."""

import glob
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time

from acts_kernel import NR, syscall

AT_EMPTY_PATH = 0x1000


def _executed(argv, executable=None):
    done = subprocess.run(argv, executable=executable, capture_output=True, text=True, timeout=20)
    if done.returncode:
        raise OSError(13, f"exit status {done.returncode}: {done.stderr.strip()[:300]}")
    return done.stdout


def execute(argv):
    return _executed(argv)


def execute_in(directory, name):
    return subprocess.run(
        [name], cwd=directory, capture_output=True, text=True, timeout=20, check=True
    ).stdout


def execute_copy(program, place):
    """Copy a program into a writable place and run the copy."""
    shutil.copy(program, place)
    os.chmod(place, 0o755)
    return _executed([place, "/dev/null"]) + "ran"


def execute_script(interpreter, place):
    with open(place, "w") as file:
        file.write(f"#!{interpreter}\n")
    os.chmod(place, 0o755)
    return _executed([place])


def loader():
    """Return the dynamic loader's path."""
    return next(iter(glob.glob("/lib64/ld-linux-*.so.*") + glob.glob("/lib/ld-linux-*.so.*")))


def execute_by_loader(program, place):
    shutil.copy(program, place)
    return _executed([loader(), place, "/dev/null"]) + "ran"


def execute_memory(program):
    """Copy a program into a memfd and execute that."""
    fd = os.memfd_create("x")
    with open(program, "rb") as file:
        os.write(fd, file.read())
    pid = os.fork()
    if pid == 0:
        try:
            os.execve(fd, ["x", "/dev/null"], {})
        except OSError as refused:
            os._exit(refused.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))
    return "ran from memory"


def make_setuid(path):
    with open(path, "w") as file:
        file.write("x")
    os.chmod(path, 0o4755)
    return oct(stat.S_IMODE(os.stat(path).st_mode))


def create_setuid(path):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o6755)
    return oct(stat.S_IMODE(os.fstat(fd).st_mode))


def detach_and_read(path, result, delay=0.0):
    """Double fork, setsid, and read `path` into `result` from a process nobody waits for."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(delay)
            try:
                with open(path) as file:
                    said = file.read()
            except OSError as refused:
                said = f"errno {refused.errno}"
            with open(result + ".part", "w") as file:
                file.write(said)
            os.rename(result + ".part", result)
        os._exit(0)
    os.wait()
    deadline = time.monotonic() + 5 + delay
    while not os.path.exists(result) and time.monotonic() < deadline:
        time.sleep(0.005)
    with open(result) as file:
        return file.read()


def detach_later(path, result, delay):
    """The same, but the call is over before the process reads."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for fd in range(3):
                os.close(fd)
            time.sleep(delay)
            try:
                with open(path) as file:
                    said = file.read()
            except OSError as refused:
                said = f"errno {refused.errno}"
            with open(result + ".part", "w") as file:
                file.write(said)
            os.rename(result + ".part", result)
        os._exit(0)
    os.wait()
    return "left"


def await_file(path, seconds):
    deadline = time.monotonic() + seconds
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.01)
    with open(path) as file:
        return file.read()


def detach_and_execute(argv):
    """Double fork, setsid, and execute at once."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            try:
                os.execv(argv[0], argv)
            except OSError as refused:
                os.write(writer, f"errno {refused.errno}".encode())
        os._exit(0)
    os.close(writer)
    os.wait()
    said = b""
    while data := os.read(reader, 65536):
        said += data
    return said.decode()


def leave_daemon():
    """Leave a process that ignores every signal it can, in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if os.fork():
            os._exit(0)
        for fd in range(3):
            os.close(fd)
        time.sleep(600)
        os._exit(0)
    os.wait()
    return "left"


def bomb_forks(limit):
    """Fork until it is refused or `limit` is reached; end all again; return how many there were."""
    children, refused = [], 0
    while len(children) < limit:
        try:
            pid = os.fork()
        except OSError as problem:
            refused = problem.errno
            break
        if pid == 0:
            while True:
                signal.pause()
        children.append(pid)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    for pid in children:
        os.waitpid(pid, 0)
    return f"{len(children)} processes, then errno {refused}"


def bomb_fds(limit):
    fds, refused = [], 0
    try:
        while len(fds) < limit:
            fds.append(os.dup(0))
    except OSError as problem:
        refused = problem.errno
    for fd in fds:
        os.close(fd)
    return f"{len(fds)} fds, then errno {refused}"


def raise_limits():
    """Try to raise the limits again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard + 1, hard + 1))
    except ValueError as refused:
        raise OSError(1, str(refused)) from refused
    return f"raised from {soft}"


def bomb_memory(size, step=64 << 20):
    """Take and touch memory up to `size` bytes; return how much could be had."""
    held = []
    try:
        while len(held) * step < size:
            held.append(bytearray(os.urandom(4096)) * (step // 4096))
    except MemoryError:
        pass
    return f"{len(held) * step} bytes"


def endless_line(size):
    """Write a line without an end to stdout."""
    chunk = b"x" * (1 << 20)
    sent = 0
    while sent < size:
        sent += os.write(1, chunk)
    return "written"


def flood_stderr(size):
    chunk = b"e" * 65535 + b"\n"
    sent = 0
    while sent < size:
        sent += os.write(2, chunk)
    return "written"


def kill(pid, number):
    os.kill(pid, number)
    return "signalled"


def processes():
    return ",".join(sorted((name for name in os.listdir("/proc") if name.isdigit()), key=int))


def temporary_directory():
    return os.environ.get("TMPDIR", "/tmp")


def installation():
    return f"{os.path.dirname(os.path.abspath(__file__))}\n{sys.prefix}\n{sys.executable}"


def execveat_empty(program):
    """Execute through an O_PATH descriptor and an empty path."""
    fd = os.open(program, os.O_PATH)
    pid = os.fork()
    if pid == 0:
        import ctypes

        argv = (ctypes.c_char_p * 3)(b"x", b"/dev/null", None)
        try:
            syscall(NR["execveat"], fd, b"", argv, argv, AT_EMPTY_PATH)
        except OSError as refused:
            os._exit(refused.errno)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        raise OSError(status, os.strerror(status))
    return "executed"


def nested(arguments):
    """Do an act of nested.py, in a process of its own."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "nested.py")
    return _executed([sys.executable, "-I", "-S", "-B", script, *arguments])


def load(path):
    """Map a native library as code."""
    import ctypes

    try:
        return f"loaded {ctypes.CDLL(path)}"
    except OSError as refused:
        raise OSError(13, str(refused)) from refused


def load_copy(path, place):
    shutil.copy(path, place)
    os.chmod(place, 0o755)
    return load(place)
