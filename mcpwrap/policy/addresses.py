"""IP addresses as text and bytes: every spelling to one, and what kind of place an address is.

Own tables, because what is dialled depends on them: `ipaddress` takes 8 ms to import, and what it calls global
has changed between releases of Python. An address is 4 or 16 bytes; one that only wraps an IPv4 address
(`::ffff:a.b.c.d`, RFC 4291 2.5.5.2) *is* that address.
"""

from __future__ import annotations

import re
from typing import Final, Literal

Kind = Literal[
    "public",
    "cgnat",
    "private",
    "reserved",
    "multicast",
    "unspecified",
    "link-local",
    "loopback",
    "metadata",
]

_SEVERITY: Final[tuple[Kind, ...]] = (
    "public", "cgnat", "private", "reserved", "multicast", "unspecified", "link-local", "loopback", "metadata"
)  # fmt: skip
"""Of an address that wraps others the worst of all counts."""

WITHIN_REACH: Final[frozenset[Kind]] = frozenset(("private", "cgnat"))
"""Addresses of the user's own networks: reached by naming the host. All others that are not public are reached
only by naming the address."""

_NUMBER = re.compile(r"0[xX][0-9A-Fa-f]+|[0-9]+")
_OCTET = re.compile(r"0|[1-9][0-9]{0,2}")
_GROUP = re.compile(r"[0-9A-Fa-f]{1,4}")

_MAPPED: Final = bytes(10) + b"\xff\xff"

_SPECIAL_4: Final[tuple[tuple[str, int, Kind], ...]] = (
    # What clouds answer on with credentials. Each is one address, so that no wider rule reaches it.
    ("169.254.169.254", 32, "metadata"),  # AWS, Google Cloud, Azure, Oracle, DigitalOcean, OpenStack, Hetzner
    ("169.254.170.2", 32, "metadata"),  # AWS ECS task credentials
    ("169.254.170.23", 32, "metadata"),  # AWS EKS pod identity
    ("169.254.42.42", 32, "metadata"),  # Scaleway
    ("169.254.0.23", 32, "metadata"),  # Tencent Cloud
    ("100.100.100.200", 32, "metadata"),  # Alibaba Cloud
    ("168.63.129.16", 32, "metadata"),  # Azure WireServer
    ("192.0.0.192", 32, "metadata"),  # Oracle Cloud Classic
    # IANA IPv4 Special-Purpose Address Registry
    ("0.0.0.0", 8, "unspecified"),  # this network, RFC 791 3.2; Linux takes 0.0.0.0 for loopback
    ("10.0.0.0", 8, "private"),  # RFC 1918
    ("100.64.0.0", 10, "cgnat"),  # shared address space, RFC 6598
    ("127.0.0.0", 8, "loopback"),  # RFC 1122 3.2.1.3
    ("169.254.0.0", 16, "link-local"),  # RFC 3927
    ("172.16.0.0", 12, "private"),  # RFC 1918
    ("192.0.0.0", 24, "reserved"),  # IETF protocol assignments, RFC 6890 2.1
    ("192.0.2.0", 24, "reserved"),  # documentation, RFC 5737
    ("192.88.99.0", 24, "reserved"),  # 6to4 relay anycast, deprecated by RFC 7526
    ("192.168.0.0", 16, "private"),  # RFC 1918
    ("198.18.0.0", 15, "reserved"),  # benchmarking, RFC 2544
    ("198.51.100.0", 24, "reserved"),  # documentation, RFC 5737
    ("203.0.113.0", 24, "reserved"),  # documentation, RFC 5737
    ("224.0.0.0", 4, "multicast"),  # RFC 5771
    ("240.0.0.0", 4, "reserved"),  # RFC 1112 4; with limited broadcast, RFC 919
)

