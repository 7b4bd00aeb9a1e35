"""The README's first figure: every hole of the corpus, bare, under bubblewrap, behind mcpwrap.

bubblewrap gets the union of the grants. Of the rows `a name nobody granted` it could hold those whose name
exists by a read-only or empty mount on top; the others need a decision on each call.
"""

from __future__ import annotations

import shutil
import sys

from tests.e2e.client import text
from tests.e2e.corpus import rows, run_hole
from tests.e2e.servers import Unavailable, install

KINDS = {
    "exploit": "published hole, aimed outside",
    "twin": "the same, aimed at what another tool or call may touch",
    "name": "a name nobody granted, in a directory that was",
}


def main() -> int:
    """Print the table; return 1 if mcpwrap did not hold and explain every row that harms bare."""
    print("| hole | aimed at | bare | bubblewrap, union of the grants | mcpwrap | explained to the model |")
    print("|---|---|---|---|---|---|")
    bad = 0
    for row in rows("hole"):
        try:
            install(row["server"])
            bare = run_hole(row, "bare")[0].verdict
        except Unavailable as problem:
            print(f"| {row['name']} | not to be had: {problem} |")
            continue
        bubblewrap = run_hole(row, "bubblewrap")[0].verdict if shutil.which("bwrap") else "–"
        wrapped = run_hole(row, "mcpwrap")[0]
        told = any("refused by mcpwrap" in text(answer) for answer in wrapped.attacks)
        bad += bare == "HARM" and (wrapped.verdict != "held" or not told)
        cells = (row["name"], KINDS[row["kind"]], bare, bubblewrap, wrapped.verdict, "yes" if told else "no")
        print(f"| {' | '.join(cells)} |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
