"""A private internet: public addresses, names and servers that exist for one test and reach nothing else.

A user, network and mount namespace is made whose loopback interface carries whatever addresses a test names,
with /etc/hosts and /etc/resolv.conf of its own. mcpwrap runs *inside* as on any machine: nothing of it is
switched off, `93.184.215.14` is a public address there and `10.0.0.5` a private one. Sockets of that network
are handed to the test's own process, so a test writes its servers as threads and sees what they were sent:

    with Internet({"api.example.com": [PUBLIC], "db.corp.example": ["10.0.0.5"]}) as internet:
        web = internet.web(PUBLIC, 80, lambda path: f"you asked for {path}")
        session = Session(internet.command(*mcpwrap(), "--grant", file, "--", *server), env=..., cwd=...)
        ...
        assert web.requests == ["/page"]

Names are answered by a server of the test (`internet.names`: `hosts` may be changed at any time, an entry may be
a function that answers differently each time, `queries` is what was asked). `internet.certificate(...)` makes
TLS contexts of a private authority; `internet.environ` tells clients to trust it.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tests.e2e.world.names import NameServer, Records

HERE = Path(__file__).parent / "world"
SECONDS = 30.0
PUBLIC, PUBLIC_2, PUBLIC_6 = "93.184.215.14", "93.184.215.15", "2606:2800:220:1::14"
PRIVATE, METADATA, SHARED = "10.0.0.5", "169.254.169.254", "100.64.0.1"
RESOLVER = "127.0.0.53"
ADDRESSES = (PUBLIC, PUBLIC_2, PUBLIC_6, PRIVATE, METADATA, SHARED)
"""On the interface by default: what a server has no business with answers too, so that a hole shows."""

Answer = str | bytes | tuple[int, Mapping[str, str], bytes]
"""A page: its text, or status, headers and body."""


class Service:
    """One listening socket with a thread that accepts. `accepted`: how many connections were."""

    def __init__(self, listener: socket.socket, talk: Callable[[socket.socket], None]) -> None:
        self.accepted = 0
        self.connections: list[socket.socket] = []
        self._listener, self._talk = listener, talk
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting; end every connection."""
        for each in (self._listener, *self.connections):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(SECONDS)
            self._talk(connection)
        except OSError:
            pass  # The other side left, or the test is over.
        finally:
            connection.close()


