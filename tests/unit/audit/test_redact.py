"""No secret of a command line or of arguments is written down."""

from __future__ import annotations

import pytest

from mcpwrap.audit.redact import MASK, mask_command, shapes
from mcpwrap.protocol.glance import LongText


@pytest.mark.parametrize(
    ("command", "masked"),
    [
        (["server", "--api-key", "sk-1"], ["server", "--api-key", MASK]),
        (["server", "--api-key=sk-1"], ["server", f"--api-key={MASK}"]),
        (["server", "--TOKEN", "t"], ["server", "--TOKEN", MASK]),
        (["server", "--db-password", "p", "x"], ["server", "--db-password", MASK, "x"]),
        (["server", "-clientsecret", "p"], ["server", "-clientsecret", MASK]),
        (["server", "--token", "--verbose"], ["server", "--token", "--verbose"]),
        (["env", "OPENAI_API_KEY=sk", "server"], ["env", f"OPENAI_API_KEY={MASK}", "server"]),
        (["server", "postgres://u:p@host/db"], ["server", f"postgres://{MASK}@host/db"]),
        (["server", "--url=https://u:p@h/x"], ["server", f"--url=https://{MASK}@h/x"]),
        (["server", "https://h/?api_key=k&x=1"], ["server", f"https://h/?api_key={MASK}&x=1"]),
        (
            ["server", "--header", "Authorization: Bearer abc"],
            ["server", "--header", f"Authorization: Bearer {MASK}"],
        ),
        (["server", "--password", "a\nb"], ["server", "--password", MASK]),
        (["server", "/home/u/work", "--verbose", "a@b"], ["server", "/home/u/work", "--verbose", "a@b"]),
        (["npx", "-y", "@scope/server@1.2"], ["npx", "-y", "@scope/server@1.2"]),
    ],
)
def test_secrets_of_a_command_are_masked_and_nothing_else(command: list[str], masked: list[str]) -> None:
    assert list(mask_command(command)) == masked


def test_arguments_are_recorded_by_their_shapes() -> None:
    arguments = {
        "path": "/secret",
        "n": 1,
        "flag": True,
        "none": None,
        "list": [1, 2],
        "object": {"a": 1},
        "f": 1.5,
        "content": LongText(40_000),
    }
    assert shapes(arguments) == {
        "content": "string of 40000 bytes",
        "path": "string of 7",
        "n": "number",
        "flag": "true",
        "none": "null",
        "list": "array of 2",
        "object": "object of 1",
        "f": "number",
    }


def test_a_page_of_arguments_is_cut() -> None:
    found = shapes({f"{n}" + "x" * 1_000: n for n in range(1_000)})
    assert len(found) == 65
    assert max(map(len, found)) == 100
    assert found["…"] == "936 more"
