"""Moves this process into namespaces of its own, as the same user; says why where that is refused."""

from __future__ import annotations

import errno
import os

from mcpwrap.errors import Lacking
from mcpwrap.kernel import mounts, network, process

FLAGS = (
    process.CLONE_NEWUSER
    | process.CLONE_NEWNS
    | process.CLONE_NEWNET
    | process.CLONE_NEWPID
    | process.CLONE_NEWIPC
    | process.CLONE_NEWUTS
    | process.CLONE_NEWCGROUP
)

INOTIFY = {"max_inotify_instances": 32, "max_inotify_watches": 65_536}
"""Of the user's 128 instances and some 100,000 watches, which all programs of that user share."""

NESTED = {"max_user_namespaces": 64, "max_pid_namespaces": 256, "max_net_namespaces": 64}
"""Where a server may make namespaces: a browser has a pid namespace for each page, and three of each other kind."""
NAMESPACES = "namespaces"
"""What is lacking where a step is refused; see `errors.Lacking`."""

_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_LABEL = "/proc/self/attr/apparmor/current"
_USERNS = "/proc/sys/user/max_user_namespaces"
_CLONE = "/proc/sys/kernel/unprivileged_userns_clone"


def enter(*, nested: bool = False) -> None:
    """Unshare all namespaces, map this user and group onto themselves, furnish network and mounts.

    `nested`: the server may make some of its own, which are then counted. The identity map keeps what ssh, npm
    and git check of owners true. The next child is pid 1.
    Needs a process with one thread. Raises Lacking, with the reason this machine gives.
    """
    uid, gid = os.getuid(), os.getgid()
    step = "new namespaces"
    try:
        process.unshare(FLAGS)
        step = "the user map of a new user namespace"
        # Before gid_map: the kernel's condition for an unprivileged group map (user_namespaces(7)).
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
        for name, most in (INOTIFY | NESTED if nested else INOTIFY).items():
            _write(f"/proc/sys/user/{name}", str(most))
        step = "the loopback interface of a new network namespace"
        # 127.0.0.1 and ::1 work inside; nothing leads out.
        network.bring_loopback_up()
        step = "private mounts in a new mount namespace"
        mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    except OSError as error:
        raise refused(step, error) from error


def refused(step: str, error: OSError) -> Lacking:
    """Return the error for a refused step, with the reason that is most likely here and the way out."""
    what = f"the kernel refuses {step}: {error.strerror}"
    if _read(_APPARMOR) == "1" and error.errno in (errno.EPERM, errno.EACCES):
        return Lacking(
            NAMESPACES,
            f"{what} (AppArmor restricts unprivileged user namespaces)",
            "an AppArmor profile for mcpwrap with the rule `userns,` lifts it for mcpwrap alone;\n"
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0 lifts it for everybody",
        )
    profile, _, mode = _read(_LABEL).rpartition(" ")
    if mode == "(enforce)" and error.errno in (errno.EPERM, errno.EACCES):
        return Lacking(
            NAMESPACES,
            f"{what} (the AppArmor profile `{profile}`, which mcpwrap was started under, does not allow it)",
            "add the rule `userns,` to that profile, or start mcpwrap outside of it",
        )
    if _read(_CLONE) == "0":
        return Lacking(
            NAMESPACES,
            f"{what} (unprivileged user namespaces are switched off)",
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        )
    if error.errno == errno.ENOSPC or _read(_USERNS) == "0":
        return Lacking(
            NAMESPACES,
            f"{what} (no user namespace may be made here, or no further one)",
            "sudo sysctl user.max_user_namespaces=15000",
        )
    if in_container():
        return Lacking(
            NAMESPACES,
            f"{what} (this is a container, whose seccomp or mount rules forbid it)",
            "run mcpwrap on the host, or the container with\n"
            "docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined",
        )
    if error.errno == errno.EINVAL:
        return Lacking(
            NAMESPACES,
            f"{what} (this process has more than one thread, or the kernel lacks a namespace)",
            "Linux 5.19 or newer with CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_NET_NS, CONFIG_IPC_NS, CONFIG_UTS_NS",
        )
    return Lacking(NAMESPACES, what, "mcpwrap doctor shows what this machine allows")


def in_container() -> bool:
    """Whether this looks like the inside of Docker or Podman."""
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return ""
