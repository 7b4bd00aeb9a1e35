"""What the server sees of the machine's files: what the plan holds, the way the plan says, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.kernel.confined import Place, place

pytestmark = pytest.mark.needs("userns", "seccomp", "landlock")

JSON = "import json, os, sys\nshow = lambda value: print(json.dumps(value))\n"
ERRNO = (
    JSON
    + """
import errno
def outcome(act, *arguments, **named):
    try:
        act(*arguments, **named)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
"""
)
FLAGS = JSON + "flags = lambda path: [bool(os.statvfs(path).f_flag & bit) for bit in (1, 2, 4, 8)]\n"
READ_ONLY, NOSUID, NODEV, NOEXEC = range(4)


@pytest.fixture
def here() -> Iterator[Place]:
    with place() as found:
        yield found


def test_the_root_holds_only_what_is_planned(here: Place) -> None:
    places = ["/root", "/var", "/sys", "/boot", "/old", "/etc/shadow"]
    seen = here.run(JSON + f"show([os.path.exists(each) for each in {places!r}])")
    assert seen.value() == [False] * 6


def test_the_real_home_is_not_there_and_the_private_one_is_kept(here: Place) -> None:
    here.make("home/.ssh/id_ed25519", "secret")
    first = here.run(ERRNO + "open('kept', 'w').close(); show([os.getcwd(), os.path.exists('.ssh')])")
    assert first.value() == [str(here.home), False]
    assert not (here.home / "kept").exists()
    assert here.run(JSON + "show(os.path.exists('kept'))").value() is True


def test_a_granted_directory_below_tmp_survives_the_private_tmp(here: Place) -> None:
    work = here.make("work")
    here.make("work/file", "text")
    here.make("other")
    code = (
        JSON
        + f"show([open({work!r} + '/file').read(), sorted(os.listdir({str(here.root)!r})), os.listdir('/tmp')])"
    )
    assert here.run(code, reads=[work]).value() == ["text", ["home", "work"], [here.root.name]]


def test_a_grant_by_a_symlink_is_reached_as_written_and_as_resolved(here: Place) -> None:
    here.make("data/real/file", "text")
    here.make("home/x")
    os.symlink("../data/real", here.home / "short")
    written = f"{here.home}/short"
    code = (
        JSON
        + f"show([os.readlink({written!r}), open({written!r} + '/file').read(), os.path.realpath({written!r})])"
    )
    seen = here.run(code, reads=[written], links=[written]).value()
    assert seen == ["../data/real", "text", f"{here.root}/data/real"]
    assert here.run(code, reads=[written], links=[written]).value() == seen, (
        "the second run finds its own link"
    )


def test_read_only_and_writable_grants_are_mounted_so(here: Place) -> None:
    reads, writes = here.make("r"), here.make("w")
    paths = [reads, writes, str(here.home), "/tmp", "/dev/shm", "/usr", "/", "/dev/null"]
    seen = here.run(
        FLAGS + f"show([flags(path) for path in {paths!r}])", reads=[reads], writes=[writes]
    ).value()
    mounted = dict(zip(paths, seen, strict=True))
    assert [path for path in paths if mounted[path][READ_ONLY]] == [reads, "/usr", "/", "/dev/null"]
    noexec = [writes, str(here.home), "/tmp", "/dev/shm", "/", "/dev/null"]
    assert [path for path in paths if mounted[path][NOEXEC]] == noexec
    assert all(mounted[path][NOSUID] for path in paths)
    assert [path for path in paths if not mounted[path][NODEV]] == ["/dev/null"]


def test_nothing_writable_can_be_mapped_executable(here: Place) -> None:
    writes = here.make("w")
    code = (
        ERRNO
        + f"""
import mmap
def try_map(directory):
    fd = os.open(directory + "/code", os.O_CREAT | os.O_RDWR, 0o755)
    os.write(fd, bytes(4096))
    return outcome(mmap.mmap, fd, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)
show([try_map(each) for each in ({writes!r}, os.environ["HOME"], "/tmp", "/dev/shm")])
"""
    )
    assert here.run(code, writes=[writes]).value() == ["EPERM"] * 4
    assert here.run(code, writes=[writes], any_writable=True).value() == ["done", "done", "done", "EPERM"]


def test_a_program_outside_the_floor_is_not_executed(here: Place) -> None:
    code = ERRNO + "show(outcome(os.execv, '/usr/bin/env', ['env']))"
    assert here.run(code).value() == "EACCES"
    assert here.run(code.replace("show(", "(", 1), executables=["/usr/bin/env"]).status["exit"] == {
        "status": 0
    }


def test_covers_hide_a_file_and_a_directory_inside_a_grant(here: Place) -> None:
    work = here.make("work")
    here.make("work/.env", "TOKEN=1")
    here.make("work/.aws/credentials", "secret")
    code = (
        ERRNO
        + f"""
os.chdir({work!r})
show([os.stat(".env").st_size, outcome(open, ".env"), outcome(os.chmod, ".env", 0o600),
      os.path.exists(".aws/credentials"), outcome(open, ".aws/new", "w"), outcome(os.rename, ".aws", "x")])
