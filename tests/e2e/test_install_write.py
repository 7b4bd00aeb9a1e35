"""`install_write = "copy"`: a server writes beside its own code, and the original stays as it was."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Message, Session, SessionEnded, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap
from tests.e2e.victim import SERVER, refused, snapshot

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

TOOL = "#!/bin/sh\necho tool\n"


@pytest.fixture
def place() -> Bench:
    """A server with data, a native library and a script of its own, below app/."""
    made = bench("copied")
    app = made.work / "app"
    shutil.copytree(SERVER.parent, app, ignore=shutil.ignore_patterns("__pycache__"))
    (app / "sub").mkdir()
    (app / "sub" / "data.json").write_text("{}")
    (app / "link.json").symlink_to("sub/data.json")
    shutil.copy(next(Path("/usr/lib").glob("*-linux-gnu/libz.so.1")), app / "sub" / "native.so")
    (app / "tool.sh").write_text(TOOL)
    (app / "tool.sh").chmod(0o755)
    return made


def start(place: Bench, grant: str = "copied") -> Session:
    command = [*mcpwrap(), "--grant", str(place.write_grant(grant)), "--"]
    command += [sys.executable, "-B", str(place.work / "app" / "server.py")]
    session = Session(command, env=place.env, cwd=place.work / "data", stderr=place.work / "stderr")
    try:
        session.initialize()
        session.answer(session.request("tools/list"))
    except BaseException:
        session.close()
        raise
    return session


def act(session: Session, name: str, tool: str = "nothing", **acts: Any) -> Message:
    return session.call(tool, {"act": name, "with": acts})


def done(answer: Message) -> str:
    assert not failed(answer), text(answer)
    return text(answer)


def test_it_writes_beside_its_code_and_finds_it_again_while_the_original_stays(place: Bench) -> None:
    app = place.work / "app"
    before = snapshot(app)
    with start(place) as session:
        done(act(session, "write", path=f"{app}/log.txt", content="mine"))
        done(act(session, "write", path=f"{app}/sub/data.json", content="changed"))
        assert "changed" in done(act(session, "read", path=f"{app}/link.json"))
    assert snapshot(app) == before
    with start(place) as session:
        assert "mine" in done(act(session, "read", path=f"{app}/log.txt"))
        assert "changed" in done(act(session, "read", path=f"{app}/sub/data.json"))
    (app / "sub" / "new.json").write_text("{}")  # a new release
    with start(place) as session:
        assert refused(act(session, "read", path=f"{app}/log.txt"))
        assert "{}" in done(act(session, "read", path=f"{app}/sub/data.json"))
    copies = list((place.work / "home" / ".local" / "share" / "mcpwrap" / "~copies").glob("*/*"))
    assert len(copies) == 1, "the outdated copy is gone"


def test_what_is_native_works_and_is_never_written(place: Bench) -> None:
    app = place.work / "app"
    before = snapshot(app)
    with start(place) as session:
        assert "loaded" in done(act(session, "load", path=f"{app}/sub/native.so"))
        assert "tool" in done(act(session, "execute", tool="runner", argv=[f"{app}/tool.sh"]))
        for name in ("sub/native.so", "tool.sh"):
            assert refused(act(session, "write", path=f"{app}/{name}"))
        assert refused(act(session, "rename", source=f"{app}/sub", destination=f"{app}/moved"))
    assert snapshot(app) == before


def test_nothing_written_there_is_executed_or_mapped_as_code(place: Bench) -> None:
    app = place.work / "app"
    with start(place) as session:
        loaded = act(session, "load_copy", path=f"{app}/sub/native.so", place=f"{app}/sub/other.so")
        assert "failed to map" in text(loaded), text(loaded)
        made = act(session, "execute_script", tool="runner", interpreter="/bin/sh", place=f"{app}/made.sh")
        assert "Permission denied" in text(made), text(made)


def test_without_the_line_it_writes_nothing_there(place: Bench) -> None:
    app = place.work / "app"
    with start(place, "victim") as session:
        assert refused(act(session, "write", path=f"{app}/log.txt"))


def test_the_store_of_copies_is_out_of_reach(place: Bench) -> None:
    store = place.work / "home" / ".local" / "share" / "mcpwrap" / "~copies"
    with start(place) as session:
        found = next(store.rglob("server.py"))
        for path in (store, found):
            assert refused(act(session, "read", path=str(path)))
        assert refused(act(session, "write", path=f"{found.parent}/planted"))
    assert not list(store.rglob("planted"))


def test_two_runs_share_it_and_none_loses_it(place: Bench) -> None:
    app = place.work / "app"
    with start(place) as first:
        (app / "sub" / "new.json").write_text("{}")
        with start(place) as second:
            done(act(first, "write", path=f"{app}/log.txt", content="of the first"))
            assert refused(act(second, "read", path=f"{app}/log.txt"))
            assert "of the first" in done(act(first, "read", path=f"{app}/log.txt"))


def test_a_server_too_large_to_copy_is_not_started(place: Bench) -> None:
    with (place.work / "app" / "weights").open("wb") as file:
        file.truncate(2 << 30)
    with pytest.raises(SessionEnded, match="at most"):
        start(place)
