"""Acts on files: each tries to reach, by one way, what this call was not granted."""

import ctypes
import errno
import json
import mmap
import os
import shutil
import struct
import threading

from acts_kernel import AT_FDCWD, NR, syscall

RENAME_EXCHANGE = 2
AT_EMPTY_PATH = 0x1000
AT_SYMLINK_FOLLOW = 0x400


def read(path):
    with open(path, "rb") as file:
        return file.read(65536).decode("utf-8", "surrogateescape")


def write(path, content="owned"):
    with open(path, "w") as file:
        file.write(content)
    return "written"


def append(path, content="owned"):
    with open(path, "a") as file:
        file.write(content)
    return "appended"


def open_truncating(path):
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
    return "truncated"


def open_read_truncating(path):
    os.close(os.open(path, os.O_RDONLY | os.O_TRUNC))
    return "truncated through O_RDONLY"


def create(path, mode=0o600):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    return "created"


def list_directory(path):
    return ",".join(sorted(os.listdir(path)))


def stat(path):
    return str(os.stat(path).st_size)


def read_by_directory_fd(directory, name):
    fd = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    file = os.open(name, os.O_RDONLY, dir_fd=fd)
    return os.read(file, 65536).decode()


def read_after_chdir(directory, name):
    os.chdir(directory)
    try:
        return read(name)
    finally:
        os.chdir("/")


def reopen_for_writing(path):
    fd = os.open(path, os.O_RDONLY)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    os.write(again, b"owned")
    return "written through /proc/self/fd"


def reopen_path_fd(path):
    fd = os.open(path, os.O_PATH)
    return os.read(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY), 65536).decode()


def reopen_by_dev_fd(path):
    fd = os.open(path, os.O_RDONLY)
    again = os.open(f"/dev/fd/{fd}", os.O_RDWR)
    os.write(again, b"owned")
    return "written through /dev/fd"


def openat2(path):
    how = ctypes.create_string_buffer(struct.pack("QQQ", os.O_RDONLY, 0, 0))
    fd = syscall(NR["openat2"], AT_FDCWD, os.fsencode(path), how, 24)
    return os.read(fd, 65536).decode()


def symlink(target, path):
    os.symlink(target, path)
    return "linked"


def hardlink(source, destination):
    os.link(source, destination)
    return "linked"


def hardlink_by_fd(source, destination):
    fd = os.open(source, os.O_RDONLY)
    syscall(
        NR["linkat"],
        AT_FDCWD,
        b"/proc/self/fd/%d" % fd,
        AT_FDCWD,
        os.fsencode(destination),
        AT_SYMLINK_FOLLOW,
    )
    return "linked"


def rename(source, destination):
    os.rename(source, destination)
    return "renamed"


def exchange(source, destination):
    syscall(
        NR["renameat2"], AT_FDCWD, os.fsencode(source), AT_FDCWD, os.fsencode(destination), RENAME_EXCHANGE
    )
    return "exchanged"


def unlink(path):
    os.unlink(path)
    return "removed"


def mkdir(path):
    os.mkdir(path)
    return "made"


def rmdir(path):
    os.rmdir(path)
    return "removed"


def truncate(path):
    os.truncate(path, 0)
    return "truncated"


def chmod(path, mode):
    os.chmod(path, mode)
    return oct(os.stat(path).st_mode)


def fchmodat2(path, mode):
    syscall(NR["fchmodat2"], AT_FDCWD, os.fsencode(path), mode, 0)
    return oct(os.stat(path).st_mode)


def chmod_by_read_fd(path, mode):
    fd = os.open(path, os.O_RDONLY)
    os.fchmod(fd, mode)
    return oct(os.fstat(fd).st_mode)


def chown_by_read_fd(path):
    fd = os.open(path, os.O_RDONLY)
    os.fchown(fd, -1, os.getgid())
    return "chowned"


def read_attribute(path):
    return os.getxattr(path, "user.note").decode()


def xattr_by_read_fd(path):
    fd = os.open(path, os.O_RDONLY)
    os.setxattr(fd, "user.owned", b"1")
    return "xattr set"


def times_by_read_fd(path):
    fd = os.open(path, os.O_RDONLY)
    os.utime(fd, (1, 1))
    return "times set"


def times(path):
    os.utime(path, (1, 1))
    return "times set"


def xattr(path):
    os.setxattr(path, "user.owned", b"1")
    return "xattr set"


def make_device(path):
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    return "device made"


def make_fifo(path):
    os.mkfifo(path)
    return "fifo made"


def open_fifo_in_thread(path):
    threading.Thread(target=lambda: open(path, "rb"), daemon=True).start()
    return "waiting"


def link_temporary_file(directory, destination):
    fd = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(fd, b"owned")
    syscall(NR["linkat"], fd, b"", AT_FDCWD, os.fsencode(destination), AT_EMPTY_PATH)
    return "linked"


