"""The server's network is empty: a loopback of its own, and nothing behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.confined import Place, place
from tests.kernel.test_sandbox_view import ERRNO, JSON

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as found:
        yield found


def test_there_is_only_a_loopback_interface(here: Place) -> None:
    code = JSON + "import socket\nshow([name for _, name in socket.if_nameindex()])"
    assert here.run(code).value() == ["lo"]


def test_loopback_works(here: Place) -> None:
    code = JSON + (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname(), 5); show(s.accept()[0].send(b'x'))"
    )
    assert here.run(code).value() == 1


@pytest.mark.parametrize("address", ["1.1.1.1", "169.254.169.254", "10.0.0.1"])
def test_no_address_is_reached(here: Place, address: str) -> None:
    code = ERRNO + f"import socket\nshow(outcome(socket.create_connection, ({address!r}, 80), 5))"
    assert here.run(code).value() == "ENETUNREACH"


def test_a_listener_of_the_host_is_not_reached(here: Place) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as host:
        code = ERRNO + f"import socket\nshow(outcome(socket.create_connection, {host.getsockname()!r}, 5))"
        assert here.run(code).value() == "ECONNREFUSED"
