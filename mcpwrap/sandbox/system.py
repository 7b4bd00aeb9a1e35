"""What every program may read of the system: libraries, locale, time zone, certificates, name tables.

The list is explicit for `/etc`, which is where hosts keep their secrets; `/run`, `/var`, `/sys`, `/opt`,
`/srv`, `/mnt` and other people's homes are not in it.
"""

from __future__ import annotations

import os
import struct
from typing import Final

DIRECTORIES: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
)

ETC: Final = (
    # the dynamic loader
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ld-musl-x86_64.path",
    "ld-musl-aarch64.path",
    # language and time
    "default/locale",
    "locale.alias",
    "locale.conf",
    "localtime",
    "timezone",
    # names: of users (ssh, git and node ask who they are), services, hosts
    "group",
    "gai.conf",
    "host.conf",
    "hosts",
    "nsswitch.conf",
    "passwd",
    "protocols",
    "resolv.conf",
    "services",
    # certificates, never /etc/ssl/private
    "ca-certificates",
    "crypto-policies",
    "pki/ca-trust/extracted",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    # what /usr links to on Debian and its kin
    "alternatives",
    # runtimes, fonts, terminals, file types
    "fonts",
    "inputrc",
    "magic",
    "mime.types",
    "os-release",
    "debian_version",
    "perl",
    "python3",
    *(f"python3.{minor}" for minor in range(11, 16)),
    "terminfo",
)

LOADERS: Final = (
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "/lib/ld-linux-aarch64.so.1",
    "/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
    "/lib/ld-musl-x86_64.so.1",
    "/lib/ld-musl-aarch64.so.1",
)
"""Where glibc and musl put the dynamic loader. A program may name another one (Nix): `loader_of` reads it."""

ELF_HEADER: Final = struct.Struct("<4xBB10xHH4x8xQ8x4x2xHH")
"""Of an ELF64 file header: class, data, type, machine, e_phoff, e_phentsize, e_phnum."""
PROGRAM_HEADER: Final = struct.Struct("<I4xQ8x8xQ")
"""Of an ELF64 program header: p_type, p_offset, p_filesz."""
PT_INTERP: Final = 3
ELF_BYTES: Final = 4096
"""Linkers put the program headers into the first page, and PATH_MAX is its size."""


def readable() -> tuple[str, ...]:
    """Return the paths of the list above that exist here, as written; of links also what they lead to."""
    listed = [*DIRECTORIES, *(f"/etc/{name}" for name in ETC)]
    found = [path for path in listed if os.path.exists(path)]
    outside = [real for real in map(os.path.realpath, found) if not within(real, found)]
    return tuple(dict.fromkeys([*found, *outside]))


def loaders(program: str) -> tuple[str, ...]:
    """Return the real paths of the dynamic loaders of the system and of the native `program`.

    execve opens a loader like a program, so it must be executable; as the program itself it is refused.
    """
    named = loader_of(program)
    found = (os.path.realpath(path) for path in (*LOADERS, named) if path and os.path.isfile(path))
    return tuple(dict.fromkeys(found))


def loader_of(program: str) -> str:
    """Return the loader a native 64-bit program names, or nothing (static, other classes, unreadable)."""
    try:
        with open(program, "rb") as file:
            data = file.read(ELF_BYTES)
            bits, order, _, _, offset, size, count = ELF_HEADER.unpack_from(data)
            if data[:4] != b"\x7fELF" or (bits, order) != (2, 1):
                return ""
            for index in range(count):
                kind, start, length = PROGRAM_HEADER.unpack_from(data, offset + index * size)
                if kind == PT_INTERP:
                    file.seek(start)
                    return os.fsdecode(file.read(min(length, ELF_BYTES)).rstrip(b"\0"))
    except (OSError, struct.error):
        pass
    return ""


def within(path: str, roots: tuple[str, ...] | list[str]) -> bool:
    """Whether `path` is one of `roots` or below one of them."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)
