"""What `mcpwrap audit` prints, line by line."""

from __future__ import annotations

import tomllib

from mcpwrap.audit.text import render
from mcpwrap.audit.wider import rules_of, wider
from tests.unit.grant.reading import read

AT = "2026-11-30T18:17:57.707Z"


def at(kind: str, **fields: object) -> dict[str, object]:
    return {"v": 1, "at": AT, "kind": kind, **fields}


RUN = at("run", name="pypi/x", command=["x", "--a"], grant="/g.toml", rules=[])
OPENED = at(
    "opened",
    window="w1",
    tool="read",
    bound=[{"need": "read", "path": "/w/a", "kind": "file", "rule": "tools.read.fs_read[0]"}],
)


def operation(object: str, allowed: bool, *windows: str, **fields: object) -> dict[str, object]:
    rule = "tools.read.fs_read[0]" if allowed else "no-grant"
    return at(
        "operation", windows=list(windows), act="read", object=object, allowed=allowed, rule=rule, **fields
    )


def test_a_run_reads_as_a_story() -> None:
    denial = {
        "act": "read",
        "object": "/w/b",
        "rule": "no-grant",
        "count": 2,
        "sentence": "…",
        "offer": '[tools.read]\nfs_read = ["/w/b"]',
    }
    lines = render(
        [
            RUN,
            at("protections", tier="B", protections={"files": "active", "memory": "degraded: no cgroup"}),
            operation("/usr/bin/x", True),
            OPENED,
            operation("/w/a", True, "w1"),
            operation("/w/a", True, "w1"),
            operation("/w/b", False, "w1"),
            operation("/w/c", False, "w1", quiet=True),
            at(
                "closed",
                window="w1",
                tool="read",
                how="error",
                ms=2.5,
                denials=[denial],
                not_written={"allowed x": 7},
            ),
            at("note", note="forged", text="an answer nobody asked for"),
            at("exit", status=1, reason="the server ended", seconds=1.5, stderr=["Traceback", "\x1b[31mred"]),
        ],
        "/audit.jsonl",
    )
    assert lines == [
        "pypi/x  2026-11-30 18:17:57 UTC  1.5 s, exit 1 (the server ended)",
        "  command   x --a",
        "  grant     /g.toml",
        "  audit     /audit.jsonl",
        "  tier B    files: active",
        "            memory: degraded: no cgroup",
        "",
        "outside of calls (start-up, between calls)",
        "  read     /usr/bin/x  (tools.read.fs_read[0])",
        "",
        "18:17:57.707  read  2.5 ms, error",
        "  may read /w/a  (tools.read.fs_read[0])",
        "  read     /w/a  (tools.read.fs_read[0]), 2 times",
        "  REFUSED   read /w/c  (no-grant)  quiet",
        "  REFUSED   read /w/b  (no-grant), 2 times",
        "  … and 7 times allowed x",
        "  to allow it add to /g.toml:",
        "      [tools.read]",
        '      fs_read = ["/w/b"]',
        "",
        "notes",
        "  18:17:57.707  forged: an answer nobody asked for",
        "",
        "the last of its stderr",
        "  | Traceback",
        "  | �[31mred",
    ]


def test_what_would_allow_it_goes_where_its_table_is_or_into_a_first_file() -> None:
    denial: dict[str, object] = {"act": "read", "object": "/w/b", "rule": "no-grant", "count": 1}
    denial |= {"offer": '[tools.read]\nfs_read = ["/w/b"]'}
    end = {"window": "w1", "tool": "read", "how": "answered", "ms": 1}
    closed = at("closed", **end, denials=[denial | {"place": "[tools.read] (line 3)"}])
    assert render([RUN, OPENED, closed], "/a")[-2:] == [
        "  to allow it add to [tools.read] (line 3) of /g.toml:",
        '      fs_read = ["/w/b"]',
    ]
    first = RUN | {"grant": "", "looked_for": "/n.toml", "keeps": '[server]\nprofile = ["node"]'}
    lines = render([first | {"withheld": ["A", "B"]}, OPENED, at("closed", **end, denials=[denial])], "/a")
    assert "  withheld  A, B" in lines
    at_line = lines.index("  to allow it write /n.toml, the first grant of this server:")
    assert tomllib.loads("\n".join(lines[at_line + 1 :])) == {
        "schema": 1,
        "server": {"profile": ["node"]},
        "tools": {"read": {"fs_read": ["/w/b"]}},
    }


