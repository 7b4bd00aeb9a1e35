"""The TLS hello is read the same however it arrives, and nothing makes the reader fail."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwrap.egress import hello
from tests.unit.egress.hellos import client_hello, recut

HOSTS = st.lists(
    st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=20), min_size=1, max_size=4
).map(lambda labels: ".".join((*labels, "example")))


REAL = client_hello("api.example")


@given(HOSTS, st.integers(1, 600))
@settings(max_examples=60, deadline=None)
def test_records_may_cut_it_anywhere_and_every_beginning_asks_for_more(name: str, size: int) -> None:
    whole = recut(client_hello(name), size)
    if len(whole) > hello.MAX_HELLO:
        return
    assert hello.read(whole) == hello.Hello(name, False)
    assert hello.read(whole + b"anything") == hello.Hello(name, False)
    for end in range(0, len(whole), max(1, len(whole) // 40)):
        assert hello.read(whole[:end]) == "more"


@given(st.binary(max_size=400), st.data())
@settings(max_examples=400, deadline=None)
def test_no_bytes_make_it_fail(noise: bytes, data: st.DataObject) -> None:
    """Arbitrary bytes, and a real hello with some of them in its middle."""
    at = data.draw(st.integers(0, len(REAL)))
    for each in (noise, b"\x16\3\1" + noise, REAL[:at] + noise + REAL[at:], REAL[:at] + noise):
        found = hello.read(each)
        assert found in ("more", "not-tls") or isinstance(found, hello.Hello)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=None)
def test_it_never_asks_for_more_than_its_limit(noise: bytes) -> None:
    for each in (noise, b"\x16\3\1\0\1\1", b"\x16\3\1\x3f\xff\1\0\x3f\xf0" + noise):
        whole = each * (1 + hello.MAX_HELLO // max(1, len(each)))
        assert len(whole) < hello.MAX_HELLO or hello.read(whole) != "more"
