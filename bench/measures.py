"""What is measured. Each function returns way → figure for one job; ways are measured in turns."""

from __future__ import annotations

import contextlib
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench.launchers import Job, ways
from tests.e2e.client import Session, text
from tests.e2e.corpus import Bench
from tests.e2e.test_shutdown import descendants

Figures = dict[str, float]
MEGABYTE = 1 << 20


def median(values: list[float]) -> float:
    """Return the median; the figures of a shared machine have long tails."""
    return statistics.median(values)


@contextlib.contextmanager
def started(command: list[str], place: Bench) -> Iterator[Session]:
    """Start a server, do the handshake, list its tools, and end it. The first call is still to come."""
    stderr = place.work / "bench.stderr"
    with Session(command, env=place.env, cwd=place.work / "data", stderr=stderr) as session:
        session.initialize()
        session.answer(session.request("tools/list"))
        yield session


@contextlib.contextmanager
def warm(command: list[str], place: Bench) -> Iterator[Session]:
    """The same once the first call, which mcpwrap holds until start-up is over, is answered."""
    with started(command, place) as session:
        session.call("echo", {"text": ""})
        yield session


def first_call(job: Job, place: Bench, rounds: int) -> Figures:
    """Milliseconds from sending the first call, right after tools/list, to its answer."""

    def once(command: list[str]) -> float:
        with started(command, place) as session:
            begin = time.perf_counter()
            session.call("echo", {"text": ""})
            return (time.perf_counter() - begin) * 1000

    return in_turns(ways(job), rounds, once)


def in_turns(commands: Mapping[str, list[str]], rounds: int, once: Callable[[list[str]], float]) -> Figures:
    """Measure each way `rounds` times, in turns, so that a busy minute hits all; return medians."""
    found: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(once(command))
    return {name: median(values) for name, values in found.items()}


def start(job: Job, place: Bench, rounds: int) -> Figures:
    """Seconds from exec to the answer to tools/list."""

    def once(command: list[str]) -> float:
        begin = time.perf_counter()
        with started(command, place):
            return time.perf_counter() - begin

    return in_turns(ways(job), rounds, once)


def to_exec(job: Job, place: Bench, rounds: int) -> Figures:
    """Milliseconds from starting the launcher to the server's exec; the job's command is `date +%s%N`."""

    def once(command: list[str]) -> float:
        begin = time.time_ns()
        done = subprocess.run(
            command,
            env=dict(place.env),
            cwd=place.work / "data",
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = re.search(r"\b(\d{19})\b", done.stdout + done.stderr)
        assert said, (command, done.stdout, done.stderr)
        return (int(said[1]) - begin) / 1e6

    figures = in_turns(ways(job), rounds, once)
    return {name: value - figures["bare"] for name, value in figures.items()}


def small_calls(job: Job, place: Bench, count: int) -> dict[str, tuple[float, float]]:
    """(p50, p99) microseconds of one small call."""
    found = {}
    for name, command in ways(job).items():
        with warm(command, place) as session:
            spent = []
            for _ in range(count):
                begin = time.perf_counter()
                session.call("echo", {"text": "x" * 100})
                spent.append((time.perf_counter() - begin) * 1e6)
            spent.sort()
            found[name] = (spent[count // 2], spent[count * 99 // 100])
    return found


def parallel_calls(job: Job, place: Bench, count: int) -> Figures:
    """Calls a second with 8 always in flight."""

    def once(command: list[str]) -> float:
        with warm(command, place) as session:
            begin = time.perf_counter()
            flying = [session.start_call("echo", {"text": "x" * 100}) for _ in range(8)]
            for _ in range(count):
                session.answer(flying.pop(0))
                flying.append(session.start_call("echo", {"text": "x" * 100}))
            for call in flying:
                session.answer(call)
            return (count + 8) / (time.perf_counter() - begin)

    return in_turns(ways(job), 3, once)


def eight_sleeps(job: Job, place: Bench) -> Figures:
    """Seconds that 8 calls of one tool take together, each sleeping 1 s."""

    def once(command: list[str]) -> float:
        with warm(command, place) as session:
            begin = time.perf_counter()
            for call in [session.start_call("sleep", {"seconds": 1}) for _ in range(8)]:
                session.answer(call)
            return time.perf_counter() - begin

    return in_turns(ways(job), 1, once)


def large_messages(job: Job, place: Bench, count: int) -> Figures:
    """Megabytes a second, each way, of 1 MB messages one after the other."""

    def once(command: list[str]) -> float:
        with warm(command, place) as session:
            begin = time.perf_counter()
            for _ in range(count):
                session.call("echo", {"text": "x" * MEGABYTE})
            return count / (time.perf_counter() - begin)

    return in_turns(ways(job), 3, once)


def opens(job: Job, place: Bench, file: Path, count: int) -> Figures:
    """Microseconds of one open and close of a granted file."""

    def once(command: list[str]) -> float:
        with warm(command, place) as session:
            return int(text(session.call("opens", {"path": str(file), "count": count}))) / 1000

    return in_turns(ways(job), 3, once)


def search(job: Job, place: Bench, program: str, directory: Path) -> Figures:
    """Milliseconds of ripgrep over a granted directory."""

    def once(command: list[str]) -> float:
        with warm(command, place) as session:
            answer = text(session.call("search", {"program": program, "path": str(directory)}))
            seconds, _ = answer.split("\n")[0].split()
            return float(seconds) * 1000

    return in_turns(ways(job), 3, once)


def private_memory(job: Job, place: Bench) -> dict[str, float]:
    """Megabytes of anonymous memory of mcpwrap's own processes, by role, idle after 200 calls.

    Resident less file-backed pages, from /proc/PID/statm, which anyone may read: what is shared
    copy-on-write between the relay and the processes forked from it is counted in each.
    """
    with warm(ways(job)["mcpwrap"], place) as session:
        for _ in range(200):
            session.call("echo", {"text": "x"})
        tree = sorted(pid for pid, _ in descendants(session.process.pid))
        found: dict[str, float] = {}
        for role, pid in zip(("relay", "stem and broker", "init"), tree, strict=False):
            resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
            found[role] = (int(resident) - int(shared)) * 4096 / MEGABYTE
        return found
