"""Every spelling of an address is one address, and none passes for a better place than it is."""

from __future__ import annotations

import ipaddress
import socket

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwrap.policy.addresses import WITHIN_REACH, canonical, classify, packed, read, text_of

V4 = st.binary(min_size=4, max_size=4)
SPECIAL = st.sampled_from(
    [
        bytes.fromhex(head)
        for head in (
            "00" * 12,
            "00" * 10 + "ffff",
            "0064ff9b" + "00" * 8,
            "0064ff9b0001",
            "20010000",
            "20010002",
            "20010db8",
            "2002",
            "3fff",
            "fd00",
            "fe80",
            "fec0",
            "ff02",
            "00",
            "01",
        )
    ]
)
V6 = st.one_of(
    st.binary(min_size=16, max_size=16),
    st.builds(lambda head, tail: (head + tail)[:16], SPECIAL, st.binary(min_size=16, max_size=16)),
    st.builds(lambda head, tail: head[:12].ljust(12, b"\0") + tail, SPECIAL, V4),
    st.lists(st.sampled_from([b"\0\0", b"\0\1", b"\xfe\x80"]), min_size=8, max_size=8).map(b"".join),
)
ADDRESS = st.one_of(V4, V6)


def oracle(data: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    made = ipaddress.ip_address(data)
    mapped = made.ipv4_mapped if isinstance(made, ipaddress.IPv6Address) else None
    return mapped or made


@given(ADDRESS)
def test_the_text_is_that_of_the_standard_library_and_reads_back(data: bytes) -> None:
    text = text_of(data)
    assert text == str(oracle(data))
    assert packed(text) == oracle(data).packed
    assert canonical(text) == canonical(f"[{text}]" if ":" in text else text) == text
    assert packed(text.upper()) == oracle(data).packed


@given(V6)
def test_every_text_the_kernel_takes_for_an_address_is_read_as_that_one(data: bytes) -> None:
    for text in (
        socket.inet_ntop(socket.AF_INET6, data),
        ipaddress.IPv6Address(data).exploded,
        "::" + socket.inet_ntoa(data[12:]),
    ):
        assert packed(text) == oracle(socket.inet_pton(socket.AF_INET6, text)).packed
        assert packed(f"{text}%eth0") == packed(text)


SPELLED = st.text("0123456789abcdefxX.:%[]- /", max_size=24)


@given(SPELLED)
@example("::1.2.3.4::")
@example("1.2.3.4::")
@example("1::2::3")
@example(":1:2:3:4:5:6:7:8")
@example("1:2:3:4:5:6:7::")
@example("01.2.3.4")
def test_nothing_else_is_an_address(text: str) -> None:
    family = socket.AF_INET6 if ":" in text else socket.AF_INET
    if "%" in text:
        return
    try:
        expected = oracle(socket.inet_pton(family, text)).packed
    except (OSError, ValueError):
        assert packed(text) is None
    else:
        assert packed(text) == expected


def spelled(value: int, *forms: str) -> st.SearchStrategy[str]:
    return st.sampled_from([form.format(value) for form in forms])


NUMBER = st.integers(0, 2**33).flatmap(lambda value: spelled(value, "{}", "0{:o}", "0x{:x}", "0X{:X}"))
SMALL = st.integers(0, 300).flatmap(lambda value: spelled(value, "{}", "0{:o}", "0x{:02x}"))


@given(st.builds(lambda high, last: ".".join([*high, last]), st.lists(SMALL, max_size=4), NUMBER | SMALL))
@example("127.1")
@example("2130706433")
@example("0177.0.0.1")
@example("0x7f.1")
@example("09.1.1.1")
def test_the_loose_spellings_are_those_of_inet_aton(text: str) -> None:
    try:
        expected = socket.inet_aton(text)
    except OSError:
        assert read(text) is None
    else:
        assert read(text) == expected
        assert read(text + ".") == expected


@given(ADDRESS)
def test_what_is_called_public_is_global_to_the_standard_library_or_a_known_wrapping_of_it(
    data: bytes,
) -> None:
    if classify(data) != "public":
        return
    address = oracle(data)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.sixtofour or (address.teredo and address.teredo[1])
        if inner is None and address in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(data[12:])
        if inner is not None:
            assert inner.is_global and not inner.is_multicast
            return
        if address in ipaddress.ip_network("2001::/23"):
            return  # parts of it became global between releases of Python
    assert address.is_global
    assert not (address.is_multicast or address.is_reserved or address.is_link_local or address.is_loopback)


@given(ADDRESS)
def test_what_is_refused_by_kind_is_not_global_to_the_standard_library(data: bytes) -> None:
    kind, address = classify(data), oracle(data)
    if kind == "loopback" and address.version == 4:
        assert address.is_loopback
    if kind == "link-local" and address.version == 4:
        assert address.is_link_local
    if kind in WITHIN_REACH and address.version == 4:
        assert not address.is_global
    if address.version == 6 and address.is_link_local:
        assert kind == "link-local"
    if address.is_multicast:
        assert kind == "multicast"


@given(V4)
def test_no_wrapping_makes_an_address_better(inner: bytes) -> None:
    kind = classify(inner)
    wrappings = [
        bytes(10) + b"\xff\xff" + inner,
        b"\x00\x64\xff\x9b" + bytes(8) + inner,
        b"\x20\x02" + inner + bytes(10),
        b"\x20\x01\0\0\x08\x08\x08\x08" + bytes(4) + bytes(255 - byte for byte in inner),
        b"\x20\x01\0\0" + inner + bytes(4) + bytes([247] * 4),
        b"\x00\x64\xff\x9b\0\1" + inner[:2] + b"\0" + inner[2:] + bytes(5),
        b"\x00\x64\xff\x9b\0\1" + bytes(6) + inner,
        bytes(12) + inner,
    ]
    if kind == "public":
        assert [classify(each) for each in wrappings[:5]] == ["public"] * 5
        assert "public" not in [classify(each) for each in wrappings[5:]]
    else:
        assert "public" not in map(classify, wrappings)
    if kind in ("loopback", "metadata", "link-local") and int.from_bytes(inner, "big") > 1:
        assert set(map(classify, wrappings)) == {kind}


@pytest.mark.parametrize(
    ("kind", "spellings"),
    [
        (
            "metadata",
            ("169.254.169.254 2852039166 0xa9fea9fe 0251.0376.0251.0376 169.254.43518 0xA9.0xFE.0xA9.0xFE "
            "::ffff:169.254.169.254 ::ffff:a9fe:a9fe 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe:: ::169.254.169.254 "
            "169.254.170.2 fd00:ec2::254 FD00:0EC2::0254 100.100.100.200 168.63.129.16 fd20:ce::254"),
        ),
        (
            "loopback",
            ("127.0.0.1 127.1 127.255.255.254 2130706433 0x7f000001 017700000001 ::1 0:0:0:0:0:0:0:1 [::1] "
            "::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::1"),
        ),
        ("unspecified", "0.0.0.0 0 0x0 :: ::ffff:0.0.0.0 0.1.2.3"),
        ("private", "10.0.0.1 10.1 172.16.0.1 172.31.255.255 192.168.1.1 fd12::1 fc00::1"),
        ("cgnat", "100.64.0.1 100.127.255.255"),
        ("link-local", "169.254.1.1 fe80::1 fe80::1%eth0 febf::1 ::ffff:169.254.1.1"),
        ("multicast", "224.0.0.1 239.255.255.255 ff02::1"),
        (
            "reserved",
            ("240.0.0.1 255.255.255.255 192.0.2.1 198.18.0.1 2001:db8::1 100::1 fec0::1 5f00::1 ::8.8.8.8 no "
            "1.2.3.4.5"),
        ),
        ("public", "8.8.8.8 1.1.1.1 172.32.0.1 11.0.0.1 100.128.0.1 2606:4700::1111 64:ff9b::808:808"),
    ],
)  # fmt: skip
def test_each_place_is_known_in_every_spelling(kind: str, spellings: str) -> None:
    assert {text: classify(text) for text in spellings.split()} == dict.fromkeys(spellings.split(), kind)
