"""Layers that only show on a network with public and private addresses: held with them, harmed without.

Published holes of the corpus are acts as well: test_holes.py shows them held, and here what held them is taken out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.corpus import rows, run_hole
from tests.e2e.internet import PUBLIC, PUBLIC_2, Internet
from tests.e2e.test_egress import running
from tests.e2e.test_layers import WITHOUT

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "openssl")

GRANT = """
schema = 1
[server]
env = ["SSL_CERT_FILE"]
fs_read = ["{CA}"]
[tools.fetch]
net = ["api.example.com", "db.example.com:5432"]
[tools.nothing]
"""
Act = Callable[[Internet, str], bool]
"""Tries to do harm, and tells whether it did. The second argument names the run."""


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet({"api.example.com": [PUBLIC], "db.example.com": [PUBLIC_2]}) as made:
        names = made.certificate("api.example.com", "hidden.example.net")
        made.web(PUBLIC, 443, lambda path: f"page {path}", tls=names)
        yield made


def asks_inside_tls_for_another_host(internet: Internet, name: str) -> bool:
    with running(internet, name, GRANT) as run:
        asked = "GET /front HTTP/1.0\r\n"
        said = run.said(
            "fetch", "connect", host="api.example.com", port=443, sni="hidden.example.net", send=asked
        )
    return "200 OK" in said


def sends_on_a_connection_whose_call_is_over(internet: Internet, name: str) -> bool:
    heard: list[bytes] = []

    def listen(connection: object) -> None:
        while line := connection.recv(1000):  # type: ignore[attr-defined]
            heard.append(line)
            connection.sendall(line)  # type: ignore[attr-defined]

    service = internet.serve(PUBLIC_2, 5432, listen)
    try:
        with running(internet, name, GRANT) as run:
            where = {"host": "db.example.com", "port": 5432}
            assert run.said("fetch", "connect", keep="k", send="granted", **where) == "granted\n"
            run.said("nothing", "push", keep="k", send="smuggled")
            # A further call that is refused, and the end of the run: time enough for a byte to arrive.
            run.said("nothing", "connect", **where)
            between = b"smuggled" in b"".join(heard)
    finally:
        service.close()
    return between or b"smuggled" in b"".join(heard)


SEEN: list[tuple[str, Act]] = [
    ("server name", asks_inside_tls_for_another_host),
    ("parking", sends_on_a_connection_whose_call_is_over),
]
HOLES = [
    # What is taken out, the hole, and what of its harm shows then.
    ("address guard", "fetch-loopback", ["hit: /name"]),
    (
        "hosts",
        "fetch-loopback",
        ["hit: /address", "hit: /ipv6", "hit: /mapped", "hit: /decimal", "hit: /octal"],
    ),
    ("conditions", "postgres-read-only", ["file: ", "command: "]),
]


def without(monkeypatch: pytest.MonkeyPatch, layers: str) -> None:
    command = [sys.executable, "-I", "-B", str(WITHOUT), layers]
    monkeypatch.setenv("MCPWRAP_COMMAND", shlex.join(command))


@pytest.mark.parametrize(("layers", "act"), SEEN, ids=lambda each: each if isinstance(each, str) else "")
def test_without_a_layer_an_act_that_was_refused_does_its_harm(
    internet: Internet, monkeypatch: pytest.MonkeyPatch, layers: str, act: Act
) -> None:
    without(monkeypatch, "")
    assert not act(internet, "layer-internet-all"), "refused with all layers"
    without(monkeypatch, layers)
    assert act(internet, "layer-internet-out"), f"nothing sees that {layers} is gone"


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(
    ("layers", "hole", "shown"), HOLES, ids=lambda each: each if isinstance(each, str) else ""
)
def test_without_what_holds_it_a_published_hole_does_its_harm(
    installed: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    layers: str,
    hole: str,
    shown: list[str],
) -> None:
    row = next(row for row in rows("hole") if row["name"] == hole)
    installed(row["server"])
    without(monkeypatch, layers)
    outcome, _ = run_hole(row, "mcpwrap")
    harmed = [harm for harm, seen in outcome.harms.items() if seen]
    assert all(any(harm.startswith(each) for harm in harmed) for each in shown), outcome
