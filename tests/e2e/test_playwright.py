"""@playwright/mcp drives Chromium with Chromium's own sandbox on: granted hosts load, files of the user never do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.client import Message, Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap
from tests.e2e.internet import PUBLIC, PUBLIC_2, Internet
from tests.e2e.servers import program
from tests.e2e.test_chromium import renderers, status

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp", "chromium", "npm", "openssl")

SECONDS = 120
OPTIONS = ("--headless", "--isolated", "--executable-path", "/usr/bin/chromium")
PAGE = "<title>Granted</title><h1>page of the test</h1>"


@pytest.fixture(scope="module")
def internet() -> Iterator[Internet]:
    with Internet({"pages.example.com": [PUBLIC], "other.example.net": [PUBLIC_2]}) as made:
        made.web(PUBLIC, 80, lambda _: PAGE)
        made.web(PUBLIC_2, 80, lambda _: "<title>Elsewhere</title>")
        yield made


@pytest.fixture(scope="module")
def place() -> Bench:
    return bench("playwright")


@pytest.fixture(scope="module")
def session(internet: Internet, place: Bench, installed: Callable[[str], Path]) -> Iterator[Session]:
    server = installed("playwright")
    command = [*mcpwrap(), "--grant", str(place.write_grant("playwright")), "--", str(server), *OPTIONS]
    command += ["--output-dir", "/tmp/playwright"]
    with Session(
        internet.command(*command), env=place.env, cwd=place.work / "data", stderr=place.work / "stderr"
    ) as made:
        made.initialize(seconds=SECONDS)
        made.answer(made.request("tools/list"), SECONDS)
        yield made


def navigate(session: Session, url: str) -> Message:
    return session.call("browser_navigate", {"url": url}, SECONDS)


def test_a_page_of_a_granted_host_is_read(session: Session) -> None:
    answer = navigate(session, "http://pages.example.com/")
    assert not failed(answer), text(answer)
    assert "refused by mcpwrap" not in text(answer)
    said = session.call("browser_evaluate", {"function": "() => document.title"}, SECONDS)
    assert "Granted" in text(said)
    assert "page of the test" in text(session.call("browser_snapshot", {}, SECONDS))


def test_the_browsers_own_sandbox_is_on(session: Session) -> None:
    navigate(session, "http://pages.example.com/")
    for renderer in renderers(session.process.pid):
        assert int(status(renderer)["Seccomp_filters"]) == 2
        assert status(renderer)["NSpid"].split()[-1] == "1", "first of a pid namespace of its own"


def test_a_host_that_was_not_granted_is_refused_and_told(session: Session) -> None:
    answer = navigate(session, "http://other.example.net/")
    assert "Elsewhere" not in text(answer)
    assert "other.example.net" in text(answer) and "refused by mcpwrap" in text(answer)
    said = session.call("browser_evaluate", {"function": "() => document.title"}, SECONDS)
    assert "Elsewhere" not in text(said)


def test_a_screenshot_lands_in_its_own_temporary_directory(session: Session, place: Bench) -> None:
    navigate(session, "http://pages.example.com/")
    answer = session.call("browser_take_screenshot", {}, SECONDS)
    assert not failed(answer), text(answer)
    assert not list(place.work.rglob("*.png"))


def test_the_example_is_what_is_tested_but_for_the_hosts() -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "grants" / "playwright-mcp.toml"
    assert 'profile = ["node", "chromium"]' in example.read_text()
    assert program("playwright").name == "playwright-mcp"
