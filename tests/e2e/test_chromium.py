"""Debian's Chromium under mcpwrap, with its own sandbox on: pages render, and only what was granted is read."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.corpus import Bench, bench, mcpwrap

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "chromium")

SECONDS = 60
LOOK_SECONDS = 0.1
PAGE = "<h1 id=x>before</h1><script>document.getElementById('x').textContent = 'rendered ' + 6 * 7</script>"
SETUP = f'echo "{PAGE}" > data/page.html; mkdir out/more; cp data/page.html out/page.html'
GRANT = """
schema = 1
[server]
profile = ["chromium"]
fs_read = ["{W}/data"]
"""
NETWORK = ("connect", "lookup", "send")
"""This grant has no network, and Chromium looks for one."""


def command(place: Bench, *options: str, grant: str = GRANT) -> list[str]:
    file = place.work / "grant.toml"
    file.write_text(grant.replace("{W}", str(place.work)))
    file.chmod(0o600)
    return [*mcpwrap(), "--grant", str(file), "--", "chromium", "--headless", "--disable-gpu", *options]


@contextmanager
def running(place: Bench, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    with open(place.work / "stderr", "wb") as err:
        process = subprocess.Popen(
            command(place, *options),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=place.env,
            cwd=place.work / "data",
        )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(SECONDS)


def dumped(place: Bench, url: str) -> str:
    """Return the document of `url` after its scripts have run."""
    # The end of its input would end it; and it speaks no protocol: its lines are passed on as noise.
    reader, writer = os.pipe()
    try:
        done = subprocess.run(
            command(place, "--dump-dom", url),
            stdin=reader,
            capture_output=True,
            env=place.env,
            cwd=place.work / "data",
            timeout=SECONDS,
            check=False,
        )
    finally:
        os.close(reader)
        os.close(writer)
    return done.stdout.decode() + done.stderr.decode()


def descendants(pid: int) -> list[int]:
    found = [pid]
    for each in found:
        try:
            for task in Path(f"/proc/{each}/task").iterdir():
                found += map(int, (task / "children").read_text().split())
        except OSError:
            continue
    return found


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def renderers(pid: int) -> list[int]:
    """Return the processes of the tree that render pages and have put their filter on, waiting for one."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = []
        for each in descendants(pid):
            try:
                words = Path(f"/proc/{each}/cmdline").read_bytes()
                if b"--type=renderer" in words and int(status(each)["Seccomp_filters"]) > 1:
                    found.append(each)
            except OSError:
                continue
        if found:
            return found
        time.sleep(LOOK_SECONDS)
    raise AssertionError("no renderer")


def test_a_granted_page_renders_and_a_data_url_too() -> None:
    place = bench("chromium-page", SETUP)
    assert "rendered 42" in dumped(place, f"file://{place.work}/data/page.html")
    assert "rendered 42" in dumped(place, f"data:text/html,{PAGE}")


def test_a_page_that_was_not_granted_is_not_read() -> None:
    place = bench("chromium-secret", SETUP)
    for path in ("out/page.html", "out/secret.txt"):
        said = dumped(place, f"file://{place.work}/{path}")
        assert "rendered 42" not in said
        assert "TOP-SECRET" not in said
        assert f"{place.work}/{path}" in said, "it is told"


def test_its_own_sandbox_is_on() -> None:
    place = bench("chromium-sandbox", SETUP)
    with running(place, "--remote-debugging-port=0", f"file://{place.work}/data/page.html") as process:
        for renderer in renderers(process.pid):
            found = status(renderer)
            assert len(found["NSpid"].split()) == 4, "here, the server's, the zygote's, its own"
            assert found["Seccomp"] == "2"
            assert found["CapEff"] == "0" * 16
            user, network = (os.stat(f"/proc/{renderer}/ns/{name}").st_ino for name in ("user", "net"))
            assert user != os.stat("/proc/self/ns/user").st_ino
            browser = next(
                each
                for each in descendants(process.pid)
                if b"/chromium/chromium\0" in Path(f"/proc/{each}/cmdline").read_bytes()
                and b"--type=" not in Path(f"/proc/{each}/cmdline").read_bytes()
            )
            assert user != os.stat(f"/proc/{browser}/ns/user").st_ino
            assert network != os.stat(f"/proc/{browser}/ns/net").st_ino
            assert os.readlink(f"/proc/{renderer}/root").endswith("/fdinfo")


def test_a_start_meets_no_refusal_that_is_told() -> None:
    """The profile is whole: beyond the network, which was not granted, nothing is missing."""
    place = bench("chromium-clean", SETUP)
    assert "rendered 42" in dumped(place, f"file://{place.work}/data/page.html")
    refused = [
        record
        for record in place.audit()
        if record.get("allowed") is False and not record.get("quiet") and record["act"] not in NETWORK
    ]
    assert refused == []


def test_without_the_line_it_does_not_start() -> None:
    place = bench("chromium-plain", SETUP)
    grant = GRANT.replace('profile = ["chromium"]', 'exec = ["/usr/lib/chromium/*"]')
    done = subprocess.run(
        [
            *command(place, grant=grant)[:-3],
            "/usr/lib/chromium/chromium",
            "--headless",
            "--dump-dom",
            "about:blank",
        ],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=place.env,
        cwd=place.work / "data",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode
    assert b"sandbox" in done.stderr
