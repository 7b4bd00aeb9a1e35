"""The stem's side of what connects it to the relay."""

from __future__ import annotations

from typing import NamedTuple


class Ends(NamedTuple):
    """What the stem holds of the pipes between it and the relay, and of the channel; -1 for what there is not."""

    stdin: int
    stdout: int
    stderr: int
    records: int
    status: int
    life: int
    freeze: int
    network: int
