"""Root gives itself up: for the owner of the working directory, or for an id nobody has."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kernel.confined import PROJECT, SECONDS

pytestmark = pytest.mark.needs("root")

SETTLE = """
import json, os, sys
sys.path.insert(0, {project!r})
from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox import identity

def attempt(act):
    try:
        return act()
    except OSError as error:
        return type(error).__name__

try:
    told = identity.settle(os.environ, {needs!r})
except CannotConfine as refused:
    sys.exit(refused.diagnostics())
os.open("/proc/self/mem", os.O_RDONLY)
status = {{name: value.strip() for name, _, value in (line.partition(":") for line in open("/proc/self/status"))}}
from mcpwrap.sandbox import plan  # not loaded before: the code is still readable
print(json.dumps({{
    "uids": os.getresuid(), "gids": os.getresgid(), "groups": os.getgroups(), "home": os.environ["HOME"],
    "passwd_home": identity.passwd_home(), "users": identity.users().decode(), "told": told,
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
    "results": [attempt(act) for act in ({acts})],
}}))
"""
CORE_PATTERN = "lambda: os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)"
NO_MOUNTS = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")
"""Root as Docker makes it: it may change users, and mount nothing."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory of root's that others may pass, with what only root may read in it."""
    with tempfile.TemporaryDirectory(prefix="mcpwrap-root-", dir="/var/tmp") as name:
        found = Path(name)
        found.chmod(0o755)
        for directory in ("home", "work"):
            (found / directory).mkdir(mode=0o700)
            (found / directory / "secret").write_text("roots")
            (found / directory / "secret").chmod(0o600)
        yield found


