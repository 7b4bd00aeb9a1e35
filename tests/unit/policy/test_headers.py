"""What belongs to a tool besides its rules: conditions, a pin, and whether anything names it."""

from __future__ import annotations

from tests.unit.policy.machine import Machine

PIN = "sha256:" + "0123456789abcdef" * 4
OTHER = "sha256:" + "f" * 64


def test_the_conditions_are_those_of_the_most_exact_header_that_has_any() -> None:
    policy = Machine().policy(
        """
        [tools."*"]
        args.a.max_length = 1
        [tools."db_*"]
        args.a.max_length = 2
        [tools."db_read_*"]
        args.a.max_length = 3
        [tools.db_read_all]
        args.a.max_length = 4
        [tools.db_read_none]
        net = ["db.example"]
        [tools."x|db_read_two"]
        args.b.required = true
        [tools."y|db_read_two"]
        args.c.required = true
        [tools.alone]
        inherit = false
        """
    )

    def of(tool: str) -> list[tuple[tuple[str, ...], int | None]]:
        return [(rule.steps, rule.max_length) for rule in policy.args_of(tool)]

    assert of("other") == [(("a",), 1)]
    assert of("db_x") == [(("a",), 2)]
    assert of("db_read_x") == [(("a",), 3)]
    assert of("db_read_all") == [(("a",), 4)]
    assert of("db_read_none") == [(("a",), 3)]
    assert of("db_read_two") == [(("b",), None), (("c",), None)]
    assert of("alone") == []
    assert of("") == []


def test_a_pin_is_the_tools_own_and_a_header_names_it_or_not() -> None:
    policy = Machine().policy(
        f'[tools."*"]\nexec = ["git"]\n[tools.a]\npin = "{PIN}"\n[tools."b*"]\nfs_read = ["/data/x"]\n'
        f'[tools.bc]\npin = "{OTHER}"'
    )
    assert (policy.pin_of("a"), policy.pin_of("b"), policy.pin_of("bc"), policy.pin_of("c")) == (
        PIN,
        None,
        OTHER,
        None,
    )
    assert [name for name in ("a", "b", "bc", "c", "") if policy.names_tool(name)] == ["a", "b", "bc"]


def test_headers_of_two_patterns_are_as_exact_as_the_one_that_matches() -> None:
    policy = Machine().policy(
        '[tools."read_*|zzzzzzzz_*"]\nargs.a.max_length = 1\n[tools."read_f*"]\nargs.a.max_length = 2'
    )
    assert [rule.max_length for rule in policy.args_of("read_file")] == [2]
    assert [rule.max_length for rule in policy.args_of("read_x")] == [1]
