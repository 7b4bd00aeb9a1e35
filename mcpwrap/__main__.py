"""`python -I -m mcpwrap`: what the installed command runs."""

from __future__ import annotations

import sys

from mcpwrap.cli.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
