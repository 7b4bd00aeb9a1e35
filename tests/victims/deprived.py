"""Run a command on a machine that lacks something: `python -I deprived.py HOW[,HOW] COMMAND...`.

- `userns`: user.max_user_namespaces=0, in a user namespace of its own (where such a limit can be set)
- `filter`: a seccomp filter refuses new user namespaces, as a distribution's or a container's would
- `docker`: what Docker's default filter refuses to a container without added capabilities is refused
- `masked`: parts of /proc and /sys are masked or read-only as Docker has them, in a user and mount namespace of its
  own (only there may an ordinary user mount): / belongs to nobody in it, so no grant file can be used; goes first
- `listener`: an outer supervisor of system calls is there already
- `apparmor`: a profile without the rule `userns,` confines what is run (the guests of `make vmtest` have one)

No namespace of the test is needed for `filter`, `docker` and `listener`, so they run anywhere an ordinary user does.
"""

import ctypes
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcpwrap.kernel import process, seccomp
from mcpwrap.kernel.bpf import Check, assemble
from mcpwrap.kernel.numbers import AUDIT_ARCH, NR

EPERM, ENOSYS = 1, 38
ALLOW = seccomp.RET_ALLOW
NO = seccomp.RET_ERRNO | EPERM
NEW_USER = 0x10000000
NAMESPACES = 0x7E020000

# All calls but those that seccomp/default.json of moby/profiles (commit 02e898b) allows to a container with
# Docker's default capabilities. Which rules hold goes by the container's capabilities, not the process's, and one of
# them is CAP_SYS_CHROOT: chroot passes. The rest of its conditions on arguments: `docker`.
DOCKER = """
_sysctl acct add_key afs_syscall bpf clock_settime create_module delete_module fanotify_init file_getattr
file_setattr finit_module fsconfig fsmount fsopen fspick get_kernel_syms get_mempolicy getpmsg init_module
io_uring_enter io_uring_register io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie
lsm_get_self_attr lsm_list_modules lsm_set_self_attr mbind migrate_pages mount mount_setattr move_mount move_pages
nfsservctl open_by_handle_at open_tree open_tree_attr perf_event_open pidfd_getfd pivot_root process_madvise
putpmsg query_module quotactl quotactl_fd reboot request_key security set_mempolicy set_mempolicy_home_node
setdomainname sethostname setns settimeofday swapoff swapon sysfs syslog tuxcall umount2 unshare uselib
userfaultfd ustat vhangup vserver
""".split()
FAMILIES = (*range(12), *range(13, 19), 21, 22, 24, *range(26, 34), 35, 36, 39, *range(41, 46))
PERSONALITIES = (0, 8, 0x20000, 0x20008, 0xFFFFFFFF)

MASKED = """
/proc/asound /proc/acpi /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/timer_list
/proc/timer_stats /proc/sched_debug /proc/scsi /sys/firmware /sys/devices/virtual/powercap
""".split()
READ_ONLY = "/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger".split()
"""As `docker inspect` shows them: HostConfig.MaskedPaths, ReadonlyPaths."""
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
KEPT = 0x2 | 0x4 | 0x8
"""MS_NOSUID, MS_NODEV, MS_NOEXEC: in a user namespace none of them can be taken off."""


def load(verdicts):
    process.set_no_new_privs()
    by_number = {NR[name]: verdict for name, verdict in verdicts.items() if name in NR}
    seccomp.load(assemble(AUDIT_ARCH, by_number, ALLOW), listener=False)


def as_itself():
    uid, gid = os.getuid(), os.getgid()
    return (
        ("self/setgroups", "deny"),
        ("self/uid_map", f"{uid} {uid} 1"),
        ("self/gid_map", f"{gid} {gid} 1"),
    )


def write(settings):
    for name, value in settings:
        with open(f"/proc/{name}", "w") as file:
            file.write(value)


def userns():
    maps = as_itself()
    process.unshare(process.CLONE_NEWUSER)
    write((*maps, ("sys/user/max_user_namespaces", "0")))


def filter_():
    load(
        {
            "unshare": Check(0, (0,), ALLOW, NO, mask=NEW_USER),
            "clone": Check(0, (0,), ALLOW, NO, mask=NEW_USER),
            "clone3": seccomp.RET_ERRNO | ENOSYS,
        }
    )


def docker():
    load(
        dict.fromkeys(DOCKER, NO)
        | {
            "clone": Check(0, (0,), ALLOW, NO, mask=NAMESPACES),
            "clone3": seccomp.RET_ERRNO | ENOSYS,
            "socket": Check(0, FAMILIES, ALLOW, NO),
            "personality": Check(0, PERSONALITIES, ALLOW, NO),
        }
    )


def masked():
    maps = as_itself()
    process.unshare(process.CLONE_NEWUSER | process.CLONE_NEWNS)
    write(maps)
    mount(None, "/", MS_REC | MS_PRIVATE)
    for path in filter(os.path.exists, MASKED):
        if os.path.isdir(path):
            mount("none", path, MS_RDONLY, "tmpfs")
        else:
            mount("/dev/null", path, MS_BIND)
    for path in filter(os.path.exists, READ_ONLY):
        mount(path, path, MS_BIND | MS_REC)
        mount(None, path, MS_BIND | MS_REMOUNT | MS_RDONLY | KEPT)


def mount(source, target, flags, kind=None):
    encoded = [each and each.encode() for each in (source, target, kind)]
    if ctypes.CDLL(None, use_errno=True).mount(*encoded, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), "mount", target)


def listener():
    process.set_no_new_privs()
    fd = seccomp.load(seccomp.INSTRUCTION.pack(0x06, 0, 0, ALLOW), listener=True)
    os.set_inheritable(fd, True)


def apparmor():
    with open("/proc/self/attr/apparmor/exec", "w") as file:
        file.write("exec no-userns")


HOW = {
    "apparmor": apparmor,
    "userns": userns,
    "filter": filter_,
    "docker": docker,
    "masked": masked,
    "listener": listener,
}

if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        HOW[name]()
    os.execv(sys.argv[2], sys.argv[2:])
