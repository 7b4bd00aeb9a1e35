"""The directories above bound paths: those of each path, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mcpwrap.policy.match import below, upward
from mcpwrap.policy.parents import Parents

PATHS = st.lists(st.sampled_from(["a", "a-", "a!", "b", "\ud800", "\U0010ffff"]), max_size=5).map(
    lambda parts: "/" + "/".join(parts)
)
ADDED = st.lists(st.tuples(PATHS, st.integers(0, 5)), max_size=8)


@given(ADDED, PATHS)
def test_a_directory_is_granted_if_it_lies_between_a_path_and_its_root(
    added: list[tuple[str, int]], directory: str
) -> None:
    parents = Parents()
    granting = set()
    for number, (path, levels) in enumerate(added):
        root = list(upward(path))[min(levels, len(list(upward(path))) - 1)]
        parents.add(path, root, str(number))
        if path != directory and below(path, directory) and below(directory, root):
            granting.add(str(number))
    found = parents.get(directory)
    assert (found in granting) if granting else found is None
