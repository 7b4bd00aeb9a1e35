"""Conditions on arguments, as servers could read them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpwrap.limits import JUDGED_ITEMS, LONG_TEXT_BYTES
from mcpwrap.policy.args import Refusal, check
from mcpwrap.protocol.glance import LongText
from tests.unit.grant.reading import read

SQL = "args.sql = { pattern = '(?i)\\s*select\\b[^;]*', max_length = 4096 }"


def judged(text: str, arguments: object) -> Refusal | None:
    return check(read(f"[tools.query]\n{text}\n").tools[0].args, arguments)


def why(text: str, arguments: object) -> str:
    refusal = judged(text, arguments)
    return "" if refusal is None else refusal.why


@pytest.mark.parametrize("sql", ["select 1", "  SELECT a\nFROM b", "selecT\t1"])
def test_a_text_that_matches_as_a_whole_passes(sql: str) -> None:
    assert judged(SQL, {"sql": sql}) is None


@pytest.mark.parametrize(
    "sql",
    [
        "select 1; drop table a",
        "selection",
        "drop table a",
        "",
        "COMMIT; select 1",
        "select 1\0;",
        "select \ud800",
    ],
)
def test_a_text_that_matches_in_part_is_refused(sql: str) -> None:
    assert judged(SQL, {"sql": sql}) is not None


@pytest.mark.parametrize("value", [None, 1, True, ["select 1"], {"a": "select 1"}])
def test_a_pattern_is_of_strings(value: object) -> None:
    assert why(SQL, {"sql": value}) == 'the argument "sql" must be a string'


def test_a_refusal_names_rule_and_argument_and_holds_no_toml() -> None:
    refusal = judged(SQL, {"sql": "drop"})
    assert refusal == (
        "tools.query.args.sql",
        "sql",
        'the argument "sql" must match, as a whole, the pattern "(?i)\\\\s*select\\\\b[^;]*"',
    )


def test_what_is_absent_passes_unless_it_is_required() -> None:
    assert judged(SQL, {}) is None
    assert why("args.sql = { required = true }", {}) == 'the argument "sql" is required'
    assert why("args.sql = { required = true }", {"sql": None}) == (
        'the argument "sql" is required, and null is no value'
    )
    assert judged('args.sql = { required = true, type = "null" }', {"sql": None}) is None


@pytest.mark.parametrize("name", ["SQL", "Sql", "\u017fql"])
def test_a_name_that_differs_by_case_alone_is_refused(name: str) -> None:
    assert "by case alone" in why(SQL, {name: "select 1"})
    assert "by case alone" in why(SQL, {"sql": "select 1", name: "drop"})


def test_a_name_in_another_case_is_refused_at_every_depth() -> None:
    rule = 'args."opts.items[].name" = { pattern = "a" }'
    assert judged(rule, {"opts": {"items": [{"name": "a"}]}}) is None
    assert "by case alone" in why(rule, {"Opts": {}})
    assert "by case alone" in why(rule, {"opts": {"ITEMS": []}})
    assert "by case alone" in why(rule, {"opts": {"items": [{"name": "a"}, {"Name": "b"}]}})


@pytest.mark.parametrize("arguments", [None, [], "select 1", 1, LongText(100_000)])
def test_arguments_that_are_no_object_are_refused(arguments: object) -> None:
    assert why(SQL, arguments) == "the arguments of the call are no object"
    assert why('args."*" = { forbid = true }', arguments) == "the arguments of the call are no object"


def test_without_conditions_everything_passes() -> None:
    assert check((), None) is None


def test_every_item_is_judged_and_the_one_that_fails_is_named() -> None:
    rule = 'args."paths[]" = { pattern = "[a-z]+" }'
    assert judged(rule, {"paths": ["a", "b"]}) is None
    assert why(rule, {"paths": ["a", "B"]}).startswith('the argument "paths[1]" must match')
    assert why(rule, {"paths": "a"}) == 'the argument "paths" must be an array'
    assert judged(rule, {"paths": []}) is None
    assert judged(rule, {}) is None


def test_a_value_that_cannot_be_looked_into_is_refused() -> None:
    rule = 'args."a.b" = { max = 1 }'
    values: list[Any] = [None, "x", 1, [], LongText(100_000)]
    for value in values:
        assert why(rule, {"a": value}) == 'the argument "a" must be an object'


def test_what_is_required_in_an_absent_object_is_missing() -> None:
    assert why('args."a.b" = { required = true }', {}) == 'the argument "a.b" is required'
    assert why('args."a[]" = { required = true }', {}) == 'the argument "a[]" is required'
    assert why('args."a[]" = { required = true }', {"a": []}) == 'the argument "a[]" is required'
    assert judged('args."a[].b" = { required = true }', {"a": []}) is None
    assert why('args."a[].b" = { required = true }', {"a": [{}]}) == 'the argument "a[0].b" is required'


def test_the_star_is_for_names_no_other_rule_has() -> None:
    rules = 'args.a = { max = 1 }\nargs."b.c" = { max = 1 }\nargs."*" = { forbid = true }'
    assert judged(rules, {"a": 1, "b": {"c": 1, "d": 2}}) is None
    assert why(rules, {"a": 1, "x": None}) == 'the argument "x" is not allowed'
    assert "by case alone" in why(rules, {"A": 1})


@pytest.mark.parametrize(
    ("kind", "yes", "no"),
    [
        ("string", ["", LongText(1)], [None, 1, True, [], {}]),
        ("integer", [0, -1, 2.0, 10**40], [True, 1.5, "1", None]),
        ("number", [0, 1.5], [True, "1", None, LongText(1)]),
        ("boolean", [True, False], [0, 1, "true", None]),
        ("array", [[], [1]], [{}, "a", None]),
        ("object", [{}, {"a": 1}], [[], "a", None]),
        ("null", [None], [0, False, "", []]),
    ],
)
def test_types_are_those_of_json_schema(kind: str, yes: list[Any], no: list[Any]) -> None:
    rule = f'args.a = {{ type = "{kind}" }}'
    assert [value for value in yes if judged(rule, {"a": value})] == []
    assert [value for value in no if not judged(rule, {"a": value})] == []


def test_listed_values_are_compared_as_json_compares_them() -> None:
    rule = 'args.a = { enum = [1, "one", true] }'
    assert [value for value in (1, 1.0, "one", True) if judged(rule, {"a": value})] == []
    others: list[Any] = [0, "1", False, None, "One", [1], {}]
    assert [value for value in others if not judged(rule, {"a": value})] == []
    assert why(rule, {"a": 2}) == 'the argument "a" must be one of: 1, "one", true'
    assert judged("args.a = { enum = [1] }", {"a": True}) is not None


def test_numbers_are_bounded_at_both_ends() -> None:
    rule = "args.a = { min = 1, max = 10.5 }"
    assert [value for value in (1, 10.5, 3) if judged(rule, {"a": value})] == []
    infinite = json.loads("[1e999, -1e999]")
    assert [value for value in (0, 11, "3", True, None, *infinite) if not judged(rule, {"a": value})] == []


def test_lengths_are_of_characters_items_and_names() -> None:
    rule = "args.a = { max_length = 2 }"
    assert [value for value in ("ab", "üü", [1, 2], {"a": 1}) if judged(rule, {"a": value})] == []
    assert [value for value in ("abc", [1, 2, 3], 1, None, True) if not judged(rule, {"a": value})] == []


def test_a_text_that_was_not_read_is_refused_where_its_characters_count() -> None:
    long = LongText(100_000)
    assert why(SQL, {"sql": long}) == 'the argument "sql" is too long to be checked'
    assert "too long" in why('args.a = { enum = ["x"] }', {"a": long})
    assert judged("args.a = { max_length = 100000 }", {"a": long}) is None
    assert "not be longer" in why("args.a = { max_length = 24999 }", {"a": long})
    assert "for certain" in why("args.a = { max_length = 60000 }", {"a": long})
    assert judged("args.a = { required = true }", {"a": long}) is None
    assert judged("args.a = { min = 1 }", {"a": long}) is not None


def test_a_name_from_the_call_cannot_speak_for_mcpwrap() -> None:
    told = why('args."*" = { forbid = true }', {'x"\n\u202e] ok': 1})
    assert told == 'the argument "x\\"] ok" is not allowed'


@pytest.mark.parametrize("name", ["sql\0", "SQL\0x"])
def test_a_name_that_a_server_in_c_reads_to_its_first_nul_is_refused(name: str) -> None:
    assert judged(SQL, {name: "drop table a"}) is not None


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        (SQL, {"__proto__": {"sql": "drop table a"}}),
        ('args."opts.sql" = { pattern = "a" }', {"opts": {"__proto__": {"sql": "b"}}}),
        ('args."items[].sql" = { pattern = "a" }', {"items": [{"sql": "a"}, {"__proto__": {"sql": "b"}}]}),
    ],
)
def test_a_prototype_does_not_bring_in_what_is_not_there(rule: str, arguments: object) -> None:
    """`Object.assign({}, arguments).sql` is what `__proto__` holds, if there is no `sql` of its own."""
    assert "prototype" in why(rule, arguments)


def test_a_text_is_too_long_to_be_checked_however_it_came_to_be_read() -> None:
    long = "select " + "x" * LONG_TEXT_BYTES
    assert (
        why(SQL.replace(", max_length = 4096", ""), {"sql": long})
        == 'the argument "sql" is too long to be checked'
    )
    assert why('args.sql = { enum = ["x"] }', {"sql": long}) == 'the argument "sql" is too long to be checked'
    assert judged("args.sql = { max_length = 100000 }", {"sql": long}) is None


@pytest.mark.parametrize(
    ("rule", "arguments"),
    [
        ('args."x[]" = { type = "string" }', {"x": ["a"] * (JUDGED_ITEMS + 1)}),
        ('args."x.a" = { type = "string" }', {"x": dict.fromkeys(map(str, range(JUDGED_ITEMS + 1)), "")}),
        ('args."*" = { type = "string" }', dict.fromkeys(map(str, range(JUDGED_ITEMS + 1)), "")),
    ],
)
def test_more_values_than_can_be_judged_in_time_are_refused(rule: str, arguments: object) -> None:
    assert str(JUDGED_ITEMS) in why(rule, arguments)
