"""Named limits, each with its reason beside the number."""

from __future__ import annotations

from typing import Final

MAX_LINE: Final = 16 * 1024 * 1024
"""Bytes of one JSON-RPC line. The largest line seen in 56 servers is 94,611 bytes; images and file
contents go higher, and MCP names no limit. `--max-line` overrides."""

MAX_DEPTH: Final = 200
"""Nesting of one message that is read with certainty. RapidJSON and jsonc default to depths of this order."""

MAX_HELD_CALLS: Final = 1_024
"""Calls waiting for a window. Reading never stops (an answer may be behind), so the queue must end."""

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Bytes of held calls: four lines of the largest size."""

HOLD_SECONDS: Final = 30.0
"""A call of another tool waits so long for its turn, then gets an isError result that says so."""

STARTUP_QUIET_SECONDS: Final = 0.3
"""Start-up has ended when the tree opened and executed nothing for so long after its first answer."""

STARTUP_LIMIT_SECONDS: Final = 30.0
"""Start-up ends at the latest so long after the first call or answer, quiet or not."""

STARTUP_MOVING_LIMIT_SECONDS: Final = 120.0
"""The same while connections that only start-up may have are in use: a package is being downloaded."""

CANCEL_DRAIN_SECONDS: Final = 2.0
"""A cancelled call's window stays open so long for the work that is being undone."""

RECORDS_PER_WINDOW: Final = 1_000
"""Events of one window written to the audit one by one; beyond, exact counts per rule."""

BOUND_VALUES_PER_CALL: Final = 256
"""Argument values one call may bind as paths."""

BOUND_CHARACTERS_PER_CALL: Final = 256 * 1024
"""Characters of these values together: 1,024 each. Looking up one of the longest (`PATH_MAX`) takes 5 ms."""

PATH_CHARACTERS: Final = 4_096
"""A longer text names no file (`PATH_MAX`)."""

DIRECTORY_RENAME_ENTRIES: Final = 10_000
"""Entries below a directory that are looked through before it may be renamed; a larger one is refused."""

PROCESSES: Final = 512
"""RLIMIT_NPROC, counted per user namespace (Linux 5.14), so of this server's tree alone. Chromium needs about 100."""

SIGNALS: Final = 4_096
"""RLIMIT_SIGPENDING: queued signals and POSIX timers, which the kernel counts for the user across namespaces. Without
a bound of its own a server takes all of some 95,000, and no other program of the user makes a timer."""

DESCRIPTORS: Final = 4_096
"""RLIMIT_NOFILE of each process of the server. The usual soft limit is 1,024; bundlers and watchers need more."""

DATA_BYTES: Final = 8 * 1024**3
"""RLIMIT_DATA of each process. RLIMIT_AS would break node and wasm, which reserve address space in terabytes."""

TREE_MEMORY_BYTES: Final = 8 * 1024**3
"""Memory of the whole tree, at most half of the machine's (a smaller machine must stay usable)."""

TEMPORARY_BYTES: Final = 1024**3
"""Size of the private /tmp, which is memory."""

SHARED_MEMORY_BYTES: Final = 512 * 1024**2
"""Size of the private /dev/shm."""

TEMPORARY_INODES: Final = 262_144
"""Files in each of the two: about 1 KiB of kernel memory a file that no size limit counts."""

MEMORY_CHECK_SECONDS: Final = 0.25
"""How often the tree's memory is looked at: a process fills at most about 1 GiB in that time."""

DENIALS_TOLD: Final = 20
"""Denials spelled out in one answer; a sweep over a tree makes thousands, and the model pays for each."""

TASK_WINDOWS: Final = 64
"""Windows kept open for tasks. A server may never end one that has no ttl; the oldest is then closed."""

REMEMBERED: Final = 4_096
"""Requests in flight that open no window, open server requests, ended tasks and request states kept in mind."""

REMEMBERED_CHARACTERS: Final = 1_024
"""Of an id that a server chooses; a longer one is not kept in mind. UUIDs have 36, signed tokens a few hundred."""

NOISE_NOTED: Final = 16
"""Lines of one fault noted one by one; beyond, each doubling of their number (progress tables run to thousands)."""

UNPARSABLE_LINES: Final = 100
"""Lines of the client in a row that are no JSON, each answered: a stray banner or trace is shorter. Beyond, the
client speaks another protocol, and two bytes of it would go on making 150 of answer."""

GLANCE_BYTES: Final = 32 * 1024
"""An answer from this size on is looked at without being parsed where that suffices; below, parsing is as cheap."""

LONG_TEXT_BYTES: Final = 64 * 1024
"""A string of a call longer than this is not read where that suffices. It is no path, however escaped (4,096
characters of at most six bytes), and too long to be written to the audit."""

TOOLS_LISTED: Final = 4_096
"""Tools of one server kept in mind, each by its digest. Servers list tens of them, and models are given no more than
a few hundred."""

LIST_BYTES: Final = 4 * 1024 * 1024
"""One answer to `tools/list`. The largest seen has 94,611 bytes; this is a million tokens, more than a model takes.
A line of `MAX_LINE` that nests as deep as it may would take 40 s to be looked through."""

LIST_SECONDS: Final = 2.0
"""A call that comes before the server's tools are known waits so long for mcpwrap's own `tools/list`."""

LIST_PAGES: Final = 64
"""Pages of that listing: `TOOLS_LISTED` at 64 a page. A server may name a next page forever."""

REFUSALS_SAID: Final = 100
"""Different calls refused before they started that get a line on stderr in one run; all are in the audit."""

NAME_SHOWN: Final = 200
"""Characters of a tool's name that are repeated in a text; the name itself has no limit."""

JUDGED_ITEMS: Final = 65_536
"""Items of an array, or names of an object, that conditions on arguments look at (0.2 s); a line holds millions."""
