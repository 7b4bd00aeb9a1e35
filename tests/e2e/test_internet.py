"""The private internet of the tests is what it claims: without that, nothing tested in it says anything."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.internet import METADATA, PRIVATE, PUBLIC, PUBLIC_6, Internet

pytestmark = [pytest.mark.needs("userns", "openssl")]

FETCH = """
import sys, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=20).read().decode())
except OSError as problem:
    print(problem)
"""


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    names = {"api.example.com": [PUBLIC, PUBLIC_6], "db.corp.example": [PRIVATE]}
    with Internet(names) as made:
        yield made


def inside(internet: Internet, *command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        internet.command(*command), env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return (done.stdout + done.stderr).strip()


def fetch(internet: Internet, url: str) -> str:
    return inside(internet, sys.executable, "-c", FETCH, url, env=internet.environ)


def test_a_name_leads_to_a_server_of_the_test(internet: Internet) -> None:
    web = internet.web(PUBLIC, 80, lambda path: f"you asked for {path}")
    assert fetch(internet, "http://api.example.com/page") == "you asked for /page"
    assert web.requests == ["/page"] and web.hosts == ["api.example.com"]
    assert ("api.example.com", 1) in internet.names.queries


def test_tls_with_a_name_of_its_own(internet: Internet) -> None:
    internet.web(PUBLIC, 443, tls=internet.certificate("api.example.com"))
    assert fetch(internet, "https://api.example.com/") == "page /"


@pytest.mark.parametrize("address", [PRIVATE, METADATA])
def test_what_is_not_public_answers_as_well(internet: Internet, address: str) -> None:
    internet.web(address, 8080)
    assert fetch(internet, f"http://{address}:8080/x") == "page /x"


def test_a_name_can_be_bound_anew_and_one_not_listed_does_not_exist(internet: Internet) -> None:
    answers = iter([[PUBLIC], [PRIVATE]])
    internet.names.hosts["turns.example"] = lambda: next(answers)
    lookup = "import socket; print(socket.getaddrinfo('turns.example', 80, socket.AF_INET)[0][4][0])"
    assert inside(internet, sys.executable, "-c", lookup) == PUBLIC
    assert inside(internet, sys.executable, "-c", lookup) == PRIVATE
    assert "not known" in fetch(internet, "http://no.example/")


def test_whoever_runs_inside_is_an_ordinary_user_where_it_was_started(
    internet: Internet, tmp_path: Path
) -> None:
    done = subprocess.run(
        internet.command("sh", "-c", "id -u; pwd; grep CapEff /proc/self/status"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    user = subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout.strip()
    assert done.stdout.split() == [user, str(tmp_path), "CapEff:", "0000000000000000"]
