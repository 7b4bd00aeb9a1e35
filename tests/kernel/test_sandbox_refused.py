"""Where a layer is not to be had, nothing is started: 126, the reason, the way out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.kernel.confined import ORDINARY, PROJECT, SECONDS, Place, as_user, place

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

DOCTOR = """
import sys
sys.path.insert(0, {project!r})
from tests.kernel.confined import _prepare
_prepare({lacking!r})
from mcpwrap.cli.doctor import run
sys.exit(run(["--json"]))
"""


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as found:
        yield found


def test_no_user_namespaces_is_126_with_the_sysctl_that_helps(here: Place) -> None:
    found = here.run("print(1)", before="no user namespaces")
    assert found.out == ""
    assert found.status["failed"]["exit_status"] == 126
    assert "max_user_namespaces" in found.status["failed"]["way_out"]


def test_a_second_supervisor_is_126_and_says_so(here: Place) -> None:
    found = here.run("print(1)", before="a listener")
    assert found.out == ""
    assert found.status["failed"]["exit_status"] == 126
    assert "EBUSY" in found.status["failed"]["what"]


@pytest.mark.parametrize(
    ("lacking", "layer", "tier"),
    [("", "", "B"), ("no user namespaces", "namespaces", "C"), ("a listener", "per call", "B-")],
)
def test_doctor_names_the_missing_layer(lacking: str, layer: str, tier: str) -> None:
    code = DOCTOR.format(project=str(PROJECT), lacking=lacking)
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, timeout=SECONDS, check=False, **as_user()
    )
    report = json.loads(done.stdout)
    assert report["tier"] == tier
    assert done.returncode == (0 if tier else 126), done.stderr
    missing = {each["name"]: each for each in report["protections"] if each["state"] == "unavailable"}
    assert not layer or (missing[layer]["reason"] and missing[layer]["fix"])
    assert bool(missing) is bool(layer)


SETTLE = """
import json, os, sys
sys.path.insert(0, {project!r})
from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox import identity
try:
    identity.settle(os.environ)
except CannotConfine as refused:
    sys.exit(refused.diagnostics())
os.open("/proc/self/mem", os.O_RDONLY)
print(json.dumps([os.getresuid(), os.getresgid(), os.getgroups(), os.environ["HOME"]]))
"""


def test_an_ordinary_user_stays_who_he_is(here: Place) -> None:
    code = SETTLE.format(project=str(PROJECT))
    here.own()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, timeout=SECONDS, check=True, **as_user()
    )
    assert json.loads(done.stdout)[0] == [os.geteuid() or ORDINARY] * 3
