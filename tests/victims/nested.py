"""Acts in a sandbox of its own, as a browser makes one: `python nested.py ACT [ARGUMENT...]`, JSON on stdout.

A process of its own with one thread, as user namespaces want it. A refusal prints the errno's name.
"""

import ctypes
import errno
import json
import os
import platform
import socket
import struct
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ARM = platform.machine() == "aarch64"
NR = {
    name: numbers[ARM]
    for name, numbers in {
        "clone": (56, 220),
        "unshare": (272, 97),
        "chroot": (161, 51),
        "mount": (165, 40),
        "setns": (308, 268),
        "seccomp": (317, 277),
        "prctl": (157, 167),
        "pivot_root": (155, 41),
        "umount2": (166, 39),
        "fsopen": (430, 430),
        "open_tree": (428, 428),
        "ptrace": (101, 117),
        "process_vm_readv": (310, 270),
        "pidfd_getfd": (438, 438),
        "arch_prctl": (158, -1),
        "set_tid_address": (218, 96),
        "bpf": (321, 280),
        "keyctl": (250, 219),
        "sethostname": (170, 161),
    }.items()
}
NEWNS, NEWUTS, NEWIPC, NEWCGROUP = 0x20000, 0x4000000, 0x8000000, 0x2000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
BROWSER = NEWUSER | NEWPID | NEWNET
FS = 0x200
UID, GID = os.getuid(), os.getgid()


def syscall(name, *arguments):
    passed = [ctypes.c_long(item) if isinstance(item, int) else item for item in arguments]
    result = libc.syscall(ctypes.c_long(NR[name]), *passed)
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def furnish():
    write("/proc/self/setgroups", "deny")
    write("/proc/self/uid_map", f"{UID} {UID} 1")
    write("/proc/self/gid_map", f"{GID} {GID} 1")


def inside(act, flags=BROWSER, furnished=True):
    """Return what `act` does in a child in namespaces of its own."""
    reader, writer = os.pipe()
    pid = syscall("clone", flags | 17, 0, 0, 0, 0)
    if pid == 0:
        try:
            if furnished:
                furnish()
            said = act()
        except OSError as refused:
            said = errno.errorcode[refused.errno]
        except BaseException as fault:
            said = f"FAULT {fault!r}"
        os.write(writer, json.dumps(said).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(data or '"DIED"')


def namespaces():
    return [os.stat(f"/proc/self/ns/{name}").st_ino for name in ("user", "pid", "net")]


def view():
    """Who it is, as /proc tells it: what runs there must find itself."""
    with open("/proc/self/status") as file:
        status = {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    fd = os.open("/proc/self/status", os.O_RDONLY)
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    with open("/proc/self/uid_map") as file:
        uid_map = file.read().split()
    return {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "uid_map": uid_map,
        "namespaces": namespaces(),
        "same": os.readlink("/proc/self") == status["Pid"],
        "again": bool(os.read(again, 1)),
        "capabilities": status["CapEff"],
    }


def furnished():
    return inside(view)


def twice():
    """A second user namespace in the first one, as a browser's zygote makes it after its execution."""

    def act():
        syscall("unshare", NEWUSER)
        furnish()
        return view()

    return inside(act)


def further():
    """A pid namespace for each page, by who has the capability."""
    return inside(lambda: inside(view, NEWPID, furnished=False))


def read(path):
    return inside(lambda: open(path).read())


def opened(path):
    return inside(lambda: str(os.open(path, os.O_WRONLY)))


def mapped(text):
    def act():
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", text)
        return "mapped"

    return inside(act, furnished=False)


def mapped_parent():
    parent = os.getpid()
    return inside(lambda: write(f"/proc/{parent}/uid_map", f"{UID} {UID} 1"), NEWUSER)


def called(name, *arguments):
    return inside(lambda: syscall(name, *arguments))


def cloned(flags):
    return inside(lambda: "cloned", flags, furnished=False)


def unshared(flags):
    return inside(lambda: syscall("unshare", flags))


def entered():
    """Back into the namespace it came from."""
    outer = os.open("/proc/self/ns/user", os.O_RDONLY)
    return inside(lambda: syscall("setns", outer, 0))


def packet_filter():
    def act():
        with socket.socket() as made:
            made.setsockopt(0, 64, bytes(128))
        return "set"

    return inside(act)


def rooted(path, *then):
    """Take another root, then try `then`: open PATH | at PATH | up PATH | execute PATH."""

    def act():
        proc = os.open("/proc", os.O_RDONLY)
        syscall("chroot", path.encode())
        os.chdir("/")
        found = {}
        for each in then:
            how, _, name = each.partition(" ")
            try:
                if how == "open":
                    found[each] = os.read(os.open(name, os.O_RDONLY), 10).decode("latin-1")
                elif how == "at":
                    found[each] = os.read(os.open(name, os.O_RDONLY, dir_fd=proc), 5).decode()
                elif how == "execute":
                    os.execv(name, [name, "/dev/null"])
            except OSError as refused:
                found[each] = errno.errorcode[refused.errno]
        return found

    return inside(act)


def _filter(*hidden):
    """A filter that answers success in the place of these calls."""
    code = [(0x20, 0, 0, 0)]
    for number in hidden:
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050000)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    packed = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in code))
    return struct.pack("HxxxxxxP", len(code), ctypes.addressof(packed)), packed


def filtered(program, how="seccomp"):
    """Hide a call that shows what runs (the other one a C library cannot do without), then execute."""
    hidden = [NR["set_tid_address"]]

    def act():
        argument, _kept = _filter(*hidden)
        libc.prctl(38, 1, 0, 0, 0)
        if how == "seccomp":
            syscall("seccomp", 1, 0, argument)
        else:
            syscall("prctl", 22, 2, argument, 0, 0)
        if program:
            pid = os.fork()
            if pid == 0:
                try:
                    os.execv(program, [program, "/dev/null"])
                except OSError as refused:
                    os._exit(refused.errno)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            return errno.errorcode[status] if status else "executed"
        with open("/proc/self/status") as file:
            return [line.split()[1] for line in file if line.startswith("Seccomp_filters")][0]

    return inside(act)


def supervised(flag):
    def act():
        argument, _kept = _filter()
        libc.prctl(38, 1, 0, 0, 0)
        return syscall("seccomp", 1, int(flag), argument)

    return inside(act)


def shared_place(flags):
    """A child that shares root and working directory with who does not wait for it."""
    pid = syscall("clone", FS | int(flags) | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return "cloned"


def many(count):
    """How many namespaces can be made before the kernel says no."""
    made, readers = 0, []
    for _ in range(int(count)):
        reader, writer = os.pipe()
        try:
            pid = syscall("clone", NEWUSER | 17, 0, 0, 0, 0)
        except OSError:
            break
        if pid == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        os.close(reader)
        readers.append(writer)
        made += 1
    return made


if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    arguments = [
        int(each, 0) if each.lstrip("-").isdigit() or each.startswith("0x") else each for each in arguments
    ]
    try:
        print(json.dumps(globals()[name](*arguments)))
    except OSError as refused:
        print(json.dumps(errno.errorcode[refused.errno]))
