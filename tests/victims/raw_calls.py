"""Makes the system calls it is given on stdin (JSON: [[name, [argument, ...]], ...]) and prints each errno (0: none).

`filtered`, `tier C`, `tier B-` or `nested` as its argument: under that filter without a listener (what would be trapped
is allowed).
Each call is made in a child, so that one that ends it (-signal is printed) or changes it stays alone.
An argument "bad" is a pointer to nothing, "null" 0; a list is bytes.
"""

import ctypes
import json
import os
import sys

from mcpwrap.kernel import process, seccomp
from mcpwrap.kernel.numbers import NR
from mcpwrap.sandbox import bare_calls, nested_calls
from mcpwrap.sandbox.seccomp import program

LIBC = ctypes.CDLL(None, use_errno=True)


def word(value):
    if isinstance(value, list):
        return ctypes.create_string_buffer(bytes(value))
    if isinstance(value, str):
        return ctypes.c_long({"bad": 0xDEAD0000, "null": 0}[value])
    return ctypes.c_long(value)


def attempt(name, arguments):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        number = int(name[1:]) if name.startswith("#") else NR[name]
        result = LIBC.syscall(ctypes.c_long(number), *map(word, arguments))
        os.write(writing, str(ctypes.get_errno() if result == -1 else 0).encode())
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 16)
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    return int(answer) if answer else -os.WTERMSIG(status)


OVERLAYS = {
    "filtered": (),
    "tier C": bare_calls.groups(scoped=False, copies=True),
    "tier B-": bare_calls.UNWATCHED,
    "nested": nested_calls.GROUPS,
}

cases = json.load(sys.stdin)
if sys.argv[1] in OVERLAYS:
    process.set_no_new_privs()
    seccomp.load(program(False, overlay=OVERLAYS[sys.argv[1]]), listener=False)
print(json.dumps([attempt(name, arguments) for name, arguments in cases]))
