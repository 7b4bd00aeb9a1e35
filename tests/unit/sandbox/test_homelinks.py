"""Names in a HOME of the server's for what is granted of the user's."""

from __future__ import annotations

import os
from pathlib import Path

from mcpwrap.sandbox.homelinks import clear, links, renew


def made(tmp_path: Path, *names: str) -> tuple[Path, Path]:
    """Return (own home, user's home), with links for `names` of the latter."""
    own, user = tmp_path / "own", tmp_path / "user"
    own.mkdir(exist_ok=True)
    user.mkdir(exist_ok=True)
    again(own, user, *names)
    return own, user


def again(own: Path, user: Path, *names: str) -> None:
    homes = (str(user),)
    renew(str(own), links([f"{user}/{name}" for name in names], homes), homes)


def test_only_what_is_below_a_home_has_a_name_and_nothing_twice() -> None:
    found = links(["/usr/share", "/home/u/a", "/home/u/a/b", "/h/u/c", "/home/ux"], ("/home/u", "/h/u"))
    assert found == (("c", "/h/u/c"), ("a", "/home/u/a"))


def test_a_name_leads_to_the_real_place_through_directories_of_its_own(tmp_path: Path) -> None:
    own, user = made(tmp_path, ".config/git/config")
    assert os.readlink(own / ".config/git/config") == f"{user}/.config/git/config"
    assert not (own / ".config").is_symlink()


def test_what_a_former_run_made_is_renewed(tmp_path: Path) -> None:
    own, user = made(tmp_path, ".config")
    again(own, user, ".config/git/config")
    assert os.readlink(own / ".config/git/config") == f"{user}/.config/git/config"
    again(own, user, ".config/git/config")
    assert os.listdir(own / ".config/git") == ["config"]


def test_nothing_of_the_servers_own_is_replaced(tmp_path: Path) -> None:
    own, user = made(tmp_path)
    (own / ".gitconfig").write_text("own")
    (own / ".full").mkdir()
    (own / ".link").symlink_to("elsewhere")
    again(own, user, ".gitconfig", ".full", ".link")
    assert (own / ".gitconfig").read_text() == "own"
    assert (own / ".full").is_dir() and not (own / ".full").is_symlink()
    assert os.readlink(own / ".link") == "elsewhere"


def test_no_link_of_the_server_is_followed_on_the_way(tmp_path: Path) -> None:
    own, user = made(tmp_path)
    (user / "work").mkdir()
    (own / ".config").symlink_to(user / "work")
    again(own, user, ".config/git/config")
    assert list((user / "work").iterdir()) == []


def test_a_directory_the_server_has_closed_stops_nothing(tmp_path: Path) -> None:
    own, user = made(tmp_path)
    (own / ".closed").mkdir(mode=0)
    again(own, user, ".closed/file", ".open")
    assert os.readlink(own / ".open") == f"{user}/.open"


def test_in_a_view_of_its_own_they_are_taken_away_and_what_the_server_made_stays(tmp_path: Path) -> None:
    own, user = made(tmp_path, "work", ".config/git/config", ".cache")
    (own / ".cache").unlink()
    (own / ".cache").symlink_to("elsewhere")
    names = links(
        [f"{user}/{name}" for name in ("work/deep", ".config/git/config", ".cache", "none/x")], (str(user),)
    )
    clear(str(own), names, (str(user),))
    assert not (own / "work").is_symlink() and not (own / "work").exists()
    assert list((own / ".config" / "git").iterdir()) == []
    assert os.readlink(own / ".cache") == "elsewhere"
    assert not (own / "none").exists()
