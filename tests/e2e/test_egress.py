"""A wrapped server and hosts it may and may not reach, on a private internet with nothing switched off."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.client import Late, Message, Session, text
from tests.e2e.corpus import Bench, bench, mcpwrap
from tests.e2e.internet import METADATA, PRIVATE, PUBLIC, PUBLIC_2, PUBLIC_6, Internet, Service
from tests.e2e.victim import DEPRIVED

pytestmark = [pytest.mark.needs("userns", "seccomp", "landlock", "user", "openssl")]

SERVER = Path(__file__).with_name("fetcher.py")
REFUSED = "refused by mcpwrap"

GRANT = """
schema = 1

[server]
env = ["SSL_CERT_FILE"]
fs_read = ["{CA}"]

[tools.fetch]
net = ["api.example.com", "api.example.com:80", "*.wild.example:80", "down.example.com:81",
       "10.0.0.5:8080", "db.corp.example:5432", "[2606:2800:220:1::14]:80",
       "*.example.com:5436"]

[tools.arg]
net = ["$arg:url"]

[tools.postgres]
net = ["db.example.com:5432"]

[tools.local]
net = ["localhost:9000", "intra.example.com:5436"]

[tools.time]
net = ["udp://ntp.example.com:123"]

[tools.nothing]
"""

NAMES = {
    "api.example.com": [PUBLIC],
    "other.example.com": [PUBLIC_2],
    "db.example.com": [PUBLIC],
    "db.corp.example": [PRIVATE],
    "intra.example.com": [PRIVATE],
    "evil.example.com": [PRIVATE],
    "evil.wild.example": [PRIVATE],
    "deep.wild.example": [PUBLIC],
    "ntp.example.com": [PUBLIC],
    "down.example.com": [PUBLIC],
    "www.six.example": [PUBLIC_6],
}


class Run:
    """One wrapped server on its internet."""

    def __init__(self, internet: Internet, place: Bench, session: Session, lacking: str) -> None:
        self.internet, self.place, self.session, self.lacking = internet, place, session, lacking

    def call(self, tool: str, do: str, **arguments: object) -> Message:
        return self.session.call(tool, {"do": do, **arguments})

    def said(self, tool: str, do: str, **arguments: object) -> str:
        return text(self.call(tool, do, **arguments))

    def records(self, kind: str) -> list[Message]:
        return [each for each in self.place.audit() if each["kind"] == kind]


@contextlib.contextmanager
def running(
    internet: Internet, name: str, grant: str = GRANT, env: Mapping[str, str] | None = None, lacking: str = ""
) -> Iterator[Run]:
    place = bench(name)
    file = place.work / "grant.toml"
    file.write_text(grant.replace("{CA}", internet.environ["SSL_CERT_FILE"]))
    file.chmod(0o600)
    tools = ["fetch", "arg", "postgres", "local", "time", "nothing", "serve"]
    deprived = [sys.executable, "-I", "-B", str(DEPRIVED), lacking] if lacking else []
    command = [
        *deprived,
        *mcpwrap(),
        "--grant",
        str(file),
        "--",
        sys.executable,
        "-B",
        str(SERVER),
        json.dumps(tools),
    ]
    session = Session(
        internet.command(*command),
        env={**place.env, **internet.environ, **(env or {})},
        cwd=place.work / "data",
        stderr=place.work / "stderr",
    )
    try:
        session.initialize()
        session.answer(session.request("tools/list"))
        yield Run(internet, place, session, lacking)
    finally:
        session.close()


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet(NAMES) as made:
        made.web(PUBLIC, 80, lambda path: f"page {path}")
        made.web(PUBLIC, 443, lambda path: f"secret {path}", tls=made.certificate("api.example.com"))
        made.web(PUBLIC_2, 80, lambda _: "OTHER")
        made.web(PUBLIC_6, 80, lambda _: "page of six")
        made.web(PRIVATE, 80, lambda _: "PRIVATE")
        made.web(PRIVATE, 8080, lambda _: "intranet")
        made.web(METADATA, 80, lambda _: "CREDENTIALS")
        made.web("127.0.0.1", 80, lambda _: "LOOPBACK")
        yield made


@pytest.fixture(scope="module")
def database(internet: Internet) -> Service:
    return internet.serve(PUBLIC, 5432, echo)


@pytest.fixture(scope="module")
def run(internet: Internet) -> Iterator[Run]:
    with running(internet, "egress") as made:
        yield made


def eventually(session: Session, ready: Callable[[], bool]) -> None:
    """Wait for what happens outside of the session, and let it go on meanwhile."""
    for _ in range(600):
        try:
            session.until(ready, 0.05)
        except Late:
            continue
        return
    raise AssertionError("it did not happen in time")


def echo(connection: socket.socket) -> None:
    while line := connection.recv(1000):
        connection.sendall(b"echo " + line)


def test_a_granted_host_is_reached_by_http_and_https(run: Run) -> None:
    assert run.said("fetch", "fetch", url="http://api.example.com/a") == "page /a"
    assert run.said("fetch", "fetch", url="https://api.example.com/b") == "secret /b"
    assert run.said("fetch", "fetch", url="http://deep.wild.example/c") == "page /c"


def test_the_audit_says_where_a_call_connected(run: Run) -> None:
    run.said("fetch", "fetch", url="http://api.example.com/audited")
    run.said("nothing", "fetch", url="http://api.example.com/")  # With it what ended between is on disk.
    record = next(each for each in run.records("stream") if each["host"] == "api.example.com:80")
    assert record["address"] == PUBLIC and record["rule"] == "tools.fetch.net[1]"
    assert min(record["received"], record["sent"]) > 0 and record["windows"]


@pytest.mark.parametrize(
    ("tool", "url"),
    [
        ("fetch", "http://other.example.com/"),
        ("nothing", "http://api.example.com/"),
        ("fetch", f"http://{PUBLIC_2}/"),
        ("fetch", f"http://{PUBLIC}/"),
        ("fetch", f"http://{METADATA}/"),
        ("fetch", f"http://{PRIVATE}/"),
        ("fetch", f"http://[::ffff:{PRIVATE}]/"),
        ("fetch", "http://2852039166/"),
        ("fetch", "http://evil.wild.example/"),
        ("arg", "http://evil.example.com/"),
        ("arg", f"http://{METADATA}/"),
        ("arg", "http://127.0.0.1/"),
    ],
)
def test_what_is_not_granted_is_refused_and_told(run: Run, tool: str, url: str) -> None:
    said = run.said(tool, "fetch", url=url)
    assert not any(secret in said for secret in ("OTHER", "PRIVATE", "CREDENTIALS", "LOOPBACK", "page"))
    assert REFUSED in said or "no-network" in said


def test_names_that_are_not_granted_are_looked_up_nowhere(run: Run) -> None:
    before = len(run.internet.names.queries)
    run.said("fetch", "fetch", url="http://c2VjcmV0.tunnel.example/")
    assert run.internet.names.queries[before:] == []


def test_a_private_host_that_is_named_is_reached(run: Run) -> None:
    assert run.said("fetch", "fetch", url=f"http://{PRIVATE}:8080/") == "intranet"


def test_the_host_of_an_argument_is_reached(run: Run) -> None:
    assert run.said("arg", "fetch", url="http://other.example.com/") == "OTHER"


def test_a_name_bound_anew_never_leads_inside(run: Run) -> None:
    """Public for the first question and private for every other one, as rebinding tools answer."""
    answers = iter([[PUBLIC]])
    run.internet.names.hosts["rebound.example.com"] = lambda: next(answers, [PRIVATE])
    assert run.said("arg", "fetch", url="http://rebound.example.com/x") == "page /x"
    # An answer is kept for a moment; what comes after it is judged as the first was.
    until = time.monotonic() + 20
    while (said := run.said("arg", "fetch", url="http://rebound.example.com/x")) == "page /x":
        assert time.monotonic() < until
    assert REFUSED in said and "PRIVATE" not in said


def test_a_host_that_is_down_is_no_refusal(run: Run) -> None:
    said = run.said("fetch", "connect", host="down.example.com", port=81, send="x")
    assert REFUSED not in said and "this was no refusal" in said


def test_another_name_inside_tls_is_refused(run: Run) -> None:
    said = run.said("fetch", "connect", host="api.example.com", port=443, sni="hidden.example.net", send="x")
    assert REFUSED in said and "sni" in said
    assert run.said("fetch", "fetch", url="https://api.example.com/b") == "secret /b"


def test_plain_text_on_the_port_of_tls_is_refused(run: Run) -> None:
    assert REFUSED in run.said("fetch", "connect", host="api.example.com", port=443, send="GET / HTTP/1.0")


@pytest.mark.usefixtures("database")
def test_a_connection_is_parked_between_calls_and_alive_in_the_next(run: Run) -> None:
    open_ = {"host": "db.example.com", "port": 5432, "keep": "db"}
    assert run.said("postgres", "connect", send="one", **open_) == "echo one\n"
    for number in range(10):
        assert run.said("nothing", "fetch", url="http://api.example.com/").count(REFUSED) == 1
        assert run.said("postgres", "again", keep="db", send=f"call {number}") == f"echo call {number}\n"


def test_nothing_passes_outside_of_the_window(run: Run) -> None:
    heard: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        while line := connection.recv(1000):
            heard.append(line)

    service = run.internet.serve(PUBLIC, 5433, listen)
    with running(
        run.internet, "egress-parked", GRANT.replace("db.example.com:5432", "db.example.com:5433")
    ) as other:
        other.said("postgres", "connect", host="db.example.com", port=5433, keep="k")
        eventually(other.session, lambda: bool(service.accepted))
        other.said("nothing", "push", keep="k", send="smuggled")
        # A whole further call, then the end of the run: time enough for a byte to arrive.
        other.said("nothing", "connect", host="db.example.com", port=5433)
        assert heard == []
        other.said("postgres", "push", keep="k", send="granted")
        eventually(other.session, lambda: b"granted" in b"".join(heard))
    assert b"".join(heard) == b"smuggled\ngranted\n"


def test_a_private_host_one_tool_names_is_not_lent_to_another_whose_rule_only_fits_its_name(run: Run) -> None:
    run.internet.serve(PRIVATE, 5436, echo)
    intra = {"host": "intra.example.com", "port": 5436}
    assert run.said("local", "connect", keep="intra", send="one", **intra) == "echo one\n"
    assert run.said("local", "again", keep="intra", send="two") == "echo two\n"
    assert "echo" not in run.said("fetch", "again", keep="intra", send="three")
    said = run.said("fetch", "connect", send="four", **intra)
    assert REFUSED in said and "echo" not in said
    assert run.said("local", "connect", send="five", **intra) == "echo five\n"


def test_localhost_is_the_hosts_where_a_rule_says_so(run: Run) -> None:
    run.internet.serve("127.0.0.1", 9000, echo)
    for host in ("localhost", "127.0.0.1"):
        assert run.said("local", "connect", host=host, port=9000, send="hi") == "echo hi\n"
    assert "echo" not in run.said("nothing", "connect", host="127.0.0.1", port=9000, send="hi")


def test_datagrams_reach_a_granted_host(run: Run) -> None:
    with run.internet.bound(PUBLIC, 123, socket.SOCK_DGRAM) as clock:
        clock.settimeout(20)
        number = run.session.start_call(
            "time", {"do": "datagram", "host": "ntp.example.com", "port": 123, "send": "now?"}
        )
        run.session.until(lambda: _answer_one(clock), what="a datagram")
        assert text(run.session.answer(number)) == "it is now?"
        refused = run.said(
            "nothing", "datagram", host="ntp.example.com", port=123, send="smuggled", seconds=0.3
        )
        assert "it is" not in refused
        clock.setblocking(False)
        with pytest.raises(BlockingIOError):
            clock.recvfrom(100)


def _answer_one(clock: socket.socket) -> bool:
    data, client = clock.recvfrom(100)
    clock.sendto(b"it is " + data, client)
    return True


def test_bulk_arrives_whole(run: Run) -> None:
    size = 64 * 1024 * 1024

    def send(connection: socket.socket) -> None:
        for _ in range(64):
            connection.sendall(bytes(1024 * 1024))

    service = run.internet.serve(PUBLIC, 5434, send)
    with running(
        run.internet, "egress-bulk", GRANT.replace("db.example.com:5432", "db.example.com:5434")
    ) as r:
        assert r.said("postgres", "bulk", host="db.example.com", port=5434) == str(size)
    assert service.accepted == 1


def test_a_listening_rule_lets_the_host_in_during_its_call(internet: Internet) -> None:
    grant = 'schema = 1\n\n[tools.serve]\nlisten = ["localhost:8099"]\n\n[tools.nothing]\n'
    with running(internet, "egress-listen", grant) as run:
        with pytest.raises(ConnectionRefusedError):
            internet.connect("127.0.0.1", 8099)
        number = run.session.start_call("serve", {"do": "accept", "port": 8099})
        answers: list[bytes] = []
        eventually(run.session, lambda: _greeted(internet, answers))
        assert answers == [b"inside: from outside"]
        assert text(run.session.answer(number)) == "from outside"
        run.said("nothing", "connect", host="127.0.0.1", port=1)  # With it what ended between is on disk.
        assert [each["rule"] for each in run.records("stream") if each["windows"]] == [
            "tools.serve.listen[0]"
        ]
        with pytest.raises(ConnectionRefusedError):
            internet.connect("127.0.0.1", 8099)


def _greeted(internet: Internet, answers: list[bytes]) -> bool:
    """Whether somebody inside answered; there may be nobody yet."""
    try:
        with internet.connect("127.0.0.1", 8099) as made:
            made.sendall(b"from outside")
            answer = made.recv(100)
    except OSError:
        return False
    if answer:
        answers.append(answer)
    return bool(answer)


def test_the_hosts_proxy_is_used_and_asked_by_name(internet: Internet) -> None:
    asked: list[bytes] = []

    def proxy(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1000)
        asked.append(head.split(b"\r\n")[0])
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        echo(connection)

    internet.serve(PRIVATE, 3128, proxy)
    before = len(internet.names.queries)
    with running(internet, "egress-proxy", env={"HTTPS_PROXY": f"http://{PRIVATE}:3128"}) as run:
        said = run.said("postgres", "connect", host="db.example.com", port=5432, send="through")
        assert said == "echo through\n"
    assert asked == [b"CONNECT db.example.com:5432 HTTP/1.1"]
    assert internet.names.queries[before:] == []
