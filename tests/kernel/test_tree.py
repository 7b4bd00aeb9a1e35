"""The end of a process and all it left behind, in a process of its own (a subreaper)."""

from __future__ import annotations

import json
import subprocess
import sys

BODY = """
import json, os, signal, sys
from mcpwrap.kernel import process
from mcpwrap.sandbox import tree

process.set_child_subreaper()
said, tell = os.pipe()
if not os.fork():
    if not os.fork():
        os.setsid()
        os.write(tell, str(os.getpid()).encode())
        signal.pause()
    os._exit(7)
orphan = int(os.read(said, 16))
look = tree.descendants
missed = [{misses}]

def descendants(root):
    if missed[0]:
        missed[0] -= 1
        return []
    return look(root)

tree.descendants = descendants
buried = tree.end(os.getpid())
print(json.dumps([buried.pop(orphan, None), list(buried.values()), os.path.exists(f"/proc/{{orphan}}"), missed[0]]))
"""


def ended(misses: int) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", BODY.format(misses=misses)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    found: list[object] = json.loads(done.stdout)
    return found


def test_what_has_left_its_parent_and_its_session_is_ended_and_buried() -> None:
    assert ended(0) == [9, [7 << 8], False, 0]


def test_what_several_looks_miss_is_ended_all_the_same() -> None:
    assert ended(5) == [9, [7 << 8], False, 0]
