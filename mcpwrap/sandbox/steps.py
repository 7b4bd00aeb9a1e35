"""The steps a plan is made of. Each is data; `sandbox.mounts` carries them out.

`path` is always a place in the server's view: absolute, no symlink on the way to it.
"""

from __future__ import annotations

from typing import NamedTuple


class Directory(NamedTuple):
    """An empty directory."""

    path: str

    def describe(self) -> str:
        return f"directory {self.path}"


class Link(NamedTuple):
    """A symlink, as the host has it."""

    path: str
    target: str

    def describe(self) -> str:
        return f"link      {self.path} -> {self.target}"


class File(NamedTuple):
    """A small read-only file with this content."""

    path: str
    content: bytes

    def describe(self) -> str:
        return f"file      {self.path} ({len(self.content)} bytes)"


class Tmpfs(NamedTuple):
    """Private memory file system: `size` in bytes, `inodes` files; noexec unless `executable`."""

    path: str
    size: int
    inodes: int
    mode: int
    executable: bool = False

    def describe(self) -> str:
        return f"tmpfs     {self.path} ({self.size >> 20} MiB{'' if self.executable else ', noexec'})"


class Bind(NamedTuple):
    """A tree or file of the host, with what is mounted below it. A writable one is noexec unless `executable`."""

    path: str
    source: str
    writable: bool = False
    directory: bool = True
    device: bool = False
    executable: bool = False

    def describe(self) -> str:
        writable = "rw" if self.executable else "rw,noexec"
        how = writable if self.writable else "device" if self.device else "ro"
        source = "" if self.source == self.path else f" from {self.source}"
        return f"bind      {self.path} ({how}){source}"


class Pin(NamedTuple):
    """A directory bound onto itself: a mount point cannot be renamed, nor can what is mounted below it move.

    A file, made where it is missing, so becomes a mount of its own: never executable, and not frozen with
    the mount around it.
    """

    path: str
    directory: bool = True

    def describe(self) -> str:
        return f"pin       {self.path}"


class Cover(NamedTuple):
    """Something empty and closed over a private file or directory inside a granted tree."""

    path: str
    directory: bool

    def describe(self) -> str:
        return f"cover     {self.path}"


class Proc(NamedTuple):
    """The procfs of the server's own pid namespace, with `read_only` parts; mounted by pid 1."""

    path: str
    read_only: tuple[str, ...]

    def describe(self) -> str:
        return f"proc      {self.path} (read-only: {' '.join(self.read_only)})"


Step = Directory | Link | File | Tmpfs | Bind | Pin | Cover | Proc
