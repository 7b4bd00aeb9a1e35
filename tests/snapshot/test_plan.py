"""The plan of an ordinary server, line by line: a change of the sandbox shows here first."""

from __future__ import annotations

from mcpwrap.sandbox.plan import describe
from mcpwrap.sandbox.replica import Replica
from tests.unit.sandbox.machine import HOME, USUAL, Machine

EXPECTED = """\
make      /home/u/.local/share/mcpwrap/s (0700, on the host)
make      /home/u/.local/share/mcpwrap/s/home (0700, on the host)
make      /home/u/.cache/mcpwrap/s (0700, on the host)
link      /bin -> usr/bin
bind      /data/work (rw,noexec)
cover     /data/work/.aws
directory /dev
link      /dev/fd -> /proc/self/fd
bind      /dev/full (device)
bind      /dev/null (device)
bind      /dev/random (device)
tmpfs     /dev/shm (512 MiB, noexec)
link      /dev/stderr -> fd/2
link      /dev/stdin -> fd/0
link      /dev/stdout -> fd/1
bind      /dev/urandom (device)
bind      /dev/zero (device)
file      /etc/hosts (64 bytes)
file      /etc/nsswitch.conf (202 bytes)
bind      /etc/passwd (ro)
file      /etc/resolv.conf (85 bytes)
bind      /home/u (rw,noexec) from /home/u/.local/share/mcpwrap/s/home
pin       /home/u/.cache
pin       /home/u/.cache/mcpwrap
bind      /home/u/.cache/mcpwrap/s (rw,noexec)
pin       /home/u/.local
pin       /home/u/.local/share
pin       /home/u/.local/share/mcpwrap
bind      /home/u/.local/share/mcpwrap/s (rw,noexec)
pin       /home/u/.local/share/mcpwrap/s/home
bind      /home/u/docs (ro)
link      /home/u/work -> /data/work
bind      /opt/server (ro)
proc      /proc (read-only: sys sysrq-trigger irq bus)
tmpfs     /tmp (1024 MiB, noexec)
bind      /tmp/scratch (rw,noexec)
bind      /usr (ro)
seal      /data/work/.aws
seal      /
landlock  write   /home/u
landlock  write   /home/u/.local/share/mcpwrap/s
landlock  write   /home/u/.cache/mcpwrap/s
landlock  read    /usr
landlock  read    /usr/bin
landlock  read    /etc/passwd
landlock  write   /data/work
landlock  write   /tmp/scratch
landlock  read    /home/u/docs
landlock  read    /opt/server
landlock  read    /usr/bin/node
landlock  execute /usr/bin/node
landlock  execute /usr/lib/ld.so
landlock  private /tmp
landlock  private /dev/shm
landlock  device  /dev/null
landlock  device  /dev/zero
landlock  device  /dev/full
landlock  device  /dev/random
landlock  device  /dev/urandom
landlock  read    /etc/resolv.conf
landlock  read    /etc/hosts
landlock  read    /etc/nsswitch.conf
landlock  device  /proc
left out  /srv/missing: does not exist
left out  /usr/bin/git: does not exist
cwd       /data/work
exec      /usr/bin/node
"""


def test_the_plan_of_an_ordinary_server() -> None:
    machine = Machine(
        USUAL
        | {
            "/etc/passwd": "f",
            "/opt/server/index.js": "f",
            HOME + "/work": "-> /data/work",
            "/data/work/a": "f",
            "/data/work/.aws/credentials": "f",
            HOME + "/docs/x": "f",
            "/tmp/scratch/x": "f",
        }
    )
    made = machine.plan(
        reads=(HOME + "/docs", "/srv/missing"),
        writes=("/data/work", HOME + "/work", "/tmp/scratch"),
        executables=("/usr/bin/git",),
        covers=("/data/work/.aws",),
        links=(HOME + "/work",),
        system=("/usr", "/bin", "/etc/passwd"),
        installation=("/opt/server",),
        cwd=HOME + "/work",
    )
    assert "\n".join(describe(made)) + "\n" == EXPECTED


COPIED = """\
bind      /opt/server (rw,noexec) from /home/u/.local/share/mcpwrap/~copies/s/0d/0
pin       /opt/server/lib
pin       /opt/server/lib/native
bind      /opt/server/lib/native/a.so (ro)
"""


def test_a_copied_installation_is_written_around_its_native_files() -> None:
    """The native file is the original; what it lies in cannot be moved away from under it."""
    native = "/opt/server/lib/native/a.so"
    source = "/home/u/.local/share/mcpwrap/~copies/s/0d/0"
    made = Machine({**USUAL, native: "f", "/opt/server": "d"}).plan(
        installation=("/opt/server",), replicas=(Replica("/opt/server", source, (native,), True),)
    )
    lines = describe(made)
    assert "".join(f"{line}\n" for line in lines if line.split()[1].startswith("/opt")) == COPIED
    assert "landlock  write   /opt/server" in lines
    assert f"landlock  read    {native}" in lines
