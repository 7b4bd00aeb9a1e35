"""Conditions hold whatever the arguments are: nothing but an answer comes of them, and never a pass by accident."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.grant.grant import ArgRule, Where
from mcpwrap.policy.args import check
from mcpwrap.protocol.glance import LongText

NAMES = st.sampled_from(["a", "A", "b", "[]", "*", "\u017f", "s", "S"])
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(st.characters(), max_size=4),
        st.builds(LongText, st.integers(65_537, 10**6)),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
RULES = st.builds(
    ArgRule,
    st.just("r"),
    st.just(Where("g", 1, 1)),
    st.lists(st.sampled_from(["a", "b", "s", "[]"]), min_size=1, max_size=3).map(tuple) | st.just(("*",)),
    pattern=st.none() | st.sampled_from(["a*", "", "(?s).*"]),
    enum=st.none() | st.just((1, "a", True)),
    type=st.none() | st.sampled_from(["string", "integer", "object", "null"]),
    min=st.none() | st.integers(-2, 2),
    max=st.none() | st.integers(-2, 2),
    max_length=st.none() | st.integers(0, 3),
    required=st.booleans(),
    forbid=st.booleans(),
)


@given(st.lists(RULES, max_size=4), VALUES)
def test_any_rules_and_arguments_have_an_answer_fit_for_a_sentence(
    rules: list[ArgRule], arguments: object
) -> None:
    refusal = check(rules, arguments)
    if refusal is not None:
        assert refusal.rule == "r"
        assert "\n" not in refusal.why
        refusal.why.encode()


@given(st.dictionaries(NAMES, st.text(max_size=6) | st.integers(), max_size=4))
def test_a_pattern_passes_only_what_matches_as_a_whole_under_exactly_its_name(
    arguments: dict[str, object],
) -> None:
    rule = ArgRule("r", Where("g", 1, 1), ("s",), pattern="[a-c]{0,3}")
    twins = [name for name in arguments if name != "s" and name.casefold() == "s"]
    value = arguments.get("s", "")
    passes = not twins and isinstance(value, str) and re.fullmatch("[a-c]{0,3}", value) is not None
    assert (check((rule,), arguments) is None) == passes


@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4))
def test_where_all_others_are_forbidden_only_the_named_one_passes(arguments: dict[str, object]) -> None:
    where = Where("g", 1, 1)
    rules = (ArgRule("r", where, ("a",), required=True), ArgRule("o", where, ("*",), forbid=True))
    assert (check(rules, arguments) is None) == (set(arguments) == {"a"} and arguments["a"] is not None)
