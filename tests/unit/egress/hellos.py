"""ClientHellos made by OpenSSL itself."""

from __future__ import annotations

import ssl


def client_hello(name: str | None) -> bytes:
    """Return what a TLS client sends first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def recut(data: bytes, size: int) -> bytes:
    """Return the same handshake message in records of at most `size` bytes."""
    version, message = data[1:3], data[5:]
    parts = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16" + version + len(part).to_bytes(2, "big") + part for part in parts)
