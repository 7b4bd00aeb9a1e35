"""`why` is enforcement, and what is offered grants exactly what was refused."""

from __future__ import annotations

import tomllib

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mcpwrap.errors import GrantError
from mcpwrap.operation import Event, Need, Operation
from mcpwrap.policy.active import Active, ActiveWindow
from mcpwrap.policy.reasons import denial
from mcpwrap.policy.shown import shown
from mcpwrap.policy.why import why
from tests.unit.policy.machine import HOME, SERVER, STATE, Machine

PARTS = [
    "work",
    "out",
    ".ssh",
    ".git",
    "config",
    "hooks",
    ".env",
    ".mcp.json",
    "a",
    "b",
    "a.tmp",
    "link",
    "up",
    "srv",
]
PATHS = st.builds(
    lambda base, parts: "/".join((base, *parts)),
    st.sampled_from([HOME, f"{HOME}/work", "/data", "/tmp", "/usr/bin", SERVER, STATE]),
    st.lists(st.sampled_from(PARTS), min_size=1, max_size=4),
)
LITERALS = PATHS.filter(lambda path: not path.startswith(("/tmp", STATE)))
ENTRY = st.one_of(
    LITERALS,
    LITERALS.map(lambda path: path + "/*"),
    st.just("$arg:path"),
    st.just("$arg:path/.git/config"),
)
NOUNS = st.dictionaries(
    st.sampled_from(["fs_read", "fs_write", "fs_deny"]), st.lists(ENTRY, min_size=1, max_size=3)
)
TREES = st.lists(PATHS, max_size=12)


def grant(nouns: dict[str, list[str]], execs: list[str]) -> str:
    lines = ['[policy]\nwithin = ["~/work", "/data"]', "[tools.t]"]
    for noun, entries in nouns.items():
        kept = list(dict.fromkeys(each for each in entries if noun != "fs_deny" or "$arg" not in each))
        lines.append(f"{noun} = [{', '.join(map(repr, kept))}]")
    lines.append(f"exec = [{', '.join(map(repr, execs))}]")
    return "\n".join(lines)


def machine(files: list[str]) -> Machine:
    made = Machine(
        links={f"{HOME}/work/link": "/data/a", "/data/up": f"{HOME}/.ssh"}, directories=f"{HOME}/work /data"
    )
    for path in files:
        parents = [path[:end] for end in range(1, len(path)) if path[end] == "/"]
        if made.real(path) not in made.kinds and all(
            made.kinds.get(up) in (None, "directory") for up in parents
        ):
            made.add(path, "file")
    return made


@settings(max_examples=400, deadline=None)
@given(
    NOUNS,
    st.lists(st.sampled_from(["git", "any-writable", f"{HOME}/work/a"]), max_size=2, unique=True),
    TREES,
    PATHS,
    PATHS,
    st.sampled_from(list(Need)),
)
def test_why_answers_as_the_broker_decides(
    nouns: dict[str, list[str]], execs: list[str], files: list[str], argument: str, path: str, need: Need
) -> None:
    host = machine(files)
    try:
        policy = host.policy(grant(nouns, execs))
    except GrantError:
        assume(False)
    explained = why(policy, "t", need, path, {"path": argument}, host.resolve, host.identity)
    bound = policy.bind("t", {"path": argument}, host.resolve)
    effective = policy.effective(Active(7, False, (ActiveWindow("w9", "t", bound.paths),)))
    kind = host.kind(path)
    exists = kind != "missing"
    enforced = effective.decide(
        need,
        host.real(path),
        identity=host.identity(path),
        creating=not exists and need is Need.WRITE,
        regular=kind in ("file", "missing"),
        host=True,
    )
    assert explained.decision == enforced
    assert explained.allowed == enforced.allowed
    as_seen = host.decide(effective, need, path)
    if enforced.allowed:
        # What is granted of the user's own is granted in the server's view too.
        assert as_seen.allowed
    elif as_seen.allowed:
        assert as_seen.rule in ("home", "temporary", "view")


@settings(max_examples=300, deadline=None)
@given(TREES, PATHS, st.sampled_from([Need.READ, Need.WRITE, Need.EXEC]))
def test_the_offered_line_grants_what_was_refused(files: list[str], path: str, need: Need) -> None:
    host = machine([*files, path])
    assume(host.kind(path) == "file")
    policy = host.policy("")
    refused = why(policy, "t", need, path, {}, host.resolve, host.identity)
    assume(refused.offer)
    again = why(host.policy(refused.offer), "t", need, path, {}, host.resolve, host.identity)
    assert again.allowed or (need is Need.EXEC and again.rule == "writable")


@given(
    st.text(st.characters(exclude_categories=()), max_size=260),
    st.text(max_size=60),
    st.sampled_from(list(Need)),
)
def test_no_name_breaks_out_of_the_offer_or_the_sentence(name: str, tool: str, need: Need) -> None:
    policy = POLICY
    operation = Operation("open", need, "/data/" + name)
    told = denial(Event(operation, POLICY_REFUSAL), policy, (tool,))
    assert told.sentence.isprintable()
    assert len(told.object) <= 200
    if told.offer:
        table = tomllib.loads(told.offer)["tools"]
        assert list(table) == [tool]
        (entries,) = table[tool].values()
        assert [entry.replace("$$", "$") for entry in entries] == [operation.object]


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_is_printable_short_and_quoted(text: str) -> None:
    said = shown(text)
    assert said.isprintable()
    assert len(said) <= 200
    assert '"' not in said.replace("\\\\", "").replace('\\"', "")


POLICY = Machine().policy("")
POLICY_REFUSAL = Machine.call(Machine(), POLICY).decide(Need.READ, "/data/x")
