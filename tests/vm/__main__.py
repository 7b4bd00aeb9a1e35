"""`python -m tests.vm [SERIES...] [-- PYTEST-ARGUMENT...]`: the kernel suite and the victims on other kernels.

Boots each series of `image.SUITES` (default: all) under QEMU's own processor (TCG: no hardware is needed),
with Yama's ptrace_scope at 1 and AppArmor on, and runs the tests there as an ordinary user.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.vm import image

PROJECT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = Path(os.environ.get("MCPWRAP_VM_CACHE", PROJECT / ".vm"))
TESTS: Final = "tests/kernel tests/e2e/test_victims_files.py tests/e2e/test_victims_system.py -q -rs"
WANTED: Final = (
    "attrs", "google-re2", "hypothesis", "iniconfig", "landlock", "packaging", "pluggy", "pygments", "pytest",
    "sortedcontainers",
)  # fmt: skip
"""Of the locked requirements, what the tests in the guest import."""
GUEST_SECONDS: Final = 3_600
"""8 minutes on a quiet machine; more than 25 were seen on a busy one."""
MEMORY: Final = "8G"
"""A tree may hold half of it: the fork bomb of the victims needs 3 GiB before it meets its own limit."""
LEFT_OUT: Final = (".git", ".venv", ".vm", ".demo", "__pycache__", "*_cache", ".hypothesis", "dist", "build")


def main(arguments: list[str]) -> int:
    """Return 0 if the tests passed on every kernel that was asked for."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    wanted, tests = arguments[:cut] or list(image.SUITES), shlex.join(arguments[cut + 1 :])
    unknown = [each for each in wanted if each not in image.SUITES]
    if unknown:
        sys.exit(f"no kernel series {', '.join(unknown)}: {', '.join(image.SUITES)}")
    CACHE.mkdir(parents=True, exist_ok=True)
    userland = image.userland(CACHE, _requirements())
    project = _project(tests or TESTS)
    results = {each: _boot(image.kernel(each, CACHE), userland, project) for each in wanted}
    for each, (status, seconds) in results.items():
        print(f"Linux {each}: {'passed' if status == 0 else f'FAILED ({status})'} in {seconds:.0f} s")
    return int(any(status for status, _ in results.values()))


def _requirements() -> Path:
    """Return the lock file with only what is wanted."""
    entries = re.split(r"\n(?=\S)", (PROJECT / "requirements-dev.txt").read_text())
    chosen = [entry for entry in entries if re.split(r"[=<>; ]", entry)[0] in WANTED]
    target = CACHE / "requirements.txt"
    target.write_text("\n".join(chosen) + "\n")
    return target


def _project(arguments: str) -> Path:
    """Return a disk with the project as it is, and the arguments of pytest."""
    root = CACHE / "project"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(PROJECT, root, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    (root / ".guest-arguments").write_text(arguments + "\n")
    target = CACHE / "project.ext4"
    image.disk(root, target, "256M")
    return target


def _boot(kernel: image.Kernel, userland: Path, project: Path) -> tuple[int | str, float]:
    """Run the tests under one kernel; return their exit status (or why there is none) and the seconds it took."""
    told = CACHE / "told"
    told.write_text("")
    began = time.monotonic()
    command = [
        "qemu-system-x86_64", "-accel", os.environ.get("MCPWRAP_VM_ACCEL", "tcg,thread=multi"), "-cpu", "max",
        "-smp", "2", "-m", MEMORY, "-nodefaults", "-display", "none", "-no-reboot",
        "-kernel", str(kernel.image), "-initrd", str(kernel.initramfs),
        "-append", "console=ttyS0 quiet panic=-1 apparmor=1 security=apparmor",
        "-drive", f"file={userland},format=raw,if=virtio,snapshot=on",
        "-drive", f"file={project},format=raw,if=virtio,snapshot=on",
        "-serial", "stdio", "-serial", f"file:{told}",
    ]  # fmt: skip
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, timeout=GUEST_SECONDS, check=True)
    except subprocess.TimeoutExpired:
        return f"not done after {GUEST_SECONDS} s", time.monotonic() - began
    except FileNotFoundError:
        sys.exit("no `qemu-system-x86_64` (apt-get install qemu-system-x86)")
    found = re.search(r"^guest: (\d+)", told.read_text(errors="replace"), re.MULTILINE)
    return int(found[1]) if found else "the guest died", time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
