"""The broker's tables: every trapped call has one handler, and the pure decisions are exact."""

from __future__ import annotations

import errno
import struct
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.broker import calls, procfs, unix
from mcpwrap.broker.address import internet
from mcpwrap.broker.foreign import PROCESSES
from mcpwrap.broker.request import as_int
from mcpwrap.broker.verdict import decode, encode, refused_with
from mcpwrap.kernel.numbers import NR
from mcpwrap.operation import Decision, Event, Need, Operation, endpoint
from mcpwrap.sandbox import bare_calls, seccomp


class Numbers(NamedTuple):
    bare: bool
    others: tuple[str, ...]

    def in_tree(self, number: str) -> bool:
        return number not in self.others


def test_every_trapped_call_has_exactly_one_handler() -> None:
    tables = [set(calls.OPENS), set(calls.VALUES), set(calls.SOCKETS), set(calls.EXECS), set(calls.DIRECT)]
    tables += [set(PROCESSES), set(calls.ASKS)]
    handled = set().union(*tables)
    assert sum(map(len, tables)) == len(handled)
    overlays = [bare_calls.groups(scoped=one, copies=two) for one in (True, False) for two in (True, False)]
    names = frozenset().union(seccomp.trapped(), *map(seccomp.trapped, overlays))
    assert handled == {NR[name] for name in names if name in NR}


@pytest.mark.parametrize(
    ("path", "need", "allowed"),
    [
        ("/proc", Need.READ, True),
        ("/proc/7/status", Need.READ, True),
        ("/proc/7/comm", Need.WRITE, True),
        ("/proc/8/comm", Need.WRITE, False),
        ("/proc/7/oom_score_adj", Need.WRITE, False),
        ("/proc/7/uid_map", Need.WRITE, False),
        ("/proc/1/environ", Need.READ, False),
        ("/proc/1/maps", Need.READ, False),
        ("/proc/7/mem", Need.READ, False),
        ("/proc/7/mem", Need.WRITE, False),
        ("/proc/7/task/9/mem", Need.READ, False),
        ("/proc/8/root/etc/passwd", Need.READ, False),
        ("/proc/8/cwd", Need.READ, False),
        ("/proc/meminfo", Need.READ, True),
        ("/proc/meminfo", Need.WRITE, False),
        ("/proc/kcore", Need.READ, False),
        ("/proc/kallsyms", Need.READ, False),
        ("/proc/sysrq-trigger", Need.WRITE, False),
        ("/proc/sys/kernel/osrelease", Need.READ, True),
        ("/proc/sys/kernel/core_pattern", Need.WRITE, False),
    ],
)
def test_proc_is_open_to_the_tree_itself_and_a_few_machine_facts(
    path: str, need: Need, allowed: bool
) -> None:
    assert procfs.decide(path, need, "7", Numbers(bare=False, others=("1",))).allowed is allowed


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/proc", False),
        ("/proc/7/status", True),
        ("/proc/9/status", False),
        ("/proc/7/net/tcp", False),
        ("/proc/meminfo", True),
    ],
)
def test_the_hosts_proc_is_open_to_the_tree_itself_alone(path: str, allowed: bool) -> None:
    assert procfs.decide(path, Need.READ, "7", Numbers(bare=True, others=("9",))).allowed is allowed


@given(st.text(max_size=50), st.text(max_size=50), st.booleans(), st.lists(st.text(max_size=5), max_size=4))
def test_an_event_survives_the_pipe(path: str, written: str, allowed: bool, windows: list[str]) -> None:
    event = Event(
        Operation("read", Need.READ, path, written),
        Decision(allowed, "rule", quiet=allowed),
        tuple(windows),
        13,
        7,
    )
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == event


def test_a_path_that_is_no_text_survives_the_pipe() -> None:
    event = Event(Operation("read", Need.READ, "/\udcff\udc80", ""), Decision(False, "no-grant"))
    assert decode(encode(event)) == event


@pytest.mark.parametrize(
    ("value", "number"),
    [(0xFFFFFF9C, -100), (0xFFFFFFFFFFFFFF9C, -100), (5, 5), (1 << 32, 0), (0x7FFFFFFF, 2**31 - 1)],
)
def test_an_int_argument_is_what_the_kernel_takes_it_for(value: int, number: int) -> None:
    assert as_int(value) == number


INET, INET6 = 2, 10


def _v4(host: str, port: int = 80) -> bytes:
    return struct.pack("=H", INET) + struct.pack(">H", port) + bytes(map(int, host.split("."))) + bytes(8)


def _v6(host: bytes, port: int = 80) -> bytes:
    return struct.pack("=H", INET6) + struct.pack(">H", port) + bytes(4) + host + bytes(4)


@pytest.mark.parametrize(
    ("raw", "family", "inside", "text"),
    [
        (_v4("127.0.0.1"), INET, True, "127.0.0.1:80"),
        (_v4("127.255.1.2", 8199), INET, True, "127.255.1.2:8199"),
        (_v4("0.0.0.0"), INET, True, "127.0.0.1:80"),
        (_v4("128.0.0.1"), INET, False, "128.0.0.1:80"),
        (_v4("169.254.169.254"), INET, False, "169.254.169.254:80"),
        (_v6(bytes(15) + b"\1"), INET6, True, "[::1]:80"),
        (_v6(bytes(10) + b"\xff\xff\x0a\x00\x00\x01"), INET6, False, "10.0.0.1:80"),
        (_v6(b"\xfe\x80" + bytes(14)), INET6, False, "[fe80::]:80"),
    ],
)
def test_only_loopback_is_inside(raw: bytes, family: int, inside: bool, text: str) -> None:
    found = internet(raw, family)
    assert found.loopback is inside
    assert endpoint(found.text, found.port) == text
    if not found.unspecified and family == found.family:
        assert found.packed(family) == raw


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"\1\0/tmp/s\0junk", b"/tmp/s"),
        (b"\1\0", None),
        (b"\1\0\0abstract", None),
        (_v4("127.0.0.1"), None),
    ],
)
def test_a_path_socket_is_told_from_an_abstract_one(raw: bytes, path: bytes | None) -> None:
    assert unix.path_of(raw) == path


def test_a_program_that_is_refused_quietly_is_absent_and_anything_else_forbidden() -> None:
    quiet = Decision(False, "quiet.exec[0]", quiet=True)
    assert refused_with(quiet, Need.EXEC, errno.EACCES) == errno.ENOENT
    assert refused_with(quiet, Need.READ, errno.EACCES) == errno.EACCES
    assert refused_with(quiet._replace(quiet=False), Need.EXEC, errno.EACCES) == errno.EACCES
