"""Measure mcpwrap beside a bare server and other launchers, in one run, and print one markdown table.

`--quick` takes a tenth of the repetitions. Figures of one run compare with each other and with no others.
"""

from __future__ import annotations

import compileall
import os
import platform
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import held, measures, network
from bench.launchers import Job
from tests.e2e.corpus import Bench, bench
from tests.e2e.servers import Unavailable, home, install, program

COLUMNS = ("bare", "bubblewrap", "sandlock", "strace -f", "mcpwrap")
SERVER = Path(__file__).resolve().parent / "server.py"
FILES = 10_000
GRANT = """schema = 1
[policy]
within = ["{W}/data"]
[tools."echo|sleep"]
[tools.opens]
fs_read = ["$arg:path"]
[tools.search]
fs_read = ["$arg:path"]
exec = ["rg"]
"""


NO_READS = 'schema = 1\n[tools."*"]\n'


class Table:
    """Prints rows as they are measured."""

    def __init__(self) -> None:
        print(f"Python {platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} CPUs\n")
        print(f"| | {' | '.join(COLUMNS)} | mcpwrap ÷ bare |")
        print("|---|" + "---|" * (len(COLUMNS) + 1))

    def row(self, name: str, figures: Mapping[str, float], unit: str, digits: int = 0) -> None:
        """Print one row; a way that was not measured is a dash."""
        cells = [f"{figures[way]:.{digits}f} {unit}" if way in figures else "–" for way in COLUMNS]
        bare = figures.get("bare")
        ratio = f"{figures['mcpwrap'] / bare:.2f}" if bare else "–"
        print(f"| {name} | {' | '.join(cells)} | {ratio} |", flush=True)


def main(arguments: list[str]) -> int:
    """Run everything; return the exit status."""
    quick = "--quick" in arguments
    # An installed package has its bytecode; a checkout that was just edited has not.
    compileall.compile_dir(Path(__file__).resolve().parents[1] / "mcpwrap", quiet=2)
    scale: Callable[[int], int] = (lambda count: max(3, count // 10)) if quick else (lambda count: count)
    table = Table()
    _starts(table, scale(11))
    place = bench("bench")
    job = _own(place)
    date = Job(["date", "+%s%N"], [], [], job.grant, job.home)
    table.row(
        "exec of the launcher → exec of the server, over bare",
        measures.to_exec(date, place, scale(21)),
        "ms",
        1,
    )
    table.row("first call, sent right after tools/list", measures.first_call(job, place, scale(11)), "ms", 1)
    calls = measures.small_calls(job, place, scale(2000))
    for index, name in enumerate(("p50", "p99")):
        table.row(f"one small call, {name}", {way: value[index] for way, value in calls.items()}, "µs")
    table.row("small calls, 8 in flight", measures.parallel_calls(job, place, scale(2000)), "/s")
    table.row("8 calls that sleep 1 s, together", measures.eight_sleeps(job, place), "s", 2)
    table.row("1 MB messages, there and back", measures.large_messages(job, place, scale(50)), "MB/s")
    file = place.work / "data" / "file"
    file.write_text("x")
    table.row(
        "one open and close of a granted file", measures.opens(job, place, file, scale(20_000)), "µs", 1
    )
    ripgrep = shutil.which("rg")
    if ripgrep:
        _many_files(place.work / "data" / "many")
        table.row(
            f"ripgrep over {FILES:,} files",
            measures.search(job, place, ripgrep, place.work / "data" / "many"),
            "ms",
        )
    for name, measure in (
        ("connect(2) alone, to an address", network.handshakes),
        ("a connection to a new name, from the look-up to the host's first byte", network.first_connects),
        ("another one to the same name", network.connects),
    ):
        table.row(name, measure(place, scale(5), scale(300)), "ms", 2)
    table.row("one download by a link of 10 Gbit/s", network.paced(place, scale(5)), "MB/s")
    table.row("one download, as fast as memory", network.bulk(place, scale(5)), "MB/s")
    memory = measures.private_memory(job, place)
    print(
        f"\nAnonymous memory of mcpwrap: {', '.join(f'{role} {size:.1f} MB' for role, size in memory.items())}.\n"
    )
    return held.main()


def _starts(table: Table, rounds: int) -> None:
    for name, grant in (("filesystem", "filesystem"), ("git", "git")):
        try:
            install(name)
        except Unavailable as problem:
            print(f"| start of {name}: {problem} |")
            continue
        for reads in (True, False):
            place = bench(f"bench-{name}", "git init -q data/r")
            file = place.write_grant(grant)
            if not reads:
                file.write_text(NO_READS + ('[server]\nprofile = ["git"]\n' if name == "git" else ""))
            directory = str(place.work / "data") if reads else "/usr/share"
            command = [str(program(name)), *([directory] if name == "filesystem" else [])]
            job = Job(command, [str(home(name))], [str(place.work / "data")], file, place.env["HOME"])
            which = "reads brokered" if reads else "no tool reads files"
            table.row(
                f"start of {program(name).name} to tools/list, {which}",
                measures.start(job, place, rounds),
                "s",
                3,
            )


def _own(place: Bench) -> Job:
    grant = place.work / "grant.toml"
    grant.write_text(GRANT.replace("{W}", str(place.work)))
    own = [str(SERVER.parent), *([] if sys.base_prefix == "/usr" else [sys.base_prefix]), sys.prefix]
    return Job([sys.executable, "-I", str(SERVER)], own, [str(place.work / "data")], grant, place.env["HOME"])


def _many_files(directory: Path) -> None:
    for index in range(FILES):
        file = directory / str(index % 100) / str(index)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("hay\n" * 50 + ("needle\n" if index % 10 == 0 else ""))