def link_temporary_file_by_proc(directory, destination):
    fd = os.open(directory, os.O_TMPFILE | os.O_WRONLY, 0o600)
    os.write(fd, b"owned")
    syscall(
        NR["linkat"],
        AT_FDCWD,
        b"/proc/self/fd/%d" % fd,
        AT_FDCWD,
        os.fsencode(destination),
        AT_SYMLINK_FOLLOW,
    )
    return "linked"


def map_executable(path):
    with open(path, "wb") as file:
        file.write(b"\xc3" * 4096)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC):
        return "mapped executable"


def move_aside_write_and_back(directory, aside, inside):
    os.rename(directory, aside)
    with open(os.path.join(aside, inside), "w") as file:
        file.write("owned")
    os.rename(aside, directory)
    return "written and moved back"


def chroot_and_read(path):
    os.chroot("/tmp")
    return read(path)


class _Flip:
    """Two names changed for each other, again and again, while a path is used."""

    def __init__(self, path, first, second):
        self.path, self.first, self.second = path, first, second
        self.ending = False
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(2)]

    def run(self):
        name = f"{self.path}.{threading.get_native_id()}"
        while not self.ending:
            for target in (self.first, self.second):
                try:
                    os.symlink(target, name)
                    os.rename(name, self.path)
                except OSError:
                    pass

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        for thread in self.threads:
            thread.join()


class _FlipBuffer:
    """A path in memory, flipped between two spellings of one length by a thread while it is passed."""

    def __init__(self, first, second):
        first, second = os.fsencode(first), os.fsencode(second)
        size = max(len(first), len(second)) + 1
        self.buffer = ctypes.create_string_buffer(first, size)
        self.first, self.second = first.ljust(size, b"\0"), second.ljust(size, b"\0")
        self.size = size
        self.ending = False
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(2)]

    def run(self):
        while not self.ending:
            ctypes.memmove(self.buffer, self.second, self.size)
            ctypes.memmove(self.buffer, self.first, self.size)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ending = True
        for thread in self.threads:
            thread.join()


def race_open(first, second, count):
    """Open a path whose bytes flip between two files; return how often each was read, and refusals."""
    seen = {}
    with _FlipBuffer(first, second) as flip:
        for _ in range(count):
            try:
                fd = syscall(NR["openat"], AT_FDCWD, flip.buffer, os.O_RDONLY, 0)
            except OSError as refused:
                seen[refused.errno] = seen.get(refused.errno, 0) + 1
                continue
            text = os.read(fd, 64).decode()
            os.close(fd)
            seen[text] = seen.get(text, 0) + 1
    return "; ".join(f"{key!r}={value}" for key, value in seen.items())


def race_open_link(path, first, second, count):
    """Open a symbolic link that flips between two files; return how often each was read, and refusals."""
    seen = {}
    with _Flip(path, first, second):
        for _ in range(count):
            try:
                with open(path) as file:
                    text = file.read(64)
            except OSError as refused:
                text = refused.errno
            seen[text] = seen.get(text, 0) + 1
    return "; ".join(f"{key!r}={value}" for key, value in seen.items())


def race_rename(source, first, second, count):
    """Rename a file onto a path whose bytes flip between two names; return what was done and refused."""
    done = refused = 0
    with _FlipBuffer(first, second) as flip:
        for _ in range(count):
            with open(source, "w") as file:
                file.write("owned")
            try:
                syscall(NR["renameat2"], AT_FDCWD, os.fsencode(source), AT_FDCWD, flip.buffer, 0)
                done += 1
            except OSError:
                refused += 1
    return f"done={done} refused={refused}"


def names_that_are_none(directory):
    """Return what each call that makes, moves or removes a name says to `.`, `..`, `/` and names with a slash behind."""
    paths = (
        ".",
        "./",
        "..",
        "d/.",
        "d/..",
        "d/",
        "f/",
        "l/",
        "gone/",
        "new/.",
        "new/..",
        "f/.",
        "d/./",
        "dd/",
        "",
    )
    acts = {
        "mkdir": os.mkdir,
        "rmdir": os.rmdir,
        "unlink": os.unlink,
        "symlink": lambda path: os.symlink("d", path),
        "link": lambda path: os.link("f", path),
        "mknod": os.mkfifo,
        "rename to": lambda path: os.rename("d", path),
        "rename from": lambda path: os.rename(path, "elsewhere"),
    }
    said = {"mkdir /": _said(os.mkdir, "/")}
    before = os.getcwd()
    for path in paths:
        for name, act in acts.items():
            place = f"{directory}/names"
            shutil.rmtree(place, ignore_errors=True)
            os.makedirs(f"{place}/d")
            os.chdir(place)
            os.symlink("d", "l")
            os.symlink("nothing", "gone")
            with open("f", "w"):
                said[f"{name} {path!r}"] = _said(act, path)
            os.chdir(before)
    return json.dumps(said)


def _said(act, path):
    try:
        act(path)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