"""
    )
    seen = here.run(code, writes=[work], covers=[f"{work}/.env", f"{work}/.aws"]).value()
    assert seen == [0, "EACCES", "EROFS", False, "EROFS", "EBUSY"]


def test_an_exact_grant_inside_a_cover_is_seen_alone(here: Place) -> None:
    work = here.make("work")
    known = here.make("work/.ssh/known_hosts", "host key")
    here.make("work/.ssh/id_ed25519", "secret")
    code = JSON + f"show([open({known!r}).read(), os.path.exists({work!r} + '/.ssh/id_ed25519')])"
    assert here.run(code, reads=[work, known], covers=[f"{work}/.ssh"]).value() == ["host key", False]


def test_the_installation_stays_read_only_inside_a_writable_grant(here: Place) -> None:
    work = here.make("work")
    code_directory = here.make("work/node_modules")
    here.make("work/node_modules/a.js", "1")
    code = FLAGS + f"show([flags({work!r})[0], flags({code_directory!r})[0]])"
    assert here.run(code, writes=[work], installation=[code_directory]).value() == [False, True]


def test_a_file_to_be_written_can_be_made_and_replaced_in_its_directory(here: Place) -> None:
    here.make("notes/other", "x")
    wanted = f"{here.root}/notes/new.txt"
    code = (
        ERRNO
        + f"open({wanted!r} + '.tmp', 'w').close(); show(outcome(os.rename, {wanted!r} + '.tmp', {wanted!r}))"
    )
    assert here.run(code, writes=[wanted], parents=[f"{here.root}/notes"], missing=[wanted]).value() == "done"
    assert os.path.exists(wanted)


def test_one_file_in_the_home_directory_does_not_show_the_home_directory(here: Place) -> None:
    wanted = here.make("home/notes.txt", "text")
    here.make("home/secret", "x")
    code = (
        JSON + "open('notes.txt', 'a').write('+'); show([open('notes.txt').read(), os.path.exists('secret')])"
    )
    assert here.run(code, writes=[wanted]).value() == ["text+", False]


def test_directories_above_a_grant_cannot_be_renamed_where_the_server_may_write(here: Place) -> None:
    deep = here.make("home/a/b/c")
    code = (
        ERRNO
        + "show([outcome(os.rename, *names) for names in (('a', 'z'), ('a/b', 'a/z'), ('a/b/c', 'a/b/z'))])"
    )
    assert here.run(code, reads=[deep]).value() == ["EBUSY"] * 3
    below_tmp = here.make("t/u/v")
    code = ERRNO + f"show(outcome(os.rename, {str(here.root / 't' / 'u')!r}, {str(here.root / 't' / 'z')!r}))"
    assert here.run(code, reads=[below_tmp]).value() == "EBUSY"


def test_the_private_home_cannot_be_exchanged_for_a_symlink(here: Place) -> None:
    code = ERRNO + "os.chdir('.local/share/mcpwrap/test'); show(outcome(os.rename, 'home', 'x'))"
    assert here.run(code).value() == "EBUSY"


def test_a_symlink_planted_in_the_private_home_moves_no_mount(here: Place) -> None:
    victim, work = here.make("victim"), here.make("home/work/new/deep")
    here.run(JSON + f"os.symlink({victim!r}, 'work')")
    refused = here.run(JSON + "show(1)", reads=[work]).status["failed"]
    assert refused["exit_status"] == 126
    assert f"{here.home}/work" in refused["what"]
    assert os.listdir(victim) == []


def test_a_private_home_that_became_a_symlink_is_refused(here: Place) -> None:
    here.make("home/.local/share/mcpwrap/test")
    os.symlink(here.home, here.home / ".local/share/mcpwrap/test/home")
    refused = here.run(JSON + "show(os.listdir('.'))").status["failed"]
    assert refused["exit_status"] == 126
    assert ".local/share/mcpwrap/test/home" in refused["what"]


def test_machine_wide_parts_of_proc_are_read_only(here: Place) -> None:
    seen = here.run(FLAGS + "show([flags('/proc/' + name)[0] for name in ('sys', 'irq', 'bus')])").value()
    assert seen == [True, True, True]


def test_the_only_name_server_is_the_sandboxs_own_and_there_is_no_terminal(here: Place) -> None:
    seen = here.run(
        ERRNO + "import re\n" + "show([re.findall('^nameserver.*', open('/etc/resolv.conf').read(), re.M), "
        "outcome(open, '/dev/tty')])"
    )
    assert seen.value() == [["nameserver 127.0.0.1"], "ENOENT"]


def test_devices_work_and_standard_streams_have_their_names(here: Place) -> None:
    code = JSON + (
        "open('/dev/null', 'w').write('x'); open('/dev/stderr', 'w').write('told')\n"
        "show([len(open('/dev/urandom', 'rb').read(8)), open('/dev/zero', 'rb').read(2).hex()])"
    )
    seen = here.run(code)
    assert seen.err == "told"
    assert seen.value() == [8, "0000"]


def test_the_working_directory_exists_even_if_nothing_in_it_is_granted(here: Place) -> None:
    project = here.make("project")
    here.make("project/secret", "x")
    assert here.run(JSON + "show([os.getcwd(), os.path.exists('secret')])", cwd=project).value() == [
        project,
        False,
    ]


def test_what_is_a_socket_or_missing_is_left_out_and_nothing_fails(here: Place) -> None:
    assert here.run(JSON + "show(1)", reads=[f"{here.root}/missing", "/proc/1", "/sys"]).value() == 1