_SPECIAL_6: Final[tuple[tuple[str, int, Kind], ...]] = (
    ("fd00:ec2::254", 128, "metadata"),  # AWS
    ("fd00:ec2::23", 128, "metadata"),  # AWS EKS pod identity
    ("fd20:ce::254", 128, "metadata"),  # Google Cloud
    ("fd00:c1::a9fe:a9fe", 128, "metadata"),  # Oracle Cloud
    ("fd00:42::42", 128, "metadata"),  # Scaleway
    # IANA IPv6 Special-Purpose Address Registry
    ("::1", 128, "loopback"),  # RFC 4291 2.5.3
    ("::", 128, "unspecified"),  # RFC 4291 2.5.2
    ("::", 96, "reserved"),  # IPv4-compatible, deprecated by RFC 4291 2.5.5.1
    ("64:ff9b::", 96, "public"),  # NAT64, RFC 6052: public if what it wraps is
    ("64:ff9b:1::", 48, "private"),  # NAT64 for local use, RFC 8215
    ("2001::", 32, "public"),  # Teredo, RFC 4380: public if what it wraps is
    ("2001:1::1", 128, "reserved"),  # Port Control Protocol anycast, RFC 7723
    ("2001:3::", 32, "public"),  # AMT, RFC 7450
    ("2001:4:112::", 48, "public"),  # AS112, RFC 7535
    ("2001:20::", 28, "public"),  # ORCHIDv2, RFC 7343
    ("2001:30::", 28, "public"),  # drone remote identification, RFC 9374
    ("2001::", 23, "reserved"),  # IETF protocol assignments, RFC 2928; with benchmarking, RFC 5180
    ("2001:db8::", 32, "reserved"),  # documentation, RFC 3849
    ("2002::", 16, "public"),  # 6to4, RFC 3056: public if what it wraps is
    ("3fff::", 20, "reserved"),  # documentation, RFC 9637
    ("fc00::", 7, "private"),  # unique local, RFC 4193
    ("fe80::", 10, "link-local"),  # RFC 4291 2.5.6
    ("ff00::", 8, "multicast"),  # RFC 4291 2.7
    # IANA IPv6 Address Space: all that is allocated as global unicast. What no row holds is reserved, among it
    # 100::/64 (RFC 6666), 100:0:0:1::/64 (RFC 9780), 5f00::/16 (RFC 9602), fec0::/10 (RFC 3879).
    ("2000::", 3, "public"),
    ("::", 0, "reserved"),
)


def packed(text: str) -> bytes | None:
    """Return the bytes of an address in a standard spelling, None if it is none.

    Standard are four decimal numbers and the texts of RFC 4291 2.2, with or without a zone (`%eth0`), which is
    dropped. For the spellings of `inet_aton` see `canonical`.
    """
    if ":" in text:
        return _packed_6(text.partition("%")[0])
    parts = text.split(".")
    if len(parts) != 4 or not all(map(_OCTET.fullmatch, parts)):
        return None
    numbers = [int(part) for part in parts]
    return bytes(numbers) if max(numbers) < 256 else None


def _packed_6(text: str) -> bytes | None:
    head, gap, tail = text.partition("::")
    before, after = _groups(head), _groups(tail)
    if before is None or after is None or "::" in tail:
        return None
    if head and gap and "." in head:
        return None  # an IPv4 address stands at the end only
    missing = 16 - len(before) - len(after)
    if missing < 2 if gap else missing:
        return None
    return plain(before + bytes(missing) + after)


def _groups(text: str) -> bytes | None:
    if not text:
        return b""
    out = b""
    *groups, last = text.split(":")
    for group in groups:
        if not _GROUP.fullmatch(group):
            return None
        out += int(group, 16).to_bytes(2, "big")
    if "." in last:
        wrapped = packed(last)
        return out + wrapped if wrapped is not None else None
    return out + int(last, 16).to_bytes(2, "big") if _GROUP.fullmatch(last) else None


def _loose(text: str) -> bytes | None:
    """Return the IPv4 address a spelling of `inet_aton` stands for: one to four numbers, octal or hexadecimal too."""
    parts = text.split(".")
    if len(parts) > 4 or not all(map(_NUMBER.fullmatch, parts)):
        return None
    numbers = []
    for part in parts:
        octal = len(part) > 1 and part[0] == "0" and part[1] not in "xX"
        if len(part) > 64 or (octal and ("8" in part or "9" in part)):
            return None
        numbers.append(int(part, 8) if octal else int(part, 0))
    *high, last = numbers
    if any(number > 255 for number in high) or last >= 256 ** (5 - len(numbers)):
        return None
    return bytes(high) + last.to_bytes(5 - len(numbers), "big")


