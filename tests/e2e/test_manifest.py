"""What tools are said to be, and what calls may ask: by a real server, behind the real launcher."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.client import Message, Session, failed, text
from tests.e2e.corpus import Bench, bench, mcpwrap

pytestmark = pytest.mark.needs("user", "userns", "landlock", "seccomp")

SERVER = Path(__file__).resolve().parents[1] / "victims" / "changing.py"
EVIL = "evil.example"
HELD = {"name": "read", "description": "held by mcpwrap: changed", "inputSchema": {"type": "object"}}
READS = '[policy]\nwithin = ["{W}/data"]\n[tools.read]\nfs_read = ["$arg:path"]\n'


class Run:
    """One server behind mcpwrap, and the audit it leaves."""

    def __init__(self, mode: str, name: str, grant: str) -> None:
        self.place: Bench = bench(f"manifest-{name}")
        self.data = self.place.work / "data"
        (self.data / "a.txt").write_text("mine\n")
        (self.place.work / "out" / "b.txt").write_text("SECRET\n")
        self.grant = self.place.work / "grant.toml"
        self.grant.write_text("schema = 1\n" + grant.replace("{W}", str(self.place.work)))
        self.grant.chmod(0o600)
        self.stderr = self.place.work / "stderr"
        self.command = [*mcpwrap(), "--grant", str(self.grant), "--", sys.executable, "-B", str(SERVER), mode]
        self.session = Session(self.command, env=self.place.env, cwd=self.data, stderr=self.stderr)

    def tools(self, **params: str) -> list[dict[str, Any]]:
        answer = self.session.answer(self.session.request("tools/list", params))
        found: list[dict[str, Any]] = answer["result"]["tools"]
        return found

    def call(self, tool: str, **arguments: object) -> Message:
        return self.session.answer(self.session.start_call(tool, arguments))

    def read(self) -> Message:
        return self.call("read", path=str(self.data / "a.txt"))

    def audit(self, kind: str) -> list[dict[str, Any]]:
        return [record for record in self.place.audit() if record["kind"] == kind]


@contextmanager
def run(mode: str, name: str = "", grant: str = READS, *, version: str = "2025-06-18") -> Iterator[Run]:
    started = Run(mode, name or mode, grant)
    try:
        started.session.initialize(version)
        yield started
    finally:
        started.session.close()


def test_a_server_whose_tools_stay_what_they_are_is_not_touched() -> None:
    with run("plain") as server:
        first = server.tools()
        assert text(server.read()) == "mine\n"
        assert server.tools() == first
        assert text(server.read()) == "mine\n"
    digests = server.audit("manifest")[0]["tools"]
    assert set(digests) == {"read", "touch", "count"}
    shown = subprocess.run(
        [*mcpwrap(), "audit"], env=server.place.env, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert f"  read  {digests['read']}" in shown


def assert_held(server: Run) -> None:
    """The new description never came through, and a call of the tool never reached the server."""
    before = int(text(server.call("count")))
    refused = server.read()
    assert failed(refused)
    assert "changed since it was first listed: sha256:" in text(refused)
    assert "description" in text(refused)
    assert int(text(server.call("count"))) == before + 1
    assert not any(EVIL.encode() in line for line in server.session.lines)
    assert "the tool 'read' is held: its description" in server.stderr.read_text()
    assert [record["rule"] for record in server.audit("refused")] == ["changed-tool"]
    assert [each["tool"] for record in server.audit("manifest") for each in record.get("held", [])] == [
        "read"
    ]


def test_a_tool_that_changes_between_two_lists_is_held() -> None:
    with run("second") as server:
        server.tools()
        assert text(server.read()) == "mine\n"
        assert server.tools()[0] == HELD
        assert_held(server)


def test_a_tool_that_changes_when_the_list_is_said_to_have_changed_is_held() -> None:
    with run("notice") as server:
        server.tools()
        assert text(server.call("touch")) == "touched"
        assert server.tools()[0] == HELD
        assert_held(server)


def test_a_tool_that_is_another_on_another_page_is_held() -> None:
    with run("page") as server:
        server.tools()
        assert server.tools(cursor="2") == [HELD]
        assert_held(server)


def test_another_order_of_keys_and_tools_is_no_change() -> None:
    with run("order") as server:
        assert server.tools() != server.tools()
        assert text(server.read()) == "mine\n"
    assert not server.audit("refused")


def test_a_tool_that_was_never_listed_is_refused_and_one_that_was_named_is_not() -> None:
    with run("plain", "unknown", READS + "[tools.hidden]\n") as server:
        # Nobody has listed anything yet.
        refused = server.call("other")
        assert failed(refused)
        assert "the server has not listed this tool" in text(refused)
        assert text(server.call("hidden")) == "called hidden"
        assert text(server.read()) == "mine\n"
        assert not any(b"mcpwrap:list" in line for line in server.session.lines)
    assert [record["note"] for record in server.audit("note")].count("list-asked") == 1
    assert '`unknown_tools = "allow"`' in server.stderr.read_text(), "the user is told what would let it be"
    assert "unknown_tools" not in text(refused), "and the model is not"


def test_without_a_grant_tools_never_listed_are_refused_all_the_same() -> None:
    with run("plain", "nothing", "") as server:
        assert failed(server.call("other"))
        assert text(server.call("count")) == "1"


@pytest.mark.parametrize("mode", ["mute", "error"])
def test_a_server_that_does_not_list_its_tools_has_none_but_those_that_are_named(mode: str) -> None:
    with run(mode) as server:
        refused = server.call("count")
        assert failed(refused)
        assert "mcpwrap's own tools/list was" in text(refused)
        assert text(server.read()) == "mine\n"


def test_a_pin_holds_across_runs_and_is_compared_before_the_first_call() -> None:
    with run("plain", "pin-first") as server:
        server.tools()
    digest = server.audit("manifest")[0]["tools"]["read"]
    with run("order", "pin-same", READS + f'pin = "{digest}"\n') as server:
        assert text(server.read()) == "mine\n"
    other = "sha256:" + "0" * 64
    with run("plain", "pin-other", READS + f'pin = "{other}"\n') as server:
        refused = server.read()
        assert f"pinned is {other}, listed is {digest}" in text(refused)
        assert server.tools()[0] == HELD
        assert text(server.call("count")) == "1"


CONDITION = READS + 'args.seconds = { type = "integer", max = 1 }\nargs.path = { required = true }\n'


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": "a.txt", "seconds": 2}, "must be at most 1"),
        ({"path": "a.txt", "seconds": "0"}, "must be of type integer"),
        ({"path": "a.txt", "Seconds": 9}, "differs from"),
        ({"seconds": 1}, "is required"),
    ],
)
def test_a_call_whose_arguments_fail_a_condition_never_reaches_the_server(
    arguments: dict[str, object], why: str
) -> None:
    with run("plain", "args", CONDITION) as server:
        server.tools()
        refused = server.call("read", **arguments)
        assert failed(refused)
        assert why in text(refused)
        assert "do not retry; ask the user" in text(refused)
        assert text(server.call("count")) == "1"
        assert text(server.call("read", path=str(server.data / "a.txt"), seconds=1)) == "mine\n"
        assert "refused: a call of 'read' was not started: " in server.stderr.read_text()
    (record,) = server.audit("refused")
    assert record["rule"].startswith("tools.read.args.")


def test_what_is_refused_takes_the_place_of_the_answer_if_the_grant_says_so() -> None:
    grant = READS.replace("[policy]\n", '[policy]\non_denial = "error"\n')
    with run("plain", "on-denial", grant) as server:
        server.tools()
        assert text(server.read()) == "mine\n"
        answer = server.call("read", path=str(server.place.work / "out" / "b.txt"))
        assert failed(answer)
        assert "structuredContent" not in answer["result"]
        assert len(answer["result"]["content"]) == 1
        assert "refused by mcpwrap" in text(answer)
        assert "failed:" not in text(answer)
    assert [record["how"] for record in server.audit("closed")] == ["answered", "withheld"]


def test_a_call_that_outlasts_its_limit_goes_on_without_its_grant() -> None:
    grant = READS.replace("[policy]\n", '[policy]\nwindow_limit = "1s"\n')
    with run("plain", "limit", grant) as server:
        server.tools()
        path = str(server.data / "a.txt")
        assert text(server.call("read", path=path, seconds=0.1)) == "mine\n"
        late = server.call("read", path=path, seconds=2)
        assert failed(late)
        assert "window_limit" in text(late)
        assert text(server.call("read", path=path)) == "mine\n"
        assert "its grant is withdrawn; `window_limit = " in server.stderr.read_text()
    assert [record["window"] for record in server.audit("withdrawn")] == ["w2"]


def test_a_resource_is_read_under_its_own_table_and_no_other() -> None:
    grant = '[resources]\nfs_read = ["{W}/data/a.txt"]\n[tools.read]\nfs_read = ["{W}/out/b.txt"]\n'
    with run("plain", "resources", grant) as server:
        server.tools()

        def resource(path: Path) -> str:
            uri = f"file://{path}"
            return json.dumps(server.session.answer(server.session.request("resources/read", {"uri": uri})))

        mine, other = server.data / "a.txt", server.place.work / "out" / "b.txt"
        assert "mine" in resource(mine)
        assert "SECRET" not in resource(other)
        assert failed(server.call("read", path=str(mine)))
        assert text(server.call("read", path=str(other))) == "SECRET\n"
    assert [record["area"] for record in server.audit("opened")] == ["resources"] * 2 + ["tools"] * 2


def test_the_official_sdk_bears_all_of_it() -> None:
    server = Run("second", "sdk", READS)
    server.session.close()
    asked = {
        "command": server.command,
        "env": dict(server.place.env),
        "cwd": str(server.data),
        "path": str(server.data / "a.txt"),
    }
    script = str(Path(__file__).with_name("sdk_lists.py"))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, json.dumps(asked)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    first, second = told["said"]
    assert first == ["mine\n"]
    assert "changed since it was first listed" in second[0]
    assert EVIL not in done.stdout
    assert told["listed"][-1]["read"] == HELD["description"]
    assert told["listed"][-1]["touch"] == "Changes what there is"