def test_a_run_that_was_killed_says_so() -> None:
    lines = render([RUN, OPENED], "/a")
    assert lines[0].endswith("still running, or killed")
    assert lines[-2] == "18:17:57.707  read  no answer"


def test_what_is_wider_than_in_the_last_run_is_named() -> None:
    last = {"rules": ["server.fs_read ~/a", "policy.within ~/w"]}
    now = ["server.fs_read ~/a", "server.fs_read ~/b", "policy.within ~/w", "policy.overlap union"]
    assert wider(last, now) == ["server.fs_read ~/b", "policy.overlap union"]
    assert wider(last, ["server.fs_read ~/a", "policy.overlap serialize"]) == []
    assert wider({}, now) == []


def test_a_condition_that_is_gone_is_wider_and_a_new_one_is_not() -> None:
    strict = read("[tools.q]\nargs.sql = { max_length = 9 }\n")
    lax = read('[tools.q]\nargs.sql = { max_length = 99 }\nnet = ["db:5432"]\n')
    assert wider({"rules": rules_of(lax)}, rules_of(strict)) == [
        "no more condition tools.q.args.sql argument sql: not longer than 99"
    ]
    assert wider({"rules": rules_of(strict)}, rules_of(lax)) == [
        "tools.q.net db:5432",
        "no more condition tools.q.args.sql argument sql: not longer than 9",
    ]


def test_what_a_file_gives_up_is_wider() -> None:
    text = (
        '[server]\nnested_sandbox = true\ninstall_write = "copy"\nunix = ["/run/s"]\nlisten = ["80"]\n'
        '[policy]\nsni = "any"\nunknown_tools = "allow"\nwindow_limit = "1h"\n[resources]\nnet = ["any"]\n'
    )
    before = rules_of(read(""))
    assert wider({"rules": before}, rules_of(read(text))) == [
        "server.unix /run/s",
        "server.listen 80",
        "resources.net any",
        "policy.window_limit 1h",
        "policy.unknown_tools allow",
        "policy.sni any",
        "server.nested_sandbox",
        "server.install_write copy",
    ]


def test_damaged_records_are_counted_and_the_others_told() -> None:
    bad: list[dict[str, object]] = [
        {"kind": "run"},
        {"kind": ["run"]},
        {},
        at("run", command=[1]),
        at("protections", protections=["x"]),
        at("opened", window="w9"),
        at("opened", window="w9", tool="t", bound=[{"need": None}]),
        at("operation", windows=5, act="read", object="/", rule="r", allowed=True),
        at("operation", windows=[], act="read", object=["/"], rule="r", allowed=True),
        at("closed", window="w1"),
        at("closed", window="w1", tool="t", how="x", ms=1, denials=[{"act": "read"}]),
        at("closed", window="w1", tool="t", how="x", ms=1, not_written=[1]),
        {"kind": "note"},
        at("exit", status=1),
        at("exit", status=1, reason="r", seconds=1, stderr=5),
    ]
    lines = render([RUN, OPENED, *bad], "/file")
    assert lines[0].startswith("pypi/x")
    assert lines[-1].startswith(f"{len(bad)} damaged records")


def test_calls_that_were_not_started_and_tools_that_changed_are_part_of_the_story() -> None:
    end = {"window": "w1", "tool": "read", "how": "answered", "ms": 1}
    held = {
        "tool": "read",
        "was": "sha256:aa",
        "now": "sha256:bb",
        "pinned": False,
        "changed": ["description"],
    }
    lines = render(
        [
            RUN,
            at("manifest", tools={"read": "sha256:aa", "write": "sha256:cc"}),
            OPENED,
            at("withdrawn", window="w1", tool="read"),
            at("closed", **end),
            at("manifest", tools={}, held=[held, held | {"tool": "write", "pinned": True, "changed": []}]),
            at("refused", tool="read\x1b[31m", request=2, rule="changed-tool", why="its description changed"),
        ],
        "/a",
    )
    assert lines[-12:] == [
        "18:17:57.707  read  1 ms, answered",
        "  its grant was withdrawn at 18:17:57.707: it has had its time (window_limit)",
        "  may read /w/a  (tools.read.fs_read[0])",
        "",
        "18:17:57.707  read�[31m  not started",
        "  REFUSED   its description changed  (changed-tool)",
        "",
        'tools as listed; `pin = "sha256:…"` in the table of a tool keeps it to what it is now',
        "  read  sha256:aa",
        "  write  sha256:cc",
        "  HELD      read changed (description): sha256:aa, then sha256:bb",
        "  HELD      write is not what is pinned: sha256:aa, then sha256:bb",
    ]
