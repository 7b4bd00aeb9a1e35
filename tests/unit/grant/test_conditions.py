"""`args`, `pin` and the words of `[policy]`: read, merged, and refused where they can never apply."""

from __future__ import annotations

import sys

import pytest

from mcpwrap.errors import EXIT_BAD_GRANT
from mcpwrap.grant import regular
from mcpwrap.grant.document import Document
from mcpwrap.grant.grant import Grant
from mcpwrap.grant.parse import parse
from mcpwrap.grant.problem import BadGrant
from mcpwrap.grant.profile import merge
from tests.unit.grant.reading import VARIABLES, first_problem, problems, read, tool

PIN = "sha256:" + "0a" * 32


def test_conditions_are_read_whole() -> None:
    grant = read(
        "[tools.query]\n"
        "args.sql = { pattern = 'select .*', max_length = 4096, required = true }\n"
        'args.mode = { enum = ["r", 1, true], type = "string" }\n'.replace(', type = "string"', "")
        + 'args."items[].n" = { type = "integer", min = 1, max = 2.5 }\n'
        'args.a.b = { forbid = true }\nargs."*" = { max_length = 0 }\n'
    )
    first, mode, nested, dotted, others = tool(grant, "query").args
    assert first[2:] == (("sql",), "select .*", None, None, None, None, 4096, True, False)
    assert (first.id, str(first.where)) == ("tools.query.args.sql", "grant.toml:2:6")
    assert mode.enum == ("r", 1, True)
    assert (nested.id, nested.steps) == ('tools.query.args."items[].n"', ("items", "[]", "n"))
    assert (nested.type, nested.min, nested.max) == ("integer", 1, 2.5)
    assert (dotted.steps, dotted.forbid) == (("a", "b"), True)
    assert (others.steps, others.max_length) == (("*",), 0)


def test_an_argument_may_be_called_as_a_condition_is() -> None:
    args = read("[tools.a]\nargs.pattern = { max_length = 3 }\nargs.opts.max = { max = 1 }").tools[0].args
    assert [rule.steps for rule in args] == [("pattern",), ("opts", "max")]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("args = 1", '"args" wants a table of conditions'),
        ("args = {}", '"args" names no argument'),
        ("args.a = {}", "asks for nothing"),
        ("args.a = { required = false }", "asks for nothing"),
        ("args.a = 1", 'the argument "a" wants a table of conditions, not a number'),
        ("args.a = { maxlength = 1 }", '"maxlength" is no condition'),
        ('args."a b" = { max = 1 }', "an argument is a name"),
        ('args."" = { max = 1 }', "the text is empty"),
        ('args."a.*" = { max = 1 }\nargs.b."*" = { max = 1 }', '"*" stands for whole arguments'),
        ('args."*".a = { max = 1 }', '"*" stands for whole arguments'),
        ("args.a = { pattern = 1 }", '"pattern" wants a string'),
        ("args.a = { pattern = '(' }", "this is no RE2: missing )"),
        ("args.a = { pattern = '(a)\\1' }", "this is no RE2: invalid escape"),
        ("args.a = { pattern = '(?<=a)' }", "this is no RE2"),
        ("args.a = { enum = 'x' }", '"enum" wants an array'),
        ("args.a = { enum = [] }", "no value is allowed at all"),
        ("args.a = { enum = [[1]] }", "a value is a string, number or boolean"),
        ("args.a = { enum = [1, 1.0] }", "this value is listed twice"),
        ("args.a = { enum = ['x'], pattern = 'x' }", 'so "pattern" adds nothing'),
        ("args.a = { enum = ['x'], type = 'integer' }", "a listed value can never be given"),
        ("args.a = { type = 'int' }", 'there is no type "int"'),
        ("args.a = { type = 'integer', pattern = 'x' }", 'no integer can meet "pattern"'),
        ("args.a = { type = 'boolean', max_length = 1 }", 'no boolean can meet "max_length"'),
        ("args.a = { min = 1, max_length = 1 }", 'no value can meet "min" and "max_length"'),
        ("args.a = { pattern = 'x', min = 1 }", 'no value can meet "pattern" and "min"'),
        ("args.a = { min = 2, max = 1 }", "min is greater than max"),
        ("args.a = { min = true }", '"min" wants a number'),
        ("args.a = { min = nan }", '"min" wants a number'),
        ("args.a = { max_length = -1 }", '"max_length" wants a whole number'),
        ("args.a = { max_length = 1.5 }", '"max_length" wants a whole number'),
        ("args.a = { required = 1 }", '"required" wants true or false'),
        ("args.a = { forbid = true, required = true }", "the argument is forbidden"),
        ('args."*" = { required = true }', "none of them is required"),
        ('args.a.b = { max = 1 }\nargs."a.b" = { min = 1 }', '"a.b" is listed twice'),
        ("args.a = { max = 1 }\nargs.A = { max = 1 }", "differs from another rule by case alone"),
        ("args.a = { forbid = true }\nargs.a.b = { max = 1 }", "unknown"),
        ('args.a = { forbid = true }\nargs."a.b" = { max = 1 }', "in an argument that is forbidden"),
        ('args.a = { pattern = "x" }\nargs."a.b" = { max = 1 }', "in an argument that can be no object"),
        ('args.a = { type = "object" }\nargs."a[]" = { max = 1 }', "that must be of type object"),
        ('args."a[]" = { max = 1 }\nargs."a.b" = { max = 1 }', "an array and an object"),
        ('pin = "sha256:00"', "this is no digest"),
        (f'pin = "{PIN.upper()}"', "this is no digest"),
        ("pin = 1", '"pin" wants a digest'),
    ],
)
def test_a_condition_that_can_never_be_met_or_says_nothing_is_refused(line: str, sentence: str) -> None:
    if sentence == "unknown":  # TOML itself has closed an inline table
        sentence = "this is not TOML"
    assert sentence in first_problem(f"[tools.x]\n{line}\n")


