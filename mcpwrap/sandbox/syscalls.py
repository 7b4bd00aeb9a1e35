"""The reviewed list of system calls: what a server may call, and why the rest is refused.

An allow list: a call that is not named gets ENOSYS, what a kernel older than it would answer, and
so does every call that is newer than `REVIEWED`. Names a machine does not have are skipped there.
"""

from __future__ import annotations

from typing import NamedTuple

from mcpwrap.kernel.bpf import Verdict
from mcpwrap.sandbox import arguments
from mcpwrap.sandbox.arguments import ABSENT, ALLOW, NOT_PERMITTED, NOT_SUPPORTED, TRAP

REVIEWED = "Linux 6.18"
"""The kernel whose table of calls, to its last one (file_setattr, 469), was gone through."""


class Group(NamedTuple):
    """Calls with one verdict for one reason."""

    name: str
    reason: str
    verdict: Verdict
    calls: str


GROUPS: tuple[Group, ...] = (
    # Brokered
    Group(
        "open", "a file is opened by the broker, which decides on the real path", TRAP, "open openat creat"
    ),
    Group(
        "mutate by path",
        "names, modes, owners, times and attributes are changed by the broker, which decides on the real path",
        TRAP,
        "truncate rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat mkdir mkdirat rmdir mknod "
        "mknodat chmod fchmodat chown lchown fchownat utime utimes futimesat utimensat setxattr lsetxattr removexattr "
        "lremovexattr",
    ),
    Group(
        "mutate by descriptor",
        "these ask for no writable descriptor: one opened for reading would do",
        TRAP,
        "fchmod fchown fsetxattr fremovexattr",
    ),
    Group("exec", "the exec gate", TRAP, "execve execveat"),
    Group(
        "after exec",
        "each libc makes one of these once, first thing: there the broker sees what the kernel really started",
        TRAP,
        "set_tid_address",
    ),
    Group(
        "thread pointer",
        "as `after exec`; of the other uses those that a program needs",
        arguments.THREAD_POINTER,
        "arch_prctl",
    ),
    Group("addresses", "a socket file is a file, and a bind makes one", TRAP, "connect bind"),
    Group(
        "send to an address",
        "a send that names its receiver connects; a pointer has two halves",
        arguments.SEND_TO,
        "sendto",
    ),
    # By argument
    Group(
        "sockets",
        "no datagrams of AF_UNIX: `sendmsg` takes their receiver's path and is not trapped (SOCK_RAW is one too); "
        "nothing below TCP and UDP; of netlink only the routing that name lookup and interface lists read",
        arguments.SOCKET,
        "socket",
    ),
    Group("socket pairs", "as `sockets`: an end can be sent from", arguments.SOCKET_PAIR, "socketpair"),
    Group(
        "clone",
        "no new namespaces, where a process has all capabilities; no children in the parent's name: that is the stem",
        arguments.CLONE,
        "clone",
    ),
    Group(
        "memory files",
        "a file that can be run must have a path; as with vm.memfd_noexec=2, EACCES unless sealed against exec",
        arguments.MEMORY_FILE,
        "memfd_create",
    ),
    Group(
        "ioctl",
        "an allow list, ENOTTY as from a device that does not know: no typing into a terminal, no file flags, no "
        "subvolumes made by way of a directory that is open for reading",
        arguments.IOCTL,
        "ioctl",
    ),
    Group(
        "prctl",
        "an allow list, EINVAL as from an older kernel. PR_SET_DUMPABLE (4) is only answered: the broker could not "
        "read the process any more, and nothing here may trace it or take its core. PR_SET_SECCOMP: see `own filters`",
        arguments.PRCTL,
        "prctl",
    ),
    Group(
        "fcntl",
        "an allow list; a lease or delegation makes every other opener of the file, the broker too, wait 45 s",
        arguments.FCNTL,
        "fcntl",
    ),
    Group(
        "asking to execute",
        "git asks so of its hooks and passes over those it may not run: that is a refusal somebody should know of",
        arguments.MAY_EXECUTE,
        "access",
    ),
    Group("asking to execute at", "as `asking to execute`", arguments.MAY_EXECUTE_AT, "faccessat faccessat2"),
    Group("personality", "the default, and asking", arguments.PERSONALITY, "personality"),
    Group("limits of another", "its own only: init is of the same user", arguments.OWN_LIMITS, "prlimit64"),
    Group(
        "attributes by path",
        "a value may hold what content holds (a download's address); as on a file system without any. By a descriptor "
        "that was given out they are read, and by path they are set",
        NOT_SUPPORTED,
        "getxattr lgetxattr listxattr llistxattr",
    ),
    # Allowed
    Group(
        "memory",
        "its own address space",
        ALLOW,
        "brk mmap munmap mprotect mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall membarrier "
        "pkey_alloc pkey_free pkey_mprotect mseal",
    ),
    Group(
        "descriptors",
        "what is done with a descriptor that was given out: the decision was made when it was opened",
        ALLOW,
        "read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range dup dup2 "
        "dup3 flock fsync fdatasync sync syncfs sync_file_range ftruncate fallocate fadvise64 readahead getdents "
        "getdents64 sendfile splice tee vmsplice copy_file_range pipe pipe2 fstat fstatfs fgetxattr flistxattr umask",
    ),
    Group(
        "looking",
        "what is there, of what kind and with what attributes: covered by mounts; no content is read by these",
        ALLOW,
        "stat lstat newfstatat statx statfs readlink readlinkat getcwd chdir fchdir "
        "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
    ),
    Group(
        "waiting",
        "readiness, timers, clocks that are read",
        ALLOW,
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd "
        "eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime nanosleep clock_nanosleep "
        "clock_gettime clock_getres gettimeofday time getitimer setitimer alarm pause timer_create timer_settime "
        "timer_gettime timer_getoverrun timer_delete times",
    ),
    Group(
        "processes",
        "its own tree, in its own pid namespace",
        ALLOW,
        "fork vfork exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid getsid setsid kill "
        "tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open pidfd_send_signal getpriority setpriority "
        "ioprio_get ioprio_set sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam "
        "sched_getscheduler sched_setscheduler sched_get_priority_max sched_get_priority_min sched_rr_get_interval "
        "sched_getattr sched_setattr getcpu getrusage getrlimit setrlimit uname sysinfo getrandom",
    ),
    Group(
        "threads and signals",
        "its own",
        ALLOW,
        "futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list rseq restart_syscall rt_sigaction "
        "rt_sigprocmask rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigsuspend sigaltstack",
    ),
    Group(
        "identity",
        "one user and group are mapped and no capability is held: there is nothing to change to",
        ALLOW,
        "getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid "
        "setresgid setfsuid setfsgid setgroups capget capset",
    ),
    Group(
        "connected sockets",
        "those that `sockets` let be made; a stream ignores an address in sendmsg",
        ALLOW,
        "listen accept accept4 getsockname getpeername getsockopt setsockopt shutdown sendmsg sendmmsg recvfrom "
        "recvmsg recvmmsg",
    ),
    Group(
        "System V semaphores, queues; POSIX queues",
        "in its own IPC namespace",
        ALLOW,
        "semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive "
        "mq_notify mq_getsetattr",
    ),
    # Refused by name
    Group(
        "other processes",
        "read, written, traced or robbed of descriptors past the broker",
        NOT_PERMITTED,
        "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp",
    ),
    Group(
        "the kernel",
        "code in the kernel, its events, and faults that let a race be won at leisure",
        NOT_PERMITTED,
        "bpf perf_event_open userfaultfd init_module finit_module delete_module create_module kexec_load "
        "kexec_file_load syslog",
    ),
    Group(
        "keys", "keyrings are the user's, not the namespace's", NOT_PERMITTED, "keyctl add_key request_key"
    ),
    Group(
        "mounts and namespaces",
        "the view of files was made once",
        NOT_PERMITTED,
        "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick "
        "mount_setattr setns unshare",
    ),
    Group(
        "the machine",
        "clock, name, swap, power, ports, quotas, accounting",
        NOT_PERMITTED,
        "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname swapon swapoff reboot iopl "
        "ioperm acct quotactl quotactl_fd vhangup",
    ),
    Group(
        "files without a path",
        "opened by handle, or watched for a whole file system",
        NOT_PERMITTED,
        "open_by_handle_at name_to_handle_at fanotify_init fanotify_mark",
    ),
    Group(
        "calls with a fallback",
        "io_uring makes calls no filter sees; clone3 and openat2 hide their flags behind a pointer",
        ABSENT,
        "io_uring_setup io_uring_enter io_uring_register clone3 openat2",
    ),
    Group(
        "own filters",
        "a server's own filter would answer before the broker, after an exec too; its own Landlock rules would not "
        "hold what the broker opens for it",
        ABSENT,
        "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
    ),
    Group(
        "newer forms of brokered calls",
        "their callers fall back to those that are brokered",
        ABSENT,
        "fchmodat2 setxattrat removexattrat getxattrat listxattrat file_getattr file_setattr",
    ),
    Group(
        "memory nobody counts",
        "segments that stay when all their processes have gone",
        ABSENT,
        "shmget shmat shmctl shmdt memfd_secret",
    ),
    Group(
        "old asynchronous I/O",
        "hardly used, and large",
        ABSENT,
        "io_setup io_submit io_cancel io_getevents io_pgetevents io_destroy",
    ),
)