def settle(
    place: Path,
    *acts: str,
    cwd: str = "work",
    needs: tuple[str, ...] = (),
    by: tuple[str, ...] = (),
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Run `settle` and then `acts` (expressions of callables) in a process of root's."""
    code = SETTLE.format(project=str(PROJECT), needs=needs, acts="".join(f"{act}, " for act in acts))
    return subprocess.run(
        [*by, sys.executable, "-I", "-c", code],
        cwd=place / cwd,
        env={"HOME": str(place / "home"), "PATH": os.environ["PATH"]} | env,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert not done.returncode, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert 0 not in [*result["uids"], *result["gids"], *result["groups"]]
    assert set(result["capabilities"]) == {"0" * 16}
    return result


def test_root_becomes_the_owner_of_the_working_directory(place: Path) -> None:
    user = next((each for each in pwd.getpwall() if 1000 <= each.pw_uid < 60000 and each.pw_gid), None)
    if user is None:
        pytest.skip("no ordinary user on this machine")
    os.chown(place / "work", user.pw_uid, user.pw_gid)
    became = found(settle(place, CORE_PATTERN))
    assert became["uids"] == [user.pw_uid] * 3
    assert became["gids"] == [user.pw_gid] * 3
    assert became["groups"] == []
    assert became["home"] == user.pw_dir
    assert became["users"] == became["told"] == ""
    assert became["results"] == ["PermissionError"]


def test_where_root_is_the_owner_an_id_nobody_has_reads_and_writes_as_roots(place: Path) -> None:
    became = found(
        settle(
            place,
            "lambda: open('secret').read()",
            f"lambda: open('{place}/home/secret').read()",
            "lambda: open('new', 'w').write('x')",
            f"lambda: os.makedirs('{place}/home/.local/state')",
            CORE_PATTERN,
            "lambda: os.open('/etc/shadow', os.O_RDONLY)",
        )
    )
    assert became["results"] == ["roots", "roots", 1, None, "PermissionError", "PermissionError"]
    (uid,) = set(became["uids"]) | set(became["gids"])
    assert 1_879_048_192 <= uid <= 2_147_352_575 or 60_706 <= uid <= 61_183
    with pytest.raises(KeyError):
        pwd.getpwuid(uid)
    for made in (place / "work" / "new", place / "home" / ".local" / "state"):
        assert (made.stat().st_uid, made.stat().st_gid) == (0, 0)
    assert became["home"] == str(place / "home")
    assert became["passwd_home"] == pwd.getpwuid(0).pw_dir
    assert f":{uid}:{uid}:" in became["users"].splitlines()[-1]


def test_no_mount_is_left_on_the_machine(place: Path) -> None:
    before = Path("/proc/self/mountinfo").read_text()
    found(settle(place))
    assert Path("/proc/self/mountinfo").read_text() == before


def test_files_of_others_stay_closed(place: Path) -> None:
    (place / "work" / "other").write_text("theirs")
    (place / "work" / "other").chmod(0o600)
    os.chown(place / "work" / "other", 12345, 12345)
    assert found(settle(place, "lambda: open('other').read()"))["results"] == ["PermissionError"]


def test_what_mcpwrap_needs_is_opened_for_it_wherever_root_keeps_it(place: Path) -> None:
    vault = place / "vault"
    shutil.copytree(PROJECT / "mcpwrap", vault / "code" / "mcpwrap")
    vault.chmod(0o700)
    (place / "grant.toml").write_text("schema = 1\n")
    (place / "grant.toml").chmod(0o600)
    code = SETTLE.format(
        project=str(vault / "code"),
        needs=(str(place / "grant.toml"),),
        acts=f"lambda: open('{place}/grant.toml').read(), lambda: open('{vault}/config/a').read(),",
    )
    (vault / "config").mkdir()
    (vault / "config" / "a").write_text("configured")
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=place / "work",
        env={
            "HOME": str(place / "home"),
            "PATH": os.environ["PATH"],
            "XDG_CONFIG_HOME": str(vault / "config"),
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert found(done)["results"] == ["schema = 1\n", "configured"]


def test_a_working_directory_below_a_closed_one_is_reached(place: Path) -> None:
    (place / "home" / "project").mkdir()
    became = found(
        settle(place, "lambda: open('n', 'w').write('x')", cwd="home/project", HOME=str(place / "work"))
    )
    assert became["results"] == [1]
    assert (place / "home" / "project" / "n").stat().st_uid == 0


def test_a_file_system_without_idmapped_mounts_is_told(place: Path) -> None:
    """The whole of it in a mount namespace of its own: an overlay has none."""
    for name in ("upper", "temporary"):
        (place / name).mkdir(mode=0o700)
    mount = f"lowerdir={place}/work,upperdir={place}/upper,workdir={place}/temporary"
    script = f'mount -t overlay none -o {mount} {place}/work && cd {place}/work && exec "$@"'
    by = ("unshare", "--mount", "sh", "-c", script, "sh")
    closed = settle(place, by=by)
    assert closed.returncode
    assert "the working directory" in closed.stderr
    assert "idmapped mounts" in closed.stderr
    (place / "upper").chmod(0o755)
    (place / "work").chmod(0o755)
    opened = found(settle(place, "lambda: open('secret').read()", by=by))
    assert opened["results"] == ["PermissionError"]
    assert "idmapped mounts" in opened["told"]


def test_root_that_may_not_mount_is_refused_with_a_way_out(place: Path) -> None:
    done = settle(place, by=NO_MOUNTS)
    assert done.returncode
    assert "no server is ever run as root" in done.stderr
    assert "docker run --user" in done.stderr


def test_root_that_may_not_mount_goes_where_everybody_may(place: Path) -> None:
    for directory in ("home", "work"):
        (place / directory).chmod(0o1777)
    first = found(
        settle(place, "lambda: open('new', 'w').write('x')", "lambda: open('secret').read()", by=NO_MOUNTS)
    )
    assert first["results"] == [1, "PermissionError"]
    assert (place / "work" / "new").stat().st_uid == first["uids"][0]
    again = found(settle(place, "lambda: open('new').read()", by=NO_MOUNTS))
    assert again["results"] == ["x"], "the next run is another user"


def test_root_that_may_not_change_users_is_refused(place: Path) -> None:
    done = settle(place, by=("setpriv", "--bounding-set=-setuid", "--inh-caps=-setuid"))
    assert done.returncode
    assert "may not become user id" in done.stderr


def test_a_home_of_somebody_else_is_refused(place: Path) -> None:
    os.chown(place / "home", 12345, 12345)
    done = settle(place)
    assert done.returncode
    assert "HOME" in done.stderr
