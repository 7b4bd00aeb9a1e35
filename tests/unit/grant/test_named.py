from __future__ import annotations

from mcpwrap.grant.named import Kind, NamedPath, bindable
from tests.unit.grant.reading import VARIABLES


def reasons(path: str, kind: Kind = "directory", real: str = "", protected: str = "") -> list[str]:
    bound, refused = bindable([NamedPath(path, real or path, kind, protected)], VARIABLES)
    assert len(bound) + len(refused) == 1
    return [reason for _, reason in refused]


def test_files_and_directories_are_bound_in_order_and_once() -> None:
    file, directory = NamedPath("/srv/b", "/srv/b", "file"), NamedPath("/srv/a", "/x/a", "directory")
    assert bindable([file, directory, file], VARIABLES) == (("/srv/b", "/srv/a"), ())


def test_what_is_not_there_is_neither_bound_nor_told() -> None:
    assert bindable([NamedPath("/srv/none", "/srv/none", "missing")], VARIABLES) == ((), ())


def test_sockets_devices_and_fifos_are_never_bound_unasked() -> None:
    kinds: tuple[Kind, ...] = ("socket", "device", "fifo")
    for kind in kinds:
        assert reasons("/srv/x", kind) == [f"a {kind} is never bound unasked"]


def test_protected_paths_are_never_bound_unasked() -> None:
    assert "private:.ssh" in reasons("/home/u/.ssh/id", "file", protected="private:.ssh")[0]


def test_the_whole_machine_home_and_what_holds_it_are_never_bound() -> None:
    for path in ("/", "/home", "/home/u", "/home/passwd/u", "/tmp", "/proc"):
        assert reasons(path)


def test_a_link_to_home_is_home() -> None:
    assert reasons("/srv/link", real="/home/u")
