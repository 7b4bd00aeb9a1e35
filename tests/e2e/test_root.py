"""mcpwrap started by root: nothing of the server's tree is root, and what it makes is root's all the same."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.client import failed, text
from tests.e2e.corpus import WORK, mcpwrap
from tests.e2e.victim import DEPRIVED, Victim, refused

pytestmark = pytest.mark.needs("root", "userns", "landlock", "seccomp")

SETUP = """
chmod 700 data home
mkdir -p home/.ssh data/case
echo KEY-SECRET-B > home/.ssh/id_ed25519
echo roots > data/case/closed
echo KEY=SECRET-B > data/case/.env
echo theirs-SECRET-B > data/case/theirs
chmod 600 home/.ssh/id_ed25519 data/case/closed data/case/theirs data/case/.env
chown 12345:12345 data/case/theirs
"""


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("root", setup=SETUP) as found:
        yield found


def tree(pid: int) -> list[int]:
    """Return `pid` and all its descendants, as this namespace numbers them."""
    found = [pid]
    for each in found:
        for task in Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


def ids(pid: int) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {
        int(word)
        for line in lines
        if line.startswith(("Uid:", "Gid:", "Groups:"))
        for word in line.split()[1:]
    }


def test_no_process_of_the_tree_is_root_nor_anybody(victim: Victim) -> None:
    processes = tree(victim.session.process.pid)
    assert len(processes) >= 4, "relay, stem, pid 1, server"
    (uid,) = set().union(*map(ids, processes))
    assert uid
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    for process in processes:
        status = Path(f"/proc/{process}/status").read_text()
        for name in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert f"{name}:\t{'0' * 16}\n" in status
    assert "nobody has" in victim.session.stderr()


def test_a_granted_file_only_root_may_read_is_read(victim: Victim) -> None:
    path = str(victim.data / "case" / "closed")
    assert "roots" in text(victim.act("reader", "read", {"path": path}, path=path))


def test_a_file_the_server_makes_is_roots(victim: Victim) -> None:
    path = victim.data / "case" / "made"
    answer = victim.act("writer", "write", {"path": str(path)}, path=str(path))
    assert not failed(answer), text(answer)
    assert (path.stat().st_uid, path.stat().st_gid) == (0, 0)


def test_a_granted_file_of_another_user_is_closed(victim: Victim) -> None:
    path = str(victim.data / "case" / "theirs")
    assert refused(victim.act("reader", "read", {"path": path}, path=path))


@pytest.mark.parametrize(
    "path",
    ["{W}/data/case/.env", "{W}/home/.ssh/id_ed25519", "/root/.ssh", "/etc/shadow", "{W}/out/secret.txt"],
)
def test_private_and_ungranted_paths_are_closed(victim: Victim, path: str) -> None:
    path = path.replace("{W}", str(victim.place.work))
    assert refused(victim.act("reader", "read", {"path": path}, path=path))


@pytest.mark.parametrize("path", ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/etc/passwd"])
def test_files_of_the_machine_are_not_written(victim: Victim, path: str) -> None:
    before = Path(path).read_bytes() if os.access(path, os.R_OK) and "sysrq" not in path else b""
    assert refused(victim.act("writer", "write", {"path": path}, path=path))
    assert not before or Path(path).read_bytes() == before


def test_the_audit_lands_in_roots_state_directory(victim: Victim) -> None:
    audits = list((victim.place.work / "state" / "mcpwrap" / "audit").rglob("*.jsonl"))
    assert audits
    assert {(audit.stat().st_uid, audit.stat().st_mode & 0o777) for audit in audits} == {(0, 0o600)}
    assert any(record.get("kind") == "run" for record in victim.place.audit())


IN_A_CONTAINER = [sys.executable, "-I", "-B", str(DEPRIVED), "docker"]
OWNER = 54_321
WITH_A_USER = f'mount --bind "$0/passwd" /etc/passwd && chown {OWNER} "$0/grant.toml" && exec "$@"'
"""The owner of the working directory needs an entry, and the grant; the machine's users are left alone."""


def test_root_in_a_container_runs_as_the_owner_of_its_working_directory_at_tier_c() -> None:
    setup = f"""
    echo root:x:0:0::/root:/bin/sh > passwd; echo tester:x:{OWNER}:{OWNER}::$PWD/home:/bin/sh >> passwd
    mkdir data/case; echo mine > data/case/file; echo KEY=SECRET-B > data/case/.env
    chmod 755 . ; chmod 600 data/case/file data/case/.env; chown -R {OWNER}:{OWNER} data home
    """
    container = ["unshare", "--mount", "sh", "-c", WITH_A_USER, str(WORK / "root-owner"), *IN_A_CONTAINER]
    with Victim("root-owner", setup=setup, launcher=[*container, *mcpwrap()]) as victim:
        assert "held at tier C" in victim.session.stderr()
        processes = tree(victim.session.process.pid)
        assert len(processes) >= 4, "relay, stem, keeper, server"
        assert set().union(*map(ids, processes)) == {OWNER}
        path = str(victim.data / "case" / "file")
        assert "mine" in text(victim.act("reader", "read", {"path": path}, path=path))
        assert refused(victim.act("nothing", "read", path=path))
        env = str(victim.data / "case" / ".env")
        for closed in (env, "/etc/shadow", "/root/.ssh", "/proc/sys/kernel/core_pattern"):
            assert refused(victim.act("writer", "write", {"path": env}, path=closed)), closed
        assert refused(victim.act("writer", "read", {"path": env}, path=env))


def test_root_in_a_container_with_roots_own_working_directory_starts_nothing() -> None:
    with pytest.raises(Exception, match="no server is ever run as root"):
        Victim("root-docker", setup=SETUP, launcher=[*IN_A_CONTAINER, *mcpwrap()])


def test_root_in_a_container_that_may_not_mount_starts_nothing() -> None:
    launcher = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin", *mcpwrap()]
    with pytest.raises(Exception, match="no server is ever run as root"):
        Victim("root-container", setup=SETUP, launcher=launcher)
