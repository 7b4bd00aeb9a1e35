"""Which tier is taken, what is said of it, and what refuses to become weaker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.client import Message, Session, SessionEnded, failed, text
from tests.e2e.corpus import mcpwrap
from tests.e2e.victim import DEPRIVED, SERVER, Victim, refused

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

ALLOWED = ["--allow-degraded", "per-call"]
LINE = {"filter": "held at tier C", "docker": "held at tier C", "listener": "held at tier B-"}


def start(lacking: str, *options: str) -> str:
    """Start a server, ask it something, and return what mcpwrap said of its tier."""
    with Victim(f"tier-{lacking or 'none'}", lacking=lacking, options=options) as victim:
        assert not failed(victim.act("nothing", "identity"))
        records = [each for each in victim.place.audit() if each["kind"] == "protections"]
        said = [line for line in victim.session.stderr().splitlines() if "held at tier" in line]
        assert records[-1]["tier"] in ("B", "C", "B-")
        return said[0] if said else f"held at tier {records[-1]['tier']}"


@pytest.mark.parametrize("lacking", ["filter", "docker", "listener"])
def test_the_best_tier_is_taken_and_said_with_what_is_weaker_and_why(lacking: str) -> None:
    said = start(lacking, *(ALLOWED if lacking == "listener" else ()))
    assert LINE[lacking] in said
    assert "weaker than B:" in said
    assert "because" in said


@pytest.mark.parametrize(
    ("lacking", "required"),
    [("", "B"), ("", "C"), ("", "B-"), ("filter", "C"), ("filter", "B-"), ("listener", "B-")],
)
def test_a_stronger_tier_than_required_is_fine(lacking: str, required: str) -> None:
    start(lacking, "--require", required, *(ALLOWED if lacking == "listener" else ()))


@pytest.mark.parametrize(
    ("lacking", "options", "reason"),
    [
        ("filter", ["--require", "B"], "only tier C is to be had"),
        ("listener", ["--require", "B", *ALLOWED], "only tier B- is to be had"),
        ("listener", ["--require", "C", *ALLOWED], "only tier B- is to be had"),
        ("listener", [], "--allow-degraded per-call"),
        ("filter,listener", ALLOWED, "tier D"),
        ("filter,listener", [], "EBUSY"),
    ],
)
def test_a_weaker_one_is_126_with_reason_and_way_out(lacking: str, options: list[str], reason: str) -> None:
    with pytest.raises(SessionEnded) as ended:
        start(lacking, *options)
    assert reason in str(ended.value)
    command = [sys.executable, "-I", "-B", str(DEPRIVED), lacking, *mcpwrap(), *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, str(SERVER)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 126, done.stderr
    assert done.stderr.count(b"mcpwrap:   ") >= 1, "a way out"


def test_a_sysctl_that_switches_user_namespaces_off_leads_to_tier_c(tmp_path: Path) -> None:
    # In the namespace of this test / belongs to nobody, so it is run without a grant file.
    command = [
        sys.executable,
        "-I",
        "-B",
        str(DEPRIVED),
        "userns",
        *mcpwrap(),
        "--",
        sys.executable,
        str(SERVER),
    ]
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        command, input=b"", cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False
    )
    assert b"held at tier C" in done.stderr
    assert b"no user namespace may be made here" in done.stderr


@pytest.mark.needs("apparmor")
def test_a_profile_of_apparmor_without_namespaces_leads_to_tier_c_and_is_named() -> None:
    said = start("apparmor")
    assert "held at tier C" in said and "AppArmor profile `no-userns`" in said
    command = [sys.executable, "-I", "-B", str(DEPRIVED), "apparmor", *mcpwrap(), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    namespaces = next(each for each in json.loads(done.stdout)["protections"] if each["name"] == "namespaces")
    assert namespaces["state"] == "unavailable" and "`userns,`" in namespaces["fix"]


def test_a_container_as_docker_makes_it_leads_to_tier_c_and_works(tmp_path: Path) -> None:
    # Masked and read-only parts of /proc forbid a fresh procfs, too; without a grant file, as above.
    command = [sys.executable, "-I", "-B", str(DEPRIVED), "masked,docker", *mcpwrap(), "--"]
    with Session(
        [*command, sys.executable, str(SERVER)],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        cwd=tmp_path,
        stderr=tmp_path / "stderr",
    ) as session:
        session.initialize()

        def act(name: str, **acts: object) -> Message:
            return session.call("nothing", {"act": name, "with": acts})

        assert "held at tier C" in session.stderr()
        assert not failed(act("read", path="/proc/self/status"))
        assert not failed(act("read", path="/proc/sys/kernel/osrelease"))
        assert refused(act("read", path="/proc/keys"))
        assert refused(act("read", path=f"/proc/{os.getpid()}/environ"))
        assert text(act("signals_inside", how="kill")) == "ended"


def test_at_tier_b_minus_all_calls_share_all_grants_and_nothing_else() -> None:
    with Victim("tier-b-minus", lacking="listener", options=ALLOWED) as victim:
        directory = victim.case("shared")
        answer = victim.act(
            "reader", "read", {"path": str(directory / "a.txt")}, path=str(directory / "b.txt")
        )
        assert "SECRET-B" in text(answer), "the weakness, shown"
        for act, acts in (
            ("read", {"path": str(victim.place.work / "out" / "secret.txt")}),
            ("read", {"path": str(victim.place.work / "home" / ".ssh" / "id")}),
            ("execute", {"argv": ["/usr/bin/id"]}),
            ("key", {}),
            ("trace_child", {}),
            ("new_user_namespace", {}),
            ("connect_unix", {"path": "/run/docker.sock"}),
            ("connect_tcp", {"host": "192.0.2.1", "port": 80}),
        ):
            assert refused(victim.act("writer", act, **acts)) or failed(victim.act("writer", act, **acts)), (
                act
            )
        assert failed(victim.act("nothing", "make_socket", family=1, kind=1)), "no socket files"
        assert text(victim.act("nothing", "interfaces")) == "lo"


def test_a_grant_that_denies_something_is_not_started_at_tier_b_minus() -> None:
    with pytest.raises(SessionEnded, match="fs_deny"):
        Victim("tier-b-minus-deny", lacking="listener", options=ALLOWED, grant="victim-deny")
