"""A name keeps its address, and an address is never another name's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwrap.broker import names
from mcpwrap.broker.names import Names, free_range


def test_an_address_leads_back_to_its_name_and_belongs_to_the_range() -> None:
    table = Names(11)
    one, other = table.address("a.example"), table.address("b.example")
    assert one == bytes((11, 0, 0, 1)) and other == bytes((11, 0, 0, 2))
    assert table.address("a.example") == one
    assert (table.name(one or b""), table.name(bytes((11, 0, 0, 9)))) == ("a.example", None)
    assert table.stands_for(bytes((11, 9, 9, 9)))
    assert not table.stands_for(bytes((12, 0, 0, 1)))
    assert not table.stands_for(b"\x0b" + bytes(15))


def test_who_was_not_used_longest_makes_room_and_its_address_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(names, "NAMES", 3)
    table = Names(11)
    found = {name: table.address(name) or b"" for name in "abc"}
    table.name(found["a"])
    table.address("d")
    assert table.name(found["b"]) is None
    assert table.name(found["a"]) == "a"
    again = table.address("b")
    assert again not in found.values()


def test_a_used_up_range_answers_nobody_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "_END", 2)
    table = Names(11)
    assert [table.address(name) is None for name in "abca"] == [False, False, True, False]


@pytest.mark.parametrize(
    ("granted", "first"),
    [
        ((), 11),
        (("10.0.0.0/8", "12.0.0.0/8", "::/0", "2001:db8::/32"), 11),
        (("11.2.3.4/32",), 22),
        (("8.0.0.0/5",), 22),
        (("11.0.0.0/8", "22.255.255.255/32", "24.0.0.0/6"), 28),
        (("10.0.0.0/7", "16.0.0.0/4"), 33),
    ],
)
def test_the_range_overlaps_nothing_that_is_granted(granted: tuple[str, ...], first: int) -> None:
    assert free_range(granted) == first


def test_a_grant_of_the_whole_internet_leaves_no_range() -> None:
    with pytest.raises(ValueError, match="every range"):
        free_range(("0.0.0.0/0",))


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), max_size=60))
def test_no_two_names_ever_share_an_address(asked: list[str]) -> None:
    table = Names(11)
    known: dict[bytes, str] = {}
    for name in asked:
        address = table.address(name)
        assert address is not None
        assert known.setdefault(address, name) == name