def is_number(host: str) -> bool:
    """Whether a host name would be read as an IPv4 address, right or wrong (WHATWG URL, "ends in a number")."""
    last = host.removesuffix(".").rpartition(".")[2]
    return last.isascii() and (last.isdigit() or bool(re.fullmatch(r"0[xX][0-9A-Fa-f]*", last)))


def read(text: str) -> bytes | None:
    """Return the bytes of an address in any spelling: standard, in brackets, decimal, octal, hexadecimal, short."""
    if text.startswith("[") and text.endswith("]"):
        return packed(text[1:-1]) if ":" in text else None
    return packed(text) if ":" in text else _loose(text.removesuffix("."))


def canonical(text: str) -> str | None:
    """Return the one text of an address given in any spelling (see `read`), None if it is no address."""
    data = read(text)
    return text_of(data) if data is not None else None


def plain(data: bytes) -> bytes:
    """Return the IPv4 address of an IPv4-mapped one, any other as it is."""
    return data[12:] if len(data) == 16 and data.startswith(_MAPPED) else data


def text_of(data: bytes) -> str:
    """Return the canonical text of 4 or 16 bytes (RFC 5952; an IPv4-mapped address as its IPv4)."""
    data = plain(data)
    if len(data) == 4:
        return ".".join(map(str, data))
    groups = [f"{int.from_bytes(data[at : at + 2], 'big'):x}" for at in range(0, 16, 2)]
    runs = re.finditer(r"(?:\b0(?::0)+\b)", ":".join(groups))
    longest = max((match[0] for match in runs), key=len, default="")
    if not longest:
        return ":".join(groups)
    before, _, after = f":{':'.join(groups)}:".partition(f":{longest}:")
    return f"{before[1:]}::{after[:-1]}"


def wrapped(data: bytes) -> tuple[bytes, ...]:
    """Return the IPv4 addresses that packets to `data` may end at."""
    if len(data) == 4:
        return ()
    if data.startswith(bytes(12)):  # IPv4-compatible; ::1 and :: are not
        return (data[12:],) if int.from_bytes(data[12:], "big") > 1 else ()
    if data.startswith(b"\x00\x64\xff\x9b" + bytes(8)):
        return (data[12:],)
    if data.startswith(b"\x00\x64\xff\x9b\x00\x01"):  # by the prefix lengths 48 and 96 of RFC 6052 2.2
        return data[6:8] + data[9:11], data[12:]
    if data.startswith(b"\x20\x02"):
        return (data[2:6],)
    if data.startswith(b"\x20\x01\x00\x00"):  # the relay, and the client with its bits inverted
        return data[4:8], bytes(255 - byte for byte in data[12:])
    return ()


_Row = tuple[int, int, int, Kind]


def _rows(table: tuple[tuple[str, int, Kind], ...], bits: int) -> tuple[_Row, ...]:
    rows = []
    for base, length, kind in table:
        value = int.from_bytes(packed(base) or b"", "big")
        rows.append((value >> (bits - length), bits - length, length, kind))
    return tuple(rows)


_ROWS_4: Final = _rows(_SPECIAL_4, 32)
_ROWS_6: Final = _rows(_SPECIAL_6, 128)


def place(data: bytes) -> tuple[Kind, int]:
    """Return (kind, prefix length) of the row that holds `data`: a rule that is to reach a reserved place must be
    no wider than that row. An address that wraps a worse one is of that one's kind, and must be named itself.
    """
    data = plain(data)
    value = int.from_bytes(data, "big")
    found: tuple[Kind, int] = ("public", 0)
    for base, shift, length, kind in _ROWS_4 if len(data) == 4 else _ROWS_6:
        if value >> shift == base:
            found = (kind, length)
            break
    for inner in wrapped(data):
        kind = place(inner)[0]
        if _SEVERITY.index(kind) > _SEVERITY.index(found[0]):
            found = (kind, 128)
    return found


def classify(address: str | bytes) -> Kind:
    """Return what kind of place `address` is; what is no address at all counts as reserved."""
    data = read(address) if isinstance(address, str) else address
    return place(data)[0] if data is not None and len(data) in (4, 16) else "reserved"