class Web:
    """An HTTP server. `requests`: the paths it was asked for. `hosts`: their Host headers."""

    def __init__(
        self, listener: socket.socket, pages: Callable[[str], Answer], tls: ssl.SSLContext | None
    ) -> None:
        self.requests: list[str] = []
        self.hosts: list[str] = []
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                web.requests.append(self.path)
                web.hosts.append(self.headers.get("Host", ""))
                answer = pages(self.path)
                text = answer.encode() if isinstance(answer, str) else answer
                status, headers, body = (200, {}, text) if isinstance(text, bytes) else text
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                pass  # Clients that leave early are what some tests are about.

            def finish_request(self, request: Any, client: Any) -> None:
                request.settimeout(SECONDS)
                if tls is None:
                    super().finish_request(request, client)
                    return
                # Who has been reset already is found out here: wrapping it would leave a socket to the collector.
                request.recv(1, socket.MSG_PEEK)
                with tls.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as encrypted:
                    encrypted.do_handshake()
                    super().finish_request(encrypted, client)

        address = listener.getsockname()[:2]
        self._server = Server(address, Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Internet:
    """One such network. A context manager; leaving it ends every server and removes it."""

    def __init__(
        self, names: Mapping[str, Records] | None = None, addresses: Iterable[str] = ADDRESSES
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="internet-"))
        etc = self.directory / "etc"
        etc.mkdir()
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        (etc / "resolv.conf").write_text(f"nameserver {RESOLVER}\n")
        self._hosts = etc / "hosts"
        self._closing: list[Service | Web | NameServer] = []
        self._authority: tuple[Path, Path] | None = None
        self._control, theirs = socket.socketpair()
        self._control.settimeout(SECONDS)
        with theirs, open(self.directory / "log", "wb") as log:
            self._process = subprocess.Popen(
                [
                    *("unshare", "--user", "--map-current-user", "--keep-caps", "--net", "--mount"),
                    *(sys.executable, "-I", str(HERE / "begin.py"), str(theirs.fileno()), str(etc)),
                    *dict.fromkeys(addresses),
                ],
                pass_fds=[theirs.fileno()],
                stderr=log,
            )
        if self._control.recv(5) != b"ready":
            raise RuntimeError(f"no private internet: {(self.directory / 'log').read_text()}")
        self.names = NameServer(
            self.bound(RESOLVER, 53, socket.SOCK_DGRAM), self.listener(RESOLVER, 53), names or {}
        )
        self._closing.append(self.names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in reversed(self._closing):
            each.close()
        self._control.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def command(self, *command: str | Path) -> list[str]:
        """Return the command that runs `command` inside, as the ordinary user, where it is started."""
        return [sys.executable, "-I", str(HERE / "enter.py"), str(self._process.pid), *map(str, command)]

    def hosts_file(self, *lines: str) -> None:
        """Replace the lines of /etc/hosts inside."""
        self._hosts.write_text("".join(f"{line}\n" for line in lines))

    # Sockets and servers inside

    def unbound(self, address: str, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Return a new socket of the inside network, of the family of `address`."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._control.sendall(bytes([family, kind]))
        _, fds, _, _ = socket.recv_fds(self._control, 1, 1)
        made = socket.socket(fileno=fds[0])
        made.settimeout(None)
        return made

    def bound(self, address: str, port: int, kind: int = socket.SOCK_STREAM) -> socket.socket:
        """Return a socket bound to an address inside; any port may be had."""
        made = self.unbound(address, kind)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        return made

    def listener(self, address: str, port: int, backlog: int = 128) -> socket.socket:
        """Return a listening TCP socket inside."""
        made = self.bound(address, port)
        made.listen(backlog)
        return made

    def connect(self, address: str, port: int) -> socket.socket:
        """Return a TCP connection made from inside."""
        made = self.unbound(address)
        made.settimeout(SECONDS)
        try:
            made.connect((address, port))
        except OSError:
            made.close()
            raise
        return made

    def serve(self, address: str, port: int, talk: Callable[[socket.socket], None]) -> Service:
        """Call `talk` with each connection to a port inside, in a thread of its own."""
        service = Service(self.listener(address, port), talk)
        self._closing.append(service)
        return service

    def web(
        self,
        address: str,
        port: int,
        pages: Callable[[str], Answer] = lambda path: f"page {path}",
        tls: ssl.SSLContext | None = None,
    ) -> Web:
        """Serve HTTP (HTTPS with `tls`) inside; `pages` makes the answer for a path."""
        web = Web(self.listener(address, port), pages, tls)
        self._closing.append(web)
        return web

    # TLS

    @property
    def environ(self) -> dict[str, str]:
        """Variables that make OpenSSL, Node, requests, curl and Go trust the private authority."""
        path = str(self._made_authority()[0])
        names = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")
        return dict.fromkeys(names, path)

    def certificate(self, *names: str) -> ssl.SSLContext:
        """Return a server's context with a certificate for `names` by the private authority; needs openssl."""
        certificate, key = self.certificate_files(*names)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return context

    def certificate_files(self, *names: str) -> tuple[Path, Path]:
        """Return the files of such a certificate and of its key, PEM."""
        authority, authority_key = self._made_authority()
        stem = self.directory / names[0].replace("*", "_")
        certificate, key = stem.with_suffix(".crt"), stem.with_suffix(".key")
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"),
            *("-CA", authority, "-CAkey", authority_key, "-subj", f"/CN={names[0]}"),
            *("-addext", "subjectAltName=" + ",".join(f"DNS:{name}" for name in names)),
            *("-addext", "basicConstraints=critical,CA:false", "-keyout", key, "-out", certificate),
        )
        return certificate, key

    def _made_authority(self) -> tuple[Path, Path]:
        if self._authority is None:
            certificate, key = self.directory / "authority.crt", self.directory / "authority.key"
            _openssl(
                *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
                *("-days", "2", "-subj", "/CN=private authority", "-keyout", key, "-out", certificate),
            )
            self._authority = certificate, key
        return self._authority


def _openssl(*arguments: str | Path) -> None:
    command: Sequence[str] = ["openssl", *map(str, arguments)]
    subprocess.run(
        command, check=True, capture_output=True, timeout=SECONDS, env={"PATH": os.environ["PATH"]}
    )
