"""`python -m bench`: measure and print; `python -m bench held`: the table of holes only."""

from __future__ import annotations

import sys

from bench import held, run

if __name__ == "__main__":
    sys.exit(held.main() if sys.argv[1:] == ["held"] else run.main(sys.argv[1:]))