def test_an_array_may_be_bounded_as_a_whole_and_by_item() -> None:
    text = 'args.a = { type = "array", max_length = 3 }\nargs."a[]" = { pattern = "x" }\n'
    assert problems(f"[tools.x]\n{text}") == []


@pytest.mark.parametrize("header", ["a|b", "read_*", "*"])
def test_a_pin_is_of_one_tool(header: str) -> None:
    assert "a pin is of one tool" in first_problem(f'[tools."{header}"]\npin = "{PIN}"')


def test_a_pattern_without_the_module_is_exit_78_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    regular.matcher.cache_clear()
    with pytest.raises(BadGrant) as caught:
        read("[tools.x]\nargs.a = { pattern = 'x' }")
    problem = caught.value.problems[0]
    assert caught.value.exit_status == EXIT_BAD_GRANT
    assert "needs the Python module re2" in problem.what
    assert "pip install google-re2" in problem.hint
    assert (problem.where.line, problem.where.column) == (2, 22)


def test_conditions_without_a_pattern_do_without_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    regular.matcher.cache_clear()
    assert problems("[tools.x]\nargs.a = { max_length = 3 }") == []


def test_a_wrong_pattern_writes_nothing_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    assert "no RE2" in first_problem("[tools.x]\nargs.a = { pattern = '(?=a)' }")
    assert capfd.readouterr().err == ""


def test_the_policy_is_read() -> None:
    grant = read(
        '[policy]\nunknown_tools = "allow"\nwindow_limit = "90s"\non_denial = "error"\nsni = "any"\n'
        '[server]\nnested_sandbox = true\ninstall_write = "copy"\n' + f'[tools.a]\npin = "{PIN}"\n'
    )
    assert policy(grant) == ("allow", 90.0, "error", "any", True, "copy")
    assert grant.tools[0].pin == PIN


def test_an_empty_file_has_the_strict_policy() -> None:
    assert policy(read("")) == ("refuse", 600.0, "annotate", "match", False, "")


def policy(grant: Grant) -> tuple[object, ...]:
    return (
        grant.unknown_tools,
        grant.window_limit,
        grant.on_denial,
        grant.sni,
        grant.nested_sandbox,
        grant.install_write,
    )


@pytest.mark.parametrize(("text", "seconds"), [("1s", 1), ("10m", 600), ("2h", 7_200), ("168h", 604_800)])
def test_a_duration_has_its_unit(text: str, seconds: int) -> None:
    assert read(f'[policy]\nwindow_limit = "{text}"').window_limit == seconds


@pytest.mark.parametrize(
    "text", ["", "10", "0s", "10 m", "1.5h", "-1s", "1h30m", "10M", "1d", "１s", "169h", "9" * 99]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert first_problem(f'[policy]\nwindow_limit = "{text}"')


def test_profiles_add_their_rules_and_never_a_policy() -> None:
    shipped = {
        "base": '[server]\nnested_sandbox = true\n[startup]\nnet = ["registry.example:443"]\n',
        "node": '[resources]\nnet = ["r.example"]\n[server]\ninstall_write = "copy"\nlisten = ["80"]\n',
    }
    text = '[server]\nprofile = ["node"]\n[startup]\nnet = ["own.example"]\n[prompts]\nunix = ["/run/s"]\n'
    grant = parse(text, "g", VARIABLES, shipped.__getitem__)
    assert [rule.host for rule in grant.startup.hosts] == ["registry.example", "own.example"]
    assert grant.startup.hosts[0].id == "profile base: startup.net[0]"
    assert [rule.host for rule in grant.resources.hosts] == ["r.example"]
    assert [rule.port for rule in grant.server.listens] == [80]
    assert [rule.path for rule in grant.prompts.sockets] == ["/run/s"]
    assert (grant.nested_sandbox, grant.install_write) == (True, "copy")


def test_merging_nothing_is_an_empty_document() -> None:
    assert vars(merge([Document(), Document()])) == vars(Document())
