"""A hostile server without namespaces: around the broker by what the kernel does of itself, and past its end."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import failed, text
from tests.e2e.test_tier_c import OLD
from tests.e2e.victim import Victim, refused
from tests.victims.acts_host import OPTIONS

pytestmark = pytest.mark.needs("user", "landlock", "seccomp")

END_SECONDS = 8
"""More than stem and keeper give themselves."""


@pytest.fixture(scope="module", params=["filter", "docker"])
def shared(request: pytest.FixtureRequest) -> Iterator[Victim]:
    with Victim(f"attacks-c-{request.param}", lacking=request.param, grant="victim-host") as victim:
        yield victim


@pytest.fixture
def victim(shared: Victim) -> Victim:
    shared.restart_if_dead()
    return shared


@pytest.fixture(scope="module")
def bare() -> Iterator[Victim]:
    with Victim("attacks-c-bare", "bare") as victim:
        yield victim


def test_a_name_that_a_connection_left_behind_opens_no_port(victim: Victim, bare: Victim) -> None:
    # The name service is what a server with any rule of hosts may always connect to.
    answer = victim.act("other", "listen_after_giving_up", port=53)
    assert refused(answer), answer
    # Where the broker keeps the sockets it is not connected a second time, and never comes so far.
    assert "refused by mcpwrap" in text(answer) or victim.lacking == "docker"
    with socket.create_server(("127.0.0.1", 0)) as anybody:
        port = anybody.getsockname()[1]
        assert not failed(bare.act("nothing", "listen_after_giving_up", port=port))


def test_a_name_of_the_kernels_is_not_listened_at(victim: Victim, bare: Victim) -> None:
    answer = victim.act("nothing", "listen_by_a_name_of_the_kernels")
    assert refused(answer), answer
    assert text(bare.act("nothing", "listen_by_a_name_of_the_kernels")).startswith("@")


def test_a_look_whether_there_is_ipv6_is_no_news(victim: Victim) -> None:
    answer = victim.act("nothing", "bind_port", port=0)
    assert text(answer).startswith("EADDRNOTAVAIL") and "refused by mcpwrap" not in text(answer)
    assert "refused by mcpwrap" in text(victim.act("nothing", "bind_port", port=8123))


@pytest.mark.parametrize("name", OPTIONS)
def test_no_option_leads_a_connection_elsewhere_or_lets_it_carry_more(name: str, victim: Victim) -> None:
    answer = victim.act("nothing", "set_option", name=name)
    assert text(answer).startswith(("EPERM", "ENOPROTOOPT")), answer


@pytest.mark.parametrize("old", [False, True], ids=["Landlock holds signals", "the broker does"])
@pytest.mark.parametrize("ended", ["relay", "server", "stem", "keeper"])
def test_a_process_that_is_always_another_one_ends_too(ended: str, old: bool) -> None:
    with Victim("attacks-c-chain", lacking="filter", launcher=OLD if old else None) as victim:
        server = int(text(victim.act("nothing", "own_number")))
        keeper, stem, relay = _ancestors(server)
        lock = Path(text(victim.act("nothing", "fork_on_and_on")))
        assert not _freed(lock, 0)
        ends = [os.pidfd_open(pid) for pid in (keeper, stem)]
        os.kill({"relay": relay, "server": server, "stem": stem, "keeper": keeper}[ended], signal.SIGKILL)
        assert _freed(lock, END_SECONDS)
        for end in ends:
            assert select.select([end], [], [], END_SECONDS)[0]
            os.close(end)


def _freed(path: Path, seconds: int) -> bool:
    """Whether no process holds the lock of a file any more, before so long."""
    return not subprocess.run(["flock", "--wait", str(seconds), path, "true"], check=False).returncode


def _ancestors(pid: int) -> list[int]:
    found = []
    for _ in range(3):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found
