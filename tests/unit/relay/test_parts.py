"""The relay's smaller parts on their own."""

from __future__ import annotations

import mmap
import os
import random
import tomllib
from pathlib import Path

import pytest

from mcpwrap.limits import STARTUP_LIMIT_SECONDS, STARTUP_QUIET_SECONDS
from mcpwrap.operation import Denial
from mcpwrap.relay.hostview import named_object, resolve, strings
from mcpwrap.relay.startup import LOOK_SECONDS, StartupWatch
from mcpwrap.relay.status import LINE_BYTES, LineReader, Told
from mcpwrap.relay.stderr import TAIL_LINES, ErrorOutput, Tail
from mcpwrap.relay.streams import Outbox
from mcpwrap.relay.telling import Refusals


class Slow:
    """A sink that takes what it is told to."""

    fd = -1

    def __init__(self) -> None:
        self.taken = b""
        self.room = 0

    def write(self, data: memoryview) -> int:
        count = min(self.room, len(data))
        self.taken += bytes(data[:count])
        self.room -= count
        return count


def test_an_outbox_keeps_order_and_count_whatever_the_sink_takes() -> None:
    chance = random.Random(1)
    sink = Slow()
    box = Outbox(sink)
    sent = b""
    for _ in range(500):
        data = chance.randbytes(chance.choice((0, 1, 100, 70_000)))
        sink.room = chance.choice((0, 1, 50_000, 200_000))
        box.put(data)
        sent += data
        if chance.random() < 0.5:
            box.flush()
        assert box.size == len(sent) - len(sink.taken)
    sink.room = 1 << 30
    box.flush()
    assert sink.taken == sent
    assert box.size == 0


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_tail_holds_the_last_lines_however_they_arrive(size: int) -> None:
    text = "".join(f"line {n}\n" for n in range(100)) + "unended"
    tail = Tail()
    for start in range(0, len(text), size):
        tail.add(text[start : start + size].encode())
    assert tail.lines() == text.split("\n")[-TAIL_LINES:]


def test_the_tail_is_bounded_and_plain() -> None:
    tail = Tail()
    for _ in range(100):
        tail.add(b"\x1b[2J" + b"x" * 1_000_000)
    assert sum(map(len, tail.lines())) <= 2000
    assert "\x1b" not in tail.lines()[0]


def test_without_a_stderr_nothing_is_said_and_nothing_fails() -> None:
    output = ErrorOutput(None)
    output.say("hello")
    output.server(b"last words\n")
    output.flush()
    assert output.tail.lines() == ["last words"]


def test_own_lines_begin_at_the_beginning_of_a_line() -> None:
    sink = Slow()
    sink.room = 1000
    output = ErrorOutput(sink)
    output.server(b"half a line")
    output.say("ours")
    assert sink.taken == b"half a line\nmcpwrap: ours\n"


def test_unread_stderr_is_dropped_and_counted() -> None:
    sink = Slow()
    output = ErrorOutput(sink)
    for _ in range(100):
        output.server(b"x" * 9_999 + b"\n")
    assert output.dropped > 700_000
    sink.room = 1 << 30
    output.flush()
    assert b"bytes of stderr were not read in time" in sink.taken
    assert len(sink.taken) < 300_000


def test_status_lines_are_taken_in_whatever_the_pieces() -> None:
    reader, writer = os.pipe2(os.O_NONBLOCK)
    lines = LineReader(reader)
    told = Told()
    for piece in (
        b'{"started": {"pid": 7, "prot',
        b'ections": {"a": "active"}}}\n{"exit": {"status": 3}}\n{"en',
    ):
        os.write(writer, piece)
        for line in lines.lines():
            told.take(line)
    assert (told.pid, dict(told.protections), told.exit_status) == (7, {"a": "active"}, 3)
    os.close(writer)
    assert lines.lines() == []
    assert not lines.open
    os.close(reader)
    assert LINE_BYTES > 4096 * 6 * 2


def test_start_up_ends_after_a_quiet_time_and_not_before_it_is_armed() -> None:
    memory = mmap.mmap(-1, 8)
    counter = memoryview(memory).cast("Q")
    watch = StartupWatch(memoryview(memory))
    assert watch.deadline(0) is None
    assert not watch.ended(100)
    watch.arm(100)
    counter[0] += 1
    assert not watch.ended(100 + STARTUP_QUIET_SECONDS)
    assert not watch.ended(100 + 2 * STARTUP_QUIET_SECONDS - 0.001)
    assert watch.ended(100 + 2 * STARTUP_QUIET_SECONDS)
    assert not watch.ended(200)
    assert watch.over


def test_start_up_ends_at_the_latest_after_its_limit() -> None:
    memory = mmap.mmap(-1, 8)
    counter = memoryview(memory).cast("Q")
    watch = StartupWatch(memoryview(memory))
    watch.arm(0)
    now = 0.0
    while not watch.ended(now):
        counter[0] += 1
        now += 0.1
    assert now == pytest.approx(STARTUP_LIMIT_SECONDS, abs=0.2)


