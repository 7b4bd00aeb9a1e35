"""Path sockets of the host: reached where a `unix` rule says so, by whatever name, and nowhere else."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernel.networked import Network, network

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

TALK = """
def talk(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as peer:
        peer.settimeout(5)
        peer.connect(path)
        return peer.recv(100).decode()
"""


@pytest.fixture
def here() -> Iterator[Network]:
    with network() as found:
        yield found


class Daemon:
    """A daemon of the host that greets whoever connects."""

    def __init__(self, path: Path, greeting: str = "host", kind: int = socket.SOCK_STREAM) -> None:
        self.listener = socket.socket(socket.AF_UNIX, kind)
        self.listener.bind(str(path))
        self.listener.listen()
        self.greeting = greeting.encode()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            with peer:
                peer.send(self.greeting)

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def test_a_granted_socket_is_reached_as_written_and_by_its_links(here: Network) -> None:
    work = here.home / "w"
    work.mkdir()
    (work / "link").symlink_to("s")
    daemon, packets = Daemon(work / "s"), Daemon(work / "q", "packets", socket.SOCK_SEQPACKET)
    grant = f'[server]\nunix = ["{work}/s", "{work}/q"]\nfs_read = ["{work}"]\n'
    code = TALK + (
        f"show([talk({str(work)!r} + '/s'), talk({str(work)!r} + '/link')])\n"
        f"os.chdir({str(work)!r}); show(talk('s')); show(talk('../w/s'))\n"
        f"show([talk('q', socket.SOCK_SEQPACKET), outcome(talk, 'q')])\n"
        f"import stat; show(stat.S_ISSOCK(os.stat('s').st_mode))\n"
    )
    done = here.run(grant, code)
    daemon.close()
    packets.close()
    assert done.values == [["host", "host"], "host", "host", ["packets", "EPROTOTYPE"], True]
    assert not done.refused()


def test_a_socket_in_a_readable_directory_is_not_reached_without_a_rule(here: Network) -> None:
    work = here.home / "w"
    work.mkdir()
    (work / "link").symlink_to("s")
    daemon = Daemon(work / "s")
    code = TALK + f"show([outcome(talk, {str(work)!r} + name) for name in ('/s', '/link', '/../w/s')])"
    done = here.run(f'[server]\nfs_read = ["{work}"]\n', code)
    write = here.run(f'[server]\nfs_write = ["{work}"]\n', code)
    daemon.close()
    assert done.value() == write.value() == ["EACCES"] * 3
    assert done.refused("connect") == [f"{work}/s"] * 3


def test_a_socket_is_reached_in_its_windows_only(here: Network) -> None:
    daemon = Daemon(here.home / "s")
    path = str(here.home / "s")
    code = TALK + (
        f"before = outcome(talk, {path!r}); window('query'); during = talk({path!r}); window('other')\n"
        f"show([before, during, outcome(talk, {path!r})])"
    )
    done = here.run(f'[tools.query]\nunix = ["{path}"]\n', code)
    daemon.close()
    assert done.value()[1] == "host"
    assert {done.value()[0], done.value()[2]} <= {"EACCES", "ENOENT"}


def test_a_socket_that_a_restarted_daemon_made_anew_is_reached(here: Network) -> None:
    path = here.home / "s"
    first = socket.socket(socket.AF_UNIX)
    first.bind(str(path))
    first.listen()
    second: list[Daemon] = []

    def restart() -> None:
        with first, first.accept()[0] as peer:
            peer.send(b"first")
            path.unlink()
            second.append(Daemon(path, "second"))

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    code = f"""
def talk():
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(5)
        peer.connect({str(path)!r})
        return peer.recv(5, socket.MSG_WAITALL).decode() + peer.recv(5).decode()
show([talk(), talk()])
"""
    done = here.run(f'[server]\nunix = ["{path}"]\n', code)
    thread.join(5)
    second[0].close()
    assert done.value() == ["first", "second"]


def test_a_path_that_another_thread_changes_leads_to_no_other_socket(here: Network) -> None:
    granted, other = here.home / "granted", here.home / "forbids"
    daemons = Daemon(granted, "granted"), Daemon(other, "other")
    code = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
one, two = (b"\\x01\\0" + path.encode() + b"\\0" for path in ({str(granted)!r}, {str(other)!r}))
buffer = ctypes.create_string_buffer(110)
sys.setswitchinterval(1e-5)
stop = False
def change():
    while not stop:
        ctypes.memmove(buffer, one, len(one)); ctypes.memmove(buffer, two, len(two))
thread = threading.Thread(target=change, daemon=True)
thread.start()
said = set()
for _ in range(500):
    peer = socket.socket(socket.AF_UNIX)
    if libc.connect(peer.fileno(), buffer, len(one)) == 0:
        said.add(peer.recv(100).decode())
    peer.close()
stop = True
thread.join()
show(sorted(said))
"""
    done = here.run(f'[server]\nunix = ["{granted}"]\n', code)
    for daemon in daemons:
        daemon.close()
    assert done.value() == ["granted"]


def test_a_name_the_server_may_write_leads_to_no_other_socket(here: Network) -> None:
    """By a link in the place of the one that is granted, to one that may only be read."""
    work, read = here.home / "w", here.home / "r"
    work.mkdir()
    read.mkdir()
    daemons = Daemon(work / "s", "granted"), Daemon(read / "other", "other")
    grant = f'[server]\nunix = ["{work}/s"]\nfs_write = ["{work}"]\nfs_read = ["{read}"]\n'
    code = (
        TALK
        + f"""
name = {str(work)!r} + "/s"
show(talk(name))
os.unlink(name)
os.symlink({str(read)!r} + "/other", name)
show(outcome(talk, name))
"""
    )
    done = here.run(grant, code)
    for each in daemons:
        each.close()
    assert done.values == ["granted", "EACCES"]
    assert done.refused("connect") == [f"{read}/other"]


def test_nor_does_it_at_the_next_start(here: Network) -> None:
    work, read = here.home / "w", here.home / "r"
    work.mkdir()
    read.mkdir()
    daemon = Daemon(read / "other", "other")
    grant = f'[server]\nunix = ["{work}/s", "{work}/d/s"]\nfs_write = ["{work}"]\nfs_read = ["{read}"]\n'
    made = here.run(
        grant,
        f"os.symlink('../r/other', {str(work)!r} + '/s'); os.symlink('../r', {str(work)!r} + '/d'); show(1)",
    )
    assert made.values == [1], made
    (read / "s").symlink_to("other")
    code = TALK + f"show([outcome(talk, {str(work)!r} + name) for name in ('/s', '/d/s')])"
    done = here.run(grant, code)
    daemon.close()
    assert done.value() == ["EACCES", "EACCES"]


def test_no_other_socket_is_moved_to_the_name_of_the_one_that_is_granted(here: Network) -> None:
    """Neither itself nor with a directory; what has nothing to do with it is moved as ever."""
    work = here.home / "w"
    for name in ("granted", "other"):
        (work / name).mkdir(parents=True)
    daemons = Daemon(work / "granted" / "s", "granted"), Daemon(work / "other" / "s", "other")
    grant = f'[server]\nunix = ["{work}/granted/s"]\nfs_write = ["{work}"]\n'
    code = (
        TALK
        + f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def exchange(one, two):
    if libc.renameat2(-100, one.encode(), -100, two.encode(), 2):
        raise OSError(ctypes.get_errno(), "renameat2")
os.chdir({str(work)!r})
tries = [(os.rename, "granted", "old"), (os.rename, "other", "granted"), (exchange, "other", "granted"),
         (exchange, "other/s", "granted/s"), (os.rename, "other/s", "granted/s"), (os.rename, "granted/s", "s")]
show([outcome(*each) for each in tries])
os.unlink("granted/s")
show([outcome(os.rename, "other/s", "granted/s"), outcome(os.link, "other/s", "granted/s")])
os.rmdir("granted")
show([outcome(os.rename, "other", "granted"), outcome(talk, "granted/s"), outcome(os.rename, "other", "moved")])
"""
    )
    done = here.run(grant, code)
    for each in daemons:
        each.close()
    assert done.values == [["EACCES"] * 6, ["EACCES", "EPERM"], ["EACCES", "ENOENT", "done"]]
    assert (work / "moved" / "s").exists()


def test_abstract_addresses_stay_inside(here: Network) -> None:
    with socket.socket(socket.AF_UNIX) as host:
        host.bind(f"\0mcpwrap-{os.getpid()}")
        host.listen()
        code = (
            TALK
            + f"""
show(outcome(talk, "\\0mcpwrap-{os.getpid()}"))
own = socket.socket(socket.AF_UNIX); own.bind("\\0own"); own.listen()
threading.Thread(target=lambda: own.accept()[0].sendall(b"own")).start()
show(talk("\\0own"))
"""
        )
        done = here.run("[server]\n", code)
    assert done.values == ["ECONNREFUSED", "own"]


def test_a_daemon_that_was_busy_is_not_reached_when_the_window_has_closed(here: Network) -> None:
    busy, path = socket.socket(socket.AF_UNIX), str(here.home / "busy")
    busy.bind(path)
    busy.listen(0)
    filling = [socket.socket(socket.AF_UNIX)]
    while not filling[-1].connect_ex(path):
        filling.append(socket.socket(socket.AF_UNIX))
        filling[-1].setblocking(False)
    go = socket.socket(socket.AF_UNIX)
    go.bind(str(here.home / "go"))
    go.listen()
    said: list[bytes] = []

    def serve() -> None:
        go.accept()[0].close()
        busy.settimeout(5)
        for _ in filling[:-1]:
            busy.accept()[0].close()
        with busy.accept()[0] as peer:
            peer.settimeout(5)
            said.append(peer.recv(100))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    code = f"""
window("query")
peer = socket.socket(socket.AF_UNIX)
found = []
def talk():
    found.append(outcome(peer.connect, {path!r}))
    found.append(outcome(peer.send, b"owned"))
thread = threading.Thread(target=talk)
thread.start()
thread.join(0.5)
waits = thread.is_alive()
window("other")
socket.socket(socket.AF_UNIX).connect({str(here.home / "go")!r})
thread.join(5)
show([waits, *found])
"""
    grant = f'[server]\nunix = ["{here.home}/go"]\n[tools.query]\nunix = ["{path}"]\n'
    done = here.run(grant, code)
    thread.join(5)
    assert done.value() == [True, "ECONNREFUSED", "EPIPE"]
    assert said == [b""]
    for each in (busy, go, *filling):
        each.close()
