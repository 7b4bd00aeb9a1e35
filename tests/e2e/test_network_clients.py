"""Clients of the network reach a granted host as they would bare, and fail as on any network otherwise.

No proxy variable, no setting: fetch and http of Node, aiohttp, httpx, requests, urllib, curl, a static Go
program, and a client that tries QUIC first.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap
from tests.e2e.internet import PUBLIC, PUBLIC_2, Answer, Internet
from tests.e2e.servers import home, program
from tests.e2e.services import cluster_page

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "openssl", "node", "curl")

HERE = Path(__file__).resolve().parents[1] / "clients"
NODE, PYTHON = ("fetch", "http"), ("aiohttp", "httpx", "requests", "urllib", "curl", "quic_first")
CLIENTS = (*NODE, *PYTHON)
GRANTED, OTHER = "granted.example.org", "other.example.org"
GRANT = f"""
schema = 1
[server]
env = ["CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"]
fs_read = ["{{W}}/authority.crt"]
[tools."*"]
net = ["{GRANTED}:80", "{GRANTED}"]
[tools.curl]
exec = ["curl"]
"""
CLUSTER_GRANT = """
schema = 1
[server]
env = ["KUBECONFIG"]
exec = ["{I}/node_modules/kubernetes-mcp-server-linux-*/bin/*"]
fs_read = ["{W}/data/kubeconfig"]
[tools."*"]
net = ["granted.example.org"]
"""
KUBECONFIG = """
{{apiVersion: v1, kind: Config, current-context: x, contexts: [{{name: x, context: {{cluster: c, user: u}}}}],
clusters: [{{name: c, cluster: {{server: "https://{host}", certificate-authority: {authority}}}}}],
users: [{{name: u, user: {{}}}}]}}
"""


def pages(path: str) -> Answer:
    return cluster_page(path) if path.startswith("/api") else f"page {path}"


def answer_datagrams(own: socket.socket) -> None:
    while True:
        data, client = own.recvfrom(2000)
        if not data:  # It was shut down.
            return
        own.sendto(b"quic", client)


def shut(own: socket.socket) -> None:
    with contextlib.suppress(OSError):  # A datagram socket without a peer says so, and wakes its reader.
        own.shutdown(socket.SHUT_RDWR)


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet({GRANTED: [PUBLIC], OTHER: [PUBLIC_2]}) as made, contextlib.ExitStack() as sockets:
        for address in (PUBLIC, PUBLIC_2):
            made.web(address, 80, pages)
            made.web(address, 443, pages, made.certificate(GRANTED, OTHER))
            quic = sockets.enter_context(made.bound(address, 443, socket.SOCK_DGRAM))
            answering = threading.Thread(target=answer_datagrams, args=(quic,))
            answering.start()
            sockets.callback(answering.join)
            sockets.callback(shut, quic)
        yield made


def trusting(place: Bench, internet: Internet) -> dict[str, str]:
    """Return an environment whose clients trust the authority of the private internet."""
    # A copy: a sandbox has a /tmp of its own.
    authority = shutil.copy(internet.environ["SSL_CERT_FILE"], place.work / "authority.crt")
    return place.env | dict.fromkeys(internet.environ, str(authority))


@contextlib.contextmanager
def started(internet: Internet, name: str, how: str, *command: str | Path) -> Iterator[Session]:
    place = bench(name)
    grant = place.work / "grant.toml"
    grant.write_text(GRANT.replace("{W}", str(place.work)))
    grant.chmod(0o600)
    wrap = [*mcpwrap(), "--grant", str(grant), "--"] if how == "mcpwrap" else []
    stderr = place.work / "stderr"
    with Session(
        internet.command(*wrap, *command),
        env=trusting(place, internet),
        cwd=place.work / "data",
        stderr=stderr,
    ) as session:
        session.initialize()
        session.answer(session.request("tools/list"))
        yield session


Servers = dict[str, Session]


@contextlib.contextmanager
def both(internet: Internet, how: str) -> Iterator[Servers]:
    """Yield the session each client is a tool of."""
    node = shutil.which("node")
    assert node
    with (
        started(internet, f"clients-node-{how}", how, node, HERE / "node.mjs") as of_node,
        started(internet, f"clients-python-{how}", how, program("clients"), HERE / "python.py") as of_python,
    ):
        yield dict.fromkeys(NODE, of_node) | dict.fromkeys(PYTHON, of_python)


@pytest.fixture(scope="module")
def bare(internet: Internet, installed: Callable[[str], Path]) -> Iterator[Servers]:
    installed("clients")
    with both(internet, "bare") as servers:
        yield servers


@pytest.fixture(scope="module")
def wrapped(internet: Internet, installed: Callable[[str], Path]) -> Iterator[Servers]:
    installed("clients")
    with both(internet, "mcpwrap") as servers:
        yield servers


@pytest.mark.parametrize("url", [f"http://{GRANTED}/a", f"https://{GRANTED}/b"], ids=["http", "https"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_granted_host_answers_as_bare(bare: Servers, wrapped: Servers, client: str, url: str) -> None:
    expected, got = (servers[client].call(client, {"url": url}) for servers in (bare, wrapped))
    assert "page /" in text(expected), expected
    if client == "quic_first":
        assert text(expected).startswith("quic: answered; tcp: ")
        assert text(got) == text(expected).replace("answered", "ConnectionRefusedError at once")
    else:
        assert text(got) == text(expected)
        assert not failed(got)


@pytest.mark.parametrize(
    ("url", "denied", "errors"),
    [
        # A name that was not granted does not exist, and nobody outside is asked whether it does.
        (f"http://{OTHER}/", OTHER, ("ENOTFOUND", "not known", "resolve")),
        (f"https://{OTHER}/", OTHER, ("ENOTFOUND", "not known", "resolve")),
        (f"http://{PUBLIC_2}/", f"{PUBLIC_2}:80", ("ECONNREFUSED", "refused", "connect to", "connect call")),
        # The granted host's own address, which it was not granted by, and a port it was not granted on.
        (f"http://{PUBLIC}/", f"{PUBLIC}:80", ("ECONNREFUSED", "refused", "connect to", "connect call")),
        (f"http://{GRANTED}:81/", f"{GRANTED}:81", ("ECONNREFUSED", "refused", "connect to", "connect call")),
    ],
    ids=["name", "name-tls", "address", "granted-address", "port"],
)
@pytest.mark.parametrize("client", CLIENTS)
def test_any_other_fails_as_on_any_network_and_is_explained(
    internet: Internet,
    bare: Servers,
    wrapped: Servers,
    client: str,
    url: str,
    denied: str,
    errors: tuple[str, ...],
) -> None:
    if url != f"http://{GRANTED}:81/":
        assert "page /" in text(bare[client].call(client, {"url": url})), "nothing but mcpwrap is in the way"
    asked = len(internet.names.queries)
    answer = wrapped[client].call(client, {"url": url})
    own, _, told = text(answer).partition("[mcpwrap]")
    assert failed(answer)
    assert any(error in own for error in errors), own
    assert "page /" not in own
    assert "refused by mcpwrap" in told and f'"{denied}"' in told, told
    assert OTHER not in {name for name, _ in internet.names.queries[asked:]}


@pytest.mark.parametrize("host", [GRANTED, OTHER])
def test_a_static_go_program_reaches_what_is_granted_and_nothing_else(
    internet: Internet, installed: Callable[[str], Path], host: str
) -> None:
    """It has its own resolver and makes its own system calls: no library could have held it."""
    installed("kubernetes")
    said = {}
    for how in ("bare", "mcpwrap"):
        place = bench(f"clients-go-{host}")
        env = trusting(place, internet) | {"KUBECONFIG": str(place.work / "data" / "kubeconfig")}
        authority = place.work / "data" / "authority.crt"
        shutil.copy(place.work / "authority.crt", authority)
        (place.work / "data" / "kubeconfig").write_text(KUBECONFIG.format(host=host, authority=authority))
        grant = place.work / "grant.toml"
        words = {"{W}/data/kubeconfig": f"{place.work}/data", "{I}": str(home("kubernetes"))}
        written = CLUSTER_GRANT
        for word, meant in words.items():
            written = written.replace(word, meant)
        grant.write_text(written)
        grant.chmod(0o600)
        wrap = [*mcpwrap(), "--grant", str(grant), "--"] if how == "mcpwrap" else []
        command = internet.command(*wrap, program("kubernetes"), "--log-file", "stderr")
        stderr = place.work / f"stderr.{how}"
        with Session(command, env=env, cwd=place.work / "data", stderr=stderr) as session:
            session.initialize()
            session.answer(session.request("tools/list"))
            said[how] = text(session.call("namespaces_list"))
    assert "marker-7731" in said["bare"], said
    if host == GRANTED:
        assert said["mcpwrap"] == said["bare"]
    else:
        own, _, told = said["mcpwrap"].partition("[mcpwrap]")
        assert "no such host" in own, said
        assert f'"{OTHER}"' in told, said