def test_start_up_ends_only_when_the_cache_is_frozen() -> None:
    asked: list[float] = []
    watch = StartupWatch(memoryview(mmap.mmap(-1, 8)), lambda: asked.append(0))
    watch.arm(0)
    assert not watch.ended(STARTUP_QUIET_SECONDS)
    assert not watch.ended(STARTUP_QUIET_SECONDS + 1), "the answer is waited for"
    assert (watch.deadline(1.0) or 0) > 1.0, "and not in a busy loop"
    assert len(asked) == 1
    watch.froze("EBUSY", 2.0)
    assert not watch.ended(2.0)
    assert watch.ended(2.0 + LOOK_SECONDS + 0.001) is False and len(asked) == 2, "asked once more"
    watch.froze("", 2.1)
    assert watch.ended(2.1)
    assert watch.over and not watch.failed


@pytest.mark.parametrize(
    ("error", "now", "reason"),
    [("EBUSY", STARTUP_LIMIT_SECONDS, "open for writing"), ("EINVAL", 1.0, "EINVAL")],
)
def test_start_up_that_cannot_end_says_why(error: str, now: float, reason: str) -> None:
    watch = StartupWatch(memoryview(mmap.mmap(-1, 8)), lambda: None)
    watch.arm(0)
    assert not watch.ended(now)
    watch.froze(error, now)
    assert reason in watch.failed
    assert not watch.over


def test_an_answer_nobody_asked_for_freezes_nothing() -> None:
    watch = StartupWatch(memoryview(mmap.mmap(-1, 8)), lambda: None)
    watch.arm(0)
    watch.froze("", 0)
    assert not watch.ended(STARTUP_QUIET_SECONDS)


def test_an_argument_names_an_object_as_the_server_would_read_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "dangling").symlink_to("/nonexistent/x")
    home, real = str(tmp_path), str(tmp_path / "file")
    assert named_object("file", "/", home) == real
    assert named_object("~/link", home, "/") == real
    assert named_object(f"file://{real}", "/", "/") == real
    assert named_object("dangling", "/", home) == "/nonexistent/x"
    assert named_object("missing", "/", home) == ""
    for strange in ("", "\0", "a\nb", "x" * 5000, "\ud800"):
        assert named_object(strange, home, home) == ""


def test_a_fifo_is_looked_at_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert resolve(str(tmp_path / "fifo")).kind == "other"
    assert resolve(str(tmp_path)).kind == "directory"
    assert resolve(str(tmp_path / "a" / "b")).kind == "missing"


