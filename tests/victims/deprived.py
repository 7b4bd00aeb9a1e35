"""Run a command on a machine that lacks something: `python -I deprived.py HOW[,HOW] COMMAND...`.

- `userns`: user.max_user_namespaces=0, in a user namespace of its own (where such a limit can be set)
- `filter`: a seccomp filter refuses new user namespaces, as a distribution's or a container's would
- `docker`: the calls Docker's default filter refuses are refused, and /proc/kcore is masked where that can be done
- `listener`: an outer supervisor of system calls is there already

No namespace of the test is needed for the second, so it runs anywhere an ordinary user does.
"""

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

# What moby's profiles/seccomp/default.json does not allow to a container without added capabilities.
DOCKER = """
_sysctl acct add_key bpf clock_adjtime clock_settime create_module delete_module fanotify_init finit_module
fsconfig fsmount fsopen fspick get_kernel_syms init_module ioperm iopl io_uring_enter io_uring_register
io_uring_setup kcmp kexec_file_load kexec_load keyctl lookup_dcookie mount mount_setattr move_mount move_pages
nfsservctl open_by_handle_at open_tree perf_event_open pidfd_getfd pivot_root process_madvise quotactl
quotactl_fd query_module reboot request_key sethostname setdomainname setns settimeofday swapoff swapon sysfs
syslog umount2 unshare uselib userfaultfd ustat vhangup vserver chroot
""".split()


def load(verdicts):
    process.set_no_new_privs()
    by_number = {NR[name]: verdict for name, verdict in verdicts.items() if name in NR}
    seccomp.load(assemble(AUDIT_ARCH, by_number, ALLOW), listener=False)


def userns():
    uid, gid = os.getuid(), os.getgid()
    process.unshare(process.CLONE_NEWUSER)
    maps = (
        ("self/setgroups", "deny"),
        ("self/uid_map", f"{uid} {uid} 1"),
        ("self/gid_map", f"{gid} {gid} 1"),
    )
    for name, value in (*maps, ("sys/user/max_user_namespaces", "0")):
        with open(f"/proc/{name}", "w") as file:
            file.write(value)


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
        | {"clone": Check(0, (0,), ALLOW, NO, mask=NAMESPACES), "clone3": seccomp.RET_ERRNO | ENOSYS}
    )


def listener():
    process.set_no_new_privs()
    fd = seccomp.load(seccomp.INSTRUCTION.pack(0x06, 0, 0, ALLOW), listener=True)
    os.set_inheritable(fd, True)


HOW = {"userns": userns, "filter": filter_, "docker": docker, "listener": listener}

if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        HOW[name]()
    os.execv(sys.argv[2], sys.argv[2:])
