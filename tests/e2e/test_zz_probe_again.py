import os, pytest
from tests.e2e.test_attacks_again import *
def test_probe(victim):
    d = victim.case("probe"); tree = d/"r"
    home = victim.place.env["HOME"]
    for t in (f"/proc/self/root{home}/.ssh/id", "/proc/self/cwd/../x", "/proc/1/root/etc/shadow", "/dev/fd/3", "/dev/stdin", "/etc/../home/dev/.ssh", "/etc/shadow", "/usr", "/sys/kernel", "/proc/version", "/dev/null", "/run/user/1500", "/var/run/docker.sock", f"{home}/.cache/x", "..", "../b.txt", "f/../../b.txt", "//etc/passwd", "/tmp", str(tree)+"/../b.txt"):
        print(t, said(victim, "writer", "symlink", {"path": str(tree)}, target=t, path=str(tree/("l%d" % abs(hash(t)))))[:60].split("\n")[0])
    assert 0