def test_a_path_resolves_as_realpath_resolves_it(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    directory.mkdir()
    for name in ("file", "gone (deleted)"):
        (directory / name).touch()
    (tmp_path / "link").symlink_to("d")
    (directory / "dangling").symlink_to("../nothing")
    (tmp_path / "loop").symlink_to("loop")
    reader, writer = os.pipe()
    named = (
        "link/file",
        "link/../d/file",
        "link/gone (deleted)",
        "d/dangling",
        "link/x/y",
        "d/file/x",
        "loop",
        "",
    )
    for path in (*(f"{tmp_path}/{name}" for name in named), f"/proc/self/fd/{reader}", "/proc/self/root/etc"):
        assert resolve(path).real == os.path.realpath(path)
    os.close(reader)
    os.close(writer)
    assert resolve("/\ud800").kind == "missing"
    assert resolve("/\0").kind == "missing"


def test_strings_of_arguments_are_found_at_any_depth_and_bounded() -> None:
    assert list(strings({"a": "x", "b": [{"c": "y"}, 1, None], "d": {"e": ["z"]}})) == ["x", "y", "z"]
    assert len(list(strings({"many": ["x"] * 10_000}))) == 256


def denial(object: str, offer: str = "", tool: str = "t") -> Denial:
    return Denial("read", object, "no-grant", (tool,), "sentence", offer)


def test_each_refusal_is_told_once_with_the_line_that_would_allow_it() -> None:
    sink = Slow()
    sink.room = 1 << 30
    refusals = Refusals(ErrorOutput(sink), "/g.toml", exists=False, keeps='[server]\nprofile = ["node"]')
    for _ in range(3):
        refusals.say(denial("/x", '[tools.t]\nfs_read = ["/x"]'))
    said = sink.taken.decode()
    assert said == (
        'mcpwrap: refused: t: read "/x" (rule no-grant); to allow it write /g.toml, the first grant of this server:\n'
        "    schema = 1\n    \n    [server]\n"
        '    profile = ["node"]\n    \n    [tools.t]\n    fs_read = ["/x"]\n'
        "mcpwrap: and restart the server in your client\n"
    )
    refusals.say(denial("/y", '[tools.u]\nfs_read = ["/y"]', "u"))
    assert sink.taken.decode()[len(said) :] == (
        'mcpwrap: refused: u: read "/y" (rule no-grant); to allow it add to /g.toml:\n'
        '    [tools.u]\n    fs_read = ["/y"]\nmcpwrap: and restart the server in your client\n'
    )


def telling(tmp_path: Path) -> tuple[Path, Slow, Refusals]:
    """Return an empty grant file, a sink with room, and what tells of refusals under the one into the other."""
    file, sink = tmp_path / "g.toml", Slow()
    file.write_text("")
    sink.room = 1 << 30
    return file, sink, Refusals(ErrorOutput(sink), str(file), exists=True)


def pasted_of(said: bytes) -> list[str]:
    return [line.strip() for line in said.decode().splitlines() if line.startswith("    ")]


def test_a_line_is_offered_alone_and_says_where_it_goes_beside_those_before(tmp_path: Path) -> None:
    file, sink, refusals = telling(tmp_path)
    refusals.say(denial("/x/a", '[tools.t]\nfs_read = ["/x/a"]'))
    assert f"; to allow it add to {file}:\n    [tools.t]\n" in sink.taken.decode()
    sink.taken = b""
    refusals.say(denial("/y", '[tools.t]\nfs_write = ["/y"]'))
    assert f"; to allow it add to [tools.t] of {file}:\n" in sink.taken.decode()
    assert pasted_of(sink.taken) == ['fs_write = ["/y"]']
    sink.taken = b""
    refusals.say(denial("/y/z", '[tools.t]\nfs_read = ["/y/z"]'))
    assert sink.taken.endswith(b"; what is to be added for one before allows it, too\n")
    sink.taken = b""
    refusals.say(denial("/x", '[tools.t]\nfs_read = ["/x"]'))
    assert f"; to allow it add to fs_read of [tools.t] of {file}:\n" in sink.taken.decode()
    assert pasted_of(sink.taken) == ['"/x"']


def test_what_gives_up_a_promise_is_named_and_never_offered_for_pasting(tmp_path: Path) -> None:
    _, sink, refusals = telling(tmp_path)
    refusals.say(denial("/tmp/x")._replace(rule="writable"))
    assert b"`any-writable`" in sink.taken
    assert pasted_of(sink.taken) == []


def test_lines_for_a_table_that_is_there_go_into_it(tmp_path: Path) -> None:
    file, sink, refusals = telling(tmp_path)
    table = denial("/x", '[tools.t]\nfs_write = ["/x"]')._replace(place="[tools.t] (line 3)")
    array = denial("/y", '[tools.t]\nfs_read = ["/y"]')._replace(place="fs_read of [tools.t] (line 4)")
    refusals.say(table)
    assert f'add to [tools.t] (line 3) of {file}:\n    fs_write = ["/x"]\nmcpwrap: and' in sink.taken.decode()
    sink.taken = b""
    refusals.say(array)
    assert f'add to fs_read of [tools.t] (line 4) of {file}:\n    "/y"\nmcpwrap: and' in sink.taken.decode()


def test_a_flood_of_different_refusals_is_cut_off() -> None:
    sink = Slow()
    sink.room = 1 << 30
    refusals = Refusals(ErrorOutput(sink), "/g.toml", exists=False)
    for n in range(1000):
        refusals.say(denial(f"/{n}"))
    assert sink.taken.count(b"\n") == 101
    assert b"mcpwrap audit" in sink.taken


def test_a_changed_grant_file_is_said_at_the_next_refusal(tmp_path: Path) -> None:
    file = tmp_path / "g.toml"
    file.write_text("schema = 1\n")
    sink = Slow()
    sink.room = 1 << 30
    refusals = Refusals(ErrorOutput(sink), str(file), exists=True)
    refusals.say(denial("/a"))
    assert b"has changed" not in sink.taken
    file.write_text("schema = 1 # more\n")
    refusals.say(denial("/b"))
    refusals.say(denial("/c"))
    assert sink.taken.count(b"has changed") == 1


def test_an_early_death_offers_one_table_for_all_that_was_missing() -> None:
    sink = Slow()
    sink.room = 1 << 30
    output = ErrorOutput(sink)
    keeps = '[server]\nprofile = ["node"]\nfs_read = ["/known"]'
    refusals = Refusals(output, "/home/u/g.toml", exists=False, keeps=keeps)
    refusals.say(denial("/b", '[startup]\nfs_read = ["/b"]'))
    refusals.say(denial("/c", '[startup]\nfs_read = ["/c"]\nexec = ["git"]'))
    refusals.say(denial("/home/u/.ssh/id"))
    output.server(b"Traceback: no /a\n")
    text = refusals.early_death("server", "/home/u", ["/a", "/known"], lambda path: path == "/known")
    assert "  | Traceback: no /a" in text
    assert "names /a, which it may not read" in text
    assert '"/home/u/.ssh/id"' in text
    pasted = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    assert tomllib.loads(pasted) == {
        "schema": 1,
        "server": {"profile": ["node"], "fs_read": ["/known"]},
        "startup": {"fs_read": ["/a", "/b", "/c"], "exec": ["git"]},
    }
    assert text.endswith("\nand restart the server in your client")
