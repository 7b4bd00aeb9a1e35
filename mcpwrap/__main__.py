"""`python -I -m mcpwrap`: what the installed command runs."""

from __future__ import annotations

import os
import sys

from mcpwrap.cli.main import main

if __name__ == "__main__":
    for name in filter(None, os.environ):
        # Kept in `os.environ`, for the server; taken from what libraries in this process read by themselves:
        # OpenSSL, behind hashlib, loads the shared objects that the file named by OPENSSL_CONF names.
        os.unsetenv(name)
    sys.exit(main(sys.argv[1:]))
