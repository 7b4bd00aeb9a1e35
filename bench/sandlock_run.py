"""`sandlock_run.py READS WRITES CMD...`: run a command under sandlock's Python SDK, its stdio inherited.

READS and WRITES are colon-separated paths. Run by the interpreter sandlock is installed for.
"""

from __future__ import annotations

import sys

from sandlock import Sandbox  # type: ignore[import-not-found]

SYSTEM = ["/usr", "/lib", "/lib64", "/bin", "/etc", "/proc", "/dev"]

if __name__ == "__main__":
    reads, writes = ([path for path in text.split(":") if path] for text in sys.argv[1:3])
    process = Sandbox(fs_readable=SYSTEM + reads, fs_writable=["/dev", *writes]).popen(sys.argv[3:])
    sys.exit(process.wait().exit_code)
