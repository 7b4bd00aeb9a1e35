"""Fixtures of the end-to-end tests: installed servers, or the reason there are none."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import MUST_WORK, must_work
from tests.e2e.corpus import WORK
from tests.e2e.servers import Unavailable, install


@pytest.fixture(scope="session")
def installed() -> Callable[[str], Path]:
    """Return a function that installs a server once and skips the test, with the reason, if it cannot."""
    refused: dict[str, str] = {}

    def get(name: str) -> Path:
        try:
            if name not in refused:
                return install(name)
        except Unavailable as problem:
            refused[name] = str(problem)
        if must_work("servers"):
            pytest.fail(f"{MUST_WORK} is set, and {name} is not to be had: {refused[name]}", pytrace=False)
        pytest.skip(f"{name} is not to be had: {refused[name]}")

    return get


@pytest.fixture(scope="session", autouse=True)
def _no_work_is_left() -> Iterator[None]:
    yield
    shutil.rmtree(WORK, ignore_errors=True)
