"""Acts on the kernel, on sockets and on processes: refused, and the host is unharmed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Late, SessionEnded, failed, text
from tests.e2e.victim import Victim, refused

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

NEVER_BY_ANYONE = (
    "acct add_key bpf clock_settime delete_module fanotify_init fsopen init_module io_uring_setup kcmp "
    "kexec_load keyctl mount mount_setattr move_mount name_to_handle_at open_by_handle_at open_tree openat2 "
    "perf_event_open pidfd_getfd pivot_root process_vm_readv process_vm_writev ptrace quotactl reboot "
    "request_key sethostname setns setxattrat swapon syslog umount2 userfaultfd vhangup clone3 chroot fchmodat2"
).split()
# (act, its arguments, whether an ordinary user's bare process succeeds)
KERNEL_ACTS = [
    ("io_uring", {}, True),
    ("key", {}, True),
    ("new_user_namespace", {}, True),
    ("clone_user_namespace", {}, True),
    ("trace_child", {}, True),
    ("read_own_memory_from_outside", {}, True),
    ("steal_fd", {}, True),
    ("user_fault", {}, True),
    ("push_input", {}, False),
    ("push_input", {"high_bits": True}, False),
    ("console_input", {}, False),
    ("x32_getpid", {}, False),
    ("gain_privileges", {}, False),
    ("read_parent_memory", {}, False),
]
SOCKETS = [
    ("packet", socket.AF_PACKET, socket.SOCK_RAW, 0),
    ("raw", socket.AF_INET, socket.SOCK_RAW, 1),
    ("icmp", socket.AF_INET, socket.SOCK_DGRAM, 1),
    ("vsock", 40, socket.SOCK_STREAM, 0),
    ("crypto", 38, socket.SOCK_SEQPACKET, 0),
    ("netlink of devices", socket.AF_NETLINK, socket.SOCK_RAW, 15),
    ("netlink of the audit", socket.AF_NETLINK, socket.SOCK_RAW, 9),
    ("netlink of the packet filter", socket.AF_NETLINK, socket.SOCK_RAW, 12),
    ("local datagrams", socket.AF_UNIX, socket.SOCK_DGRAM, 0),
    ("bluetooth", 31, socket.SOCK_RAW, 1),
]
UNSEEN = [
    "/proc/1/environ",
    "/proc/1/mem",
    "/proc/1/root/etc/hostname",
    "/proc/1/cwd",
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/keys",
    "/proc/sysrq-trigger",
    "/sys/kernel/security",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/fuse",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/root",
]


@pytest.fixture(scope="module", params=["", "filter", "docker"], ids=["B", "C", "C in a container"])
def shared(request: pytest.FixtureRequest) -> Iterator[Victim]:
    with Victim("system", lacking=request.param) as victim:
        yield victim


@pytest.fixture
def victim(shared: Victim) -> Victim:
    shared.restart_if_dead()
    return shared


@pytest.fixture(scope="module")
def bare() -> Iterator[Victim]:
    with Victim("system-bare", "bare") as victim:
        yield victim


# System calls


@pytest.mark.parametrize("name", NEVER_BY_ANYONE)
def test_a_system_call_no_server_needs_is_refused(name: str, victim: Victim) -> None:
    answer = victim.act("nothing", "call", name=name, arguments=[0] * 6)
    assert text(answer).startswith(("EPERM", "ENOSYS", "EACCES")), answer


@pytest.mark.parametrize(("act", "acts", "works_bare"), KERNEL_ACTS, ids=lambda value: str(value))
def test_a_way_into_the_kernel_is_closed(
    act: str, acts: dict[str, object], works_bare: bool, victim: Victim, bare: Victim
) -> None:
    if works_bare:
        assert not failed(bare.act("nothing", act, **acts)), "the bare run proves nothing"
    answer = victim.act("nothing", act, **acts)
    refusals = ("EPERM", "ENOSYS", "EACCES", "ESRCH")
    # setuid(0): no such user in the namespace.
    assert text(answer).startswith((*refusals, "EINVAL") if act == "gain_privileges" else refusals), answer


@pytest.mark.parametrize(
    ("family", "kind", "protocol"), [row[1:] for row in SOCKETS], ids=[row[0] for row in SOCKETS]
)
def test_a_socket_that_leaves_the_sandbox_is_not_made(
    family: int, kind: int, protocol: int, victim: Victim
) -> None:
    answer = victim.act("nothing", "make_socket", family=int(family), kind=int(kind), protocol=protocol)
    assert failed(answer), answer
    assert "FAULT" not in text(answer)


def test_the_process_holds_no_capability_and_may_gain_none(victim: Victim) -> None:
    fields = dict(part.split("=") for part in text(victim.act("nothing", "identity")).split())
    # Only who is root in a user namespace may empty the bounding set; it is void with no_new_privs.
    bounding = () if victim.lacking else ("CapBnd",)
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapAmb", *bounding)} == {0}
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"
    assert int(fields["uid"]) == os.getuid()


# Sockets of the host


@pytest.fixture
def listeners(victim: Victim) -> Iterator[tuple[Victim, dict[str, socket.socket]]]:
    """Sockets of the host that answer `SECRET-B`: TCP, UDP, abstract, and a path inside a granted directory."""
    directory = victim.case(f"sockets-{threading.get_native_id()}-{len(list(victim.data.iterdir()))}")
    made = {
        "tcp": socket.create_server(("127.0.0.1", 0)),
        "udp": socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "path": socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "abstract": socket.socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "datagrams": socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM),
    }
    made["udp"].bind(("127.0.0.1", 0))
    # A path socket's name has at most 107 bytes; the work directory's may be longer.
    here = os.getcwd()
    os.chdir(directory / "r")
    made["path"].bind("s")
    made["datagrams"].bind("d")
    os.chdir(here)
    made["abstract"].bind(f"\0mcpwrap-test-{os.getpid()}")
    for name in ("path", "abstract"):
        made[name].listen()
    for listener in made.values():
        listener.settimeout(0.2)
    victim.data = directory.parent
    yield victim, made
    for listener in made.values():
        listener.close()


def untouched(listener: socket.socket) -> bool:
    """Tell whether nothing arrived at a listener."""
    with contextlib.suppress(TimeoutError):
        if listener.type == socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(16)
        return False
    return True


def test_no_socket_of_the_host_is_reached(listeners: tuple[Victim, dict[str, socket.socket]]) -> None:
    victim, made = listeners
    directory = next(path for path in victim.data.glob("sockets-*") if (path / "r" / "s").exists()) / "r"
    granted = {"path": str(directory)}
    host, port = made["tcp"].getsockname()
    tries = {
        "tcp": victim.act("nothing", "connect_tcp", host=host, port=port),
        "udp": victim.act("nothing", "send_udp", host=host, port=made["udp"].getsockname()[1]),
        "abstract": victim.act("nothing", "connect_abstract", name=f"mcpwrap-test-{os.getpid()}"),
        "path": victim.act("writer", "connect_unix_relative", granted, directory=str(directory), name="s"),
        "datagrams": victim.act("writer", "send_unix_datagram_from_pair", granted, path=str(directory / "d")),
    }
    for name, answer in tries.items():
        assert name == "udp" or failed(answer), (name, answer)
        assert untouched(made[name]), f"{name} was reached: {answer}"


def test_no_datagram_leaves_by_sendmsg(listeners: tuple[Victim, dict[str, socket.socket]]) -> None:
    victim, made = listeners
    victim.act("nothing", "send_udp_by_sendmsg", host="127.0.0.1", port=made["udp"].getsockname()[1])
    assert untouched(made["udp"])


def test_both_ends_inside_the_sandbox_talk(victim: Victim) -> None:
    if victim.lacking:
        pytest.skip("tests/e2e/test_tier_c.py shows it")
    assert text(victim.act("nothing", "talk_inside")) == "tcpunix"
    assert text(victim.act("nothing", "interfaces")) == "lo"


# Programs


def test_only_a_granted_program_is_executed(victim: Victim) -> None:
    directory = victim.case("programs")
    path = str(directory / "a.txt")
    bound = {"path": path}
    assert text(victim.act("runner", "execute", bound, argv=["cat", path])) == "mine\n"
    assert failed(victim.act("runner", "execute", bound, argv=["/usr/bin/id"]))
    assert failed(victim.act("nothing", "execute", argv=["cat", "/etc/hostname"]))
    assert failed(victim.act("runner", "execveat_empty", bound, program="/usr/bin/id"))


@pytest.mark.parametrize("place", ["/tmp/evil", "/dev/shm/evil", "{D}/r/evil", "{H}/evil"])
@pytest.mark.parametrize("act", ["execute_copy", "execute_by_loader", "execute_script", "execute_memory"])
def test_nothing_the_server_can_write_is_executed(act: str, place: str, victim: Victim, bare: Victim) -> None:
    for one in (bare, victim):
        directory = one.case(f"writable-{act}-{place.replace('/', '_')}-{victim.lacking}")
        bound = {"path": str(directory / "r")}
        where = place.replace("{D}", str(directory)).replace("{H}", one.place.env["HOME"])
        if one is bare:
            where = where.replace("/evil", f"/mcpwrap-evil-{os.getpid()}")
        cat = shutil.which("cat")
        acts = {
            "execute_copy": {"program": cat, "place": where},
            "execute_by_loader": {"program": cat, "place": where},
            "execute_script": {"interpreter": cat, "place": where},
            "execute_memory": {"program": cat},
        }[act]
        answer = one.act("runner", act, bound, **acts)
        assert "FAULT" not in text(answer), answer
        assert failed(answer) == (one is victim), answer
        if one is bare and act != "execute_memory":
            os.unlink(where)


def test_a_detached_process_is_held_and_attributed(victim: Victim) -> None:
    directory = victim.case("detached")
    path = str(directory / "a.txt")
    result = f"{victim.temporary}/result-1"
    answer = victim.act(
        "reader", "detach_and_read", {"path": path}, path=str(directory / "b.txt"), result=result
    )
    assert text(answer).startswith(f"errno {errno.EACCES}"), answer
    assert "b.txt" in json.dumps(answer["result"].get("_meta", {})), "attributed to the call it began in"
    answer = victim.act("runner", "detach_and_execute", {"path": path}, argv=["/usr/bin/id"])
    assert text(answer).startswith(f"errno {errno.EACCES}"), answer


def test_a_process_left_behind_has_no_grant_once_its_call_is_over(victim: Victim) -> None:
    path = str(victim.case("left-behind") / "b.txt")
    bound, result = {"path": path}, f"{victim.temporary}/late"
    assert text(victim.act("reader", "detach_later", bound, path=path, result=result, delay=0.3)) == "left"
    answer = victim.act("nothing", "await_file", path=result, seconds=5)
    assert text(answer).startswith(f"errno {errno.EACCES}"), answer


@pytest.mark.parametrize("path", UNSEEN)
def test_what_belongs_to_the_machine_is_not_seen(path: str, victim: Victim) -> None:
    assert refused(victim.act("nothing", "read", path=path)), path


@pytest.mark.parametrize(
    "path", ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger"]
)
def test_the_kernels_settings_are_not_written(path: str, victim: Victim) -> None:
    assert refused(victim.act("nothing", "write", path=path))


def test_only_processes_of_the_tree_are_seen_and_signalled(victim: Victim) -> None:
    if victim.lacking:
        pytest.skip("tests/e2e/test_tier_c.py shows it")
    seen = [int(pid) for pid in text(victim.act("nothing", "processes")).split(",")]
    assert len(seen) <= 4, seen
    for pid in (victim.session.process.pid, os.getpid()):
        if pid not in seen:
            assert text(victim.act("nothing", "kill", pid=pid, number=0)).startswith("ESRCH")
    victim.act("nothing", "kill", pid=1, number=9)
    assert not failed(victim.act("nothing", "identity")), "pid 1 survived"


def test_the_servers_own_code_and_interpreter_are_not_written(victim: Victim) -> None:
    for place in text(victim.act("nothing", "installation")).splitlines():
        inside = place + "/sitecustomize.py" if Path(place).is_dir() else place
        assert refused(victim.act("writer", "append", {"path": inside}, path=inside)), inside


# More than one's share


def test_a_fork_bomb_is_bounded_and_the_server_lives_on() -> None:
    with Victim("fork-bomb") as victim:
        said = text(victim.act("nothing", "bomb_forks", limit=2000))
        assert int(said.split()[0]) <= 512, said
        assert said.endswith(f"errno {errno.EAGAIN}"), said
        assert not failed(victim.act("nothing", "identity"))


def test_a_descriptor_bomb_is_bounded_and_the_server_lives_on(victim: Victim) -> None:
    said = text(victim.act("nothing", "bomb_fds", limit=100_000))
    assert int(said.split()[0]) <= 4096, said
    assert failed(victim.act("nothing", "raise_limits"))
    assert not failed(victim.act("nothing", "identity"))


def test_a_memory_bomb_is_bounded_and_explained() -> None:
    limit = 256 << 20
    with Victim("memory-bomb", options=["--limit-memory", str(limit)]) as victim:
        try:
            answer = victim.act("nothing", "bomb_memory", size=2 << 30)
        except (SessionEnded, Late):
            victim.session.wait(10)
            assert "memory" in victim.session.stderr(), victim.session.stderr()
        else:
            assert int(text(answer).split()[0]) <= limit, answer


def test_a_line_without_an_end_is_bounded_and_named() -> None:
    with Victim("endless-line", options=["--max-line", str(1 << 20)]) as victim:
        with pytest.raises(SessionEnded):
            victim.act("nothing", "endless_line", size=64 << 20)
        assert victim.session.wait(10) not in (None, 0)
        assert "line" in victim.session.stderr(), victim.session.stderr()


def test_a_flood_on_stderr_delays_nobody(victim: Victim) -> None:
    assert text(victim.act("nothing", "flood_stderr", size=8 << 20)) == "written"
