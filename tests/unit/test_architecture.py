"""What holds for the package as a whole: who imports whom, how long modules are, what a run loads."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "mcpwrap"
SECONDS = 60

LONGEST_MODULE = 300
"""Lines; 60 to 250 is the habit. A longer one has two purposes."""

COSTLY = {
    *("anyio", "argparse", "asyncio", "concurrent", "email", "http", "logging", "mcp", "multiprocessing"),
    *("pydantic", "pyroute2", "rich", "subprocess", "tempfile", "textual", "unittest", "urllib"),
}
"""Modules that no run may load before its server has started; `import mcp` alone takes half a second."""

RUN = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in ("mcpwrap.cli.main", "mcpwrap.cli.enforce", "mcpwrap.run"):
    importlib.import_module(name)
print(*sys.modules)
"""


def test_the_import_contracts_hold() -> None:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_module_is_short_and_says_what_it_is_for(module: Path) -> None:
    text = module.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_MODULE
    assert not text or text.startswith(('"""', 'r"""'))


def test_a_run_loads_the_standard_library_only_and_little_of_it() -> None:
    """`-S`: what `.pth` files of a developer's environment import is not the program's."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", RUN, str(ROOT)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.partition(".")[0] for name in done.stdout.split()} - {"__main__"}
    assert loaded - sys.stdlib_module_names == {"mcpwrap"}
    assert not loaded & COSTLY


def test_a_run_without_a_network_loads_nothing_of_the_way_out() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            RUN.replace('"mcpwrap.run"', '"mcpwrap.run", "mcpwrap.session"'),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    loaded = done.stdout.split()
    assert "mcpwrap.session" in loaded
    assert not [name for name in loaded if name.startswith(("mcpwrap.egress", "mcpwrap.network"))]


NETWORKLESS = """
import sys
sys.path.insert(0, sys.argv[1])
from mcpwrap import profiles
from mcpwrap.audit.wider import rules_of
from mcpwrap.grant.parse import parse
from mcpwrap.grant.paths import Variables
text = '[tools.a]\\nfs_read = ["~/w"]\\n' + sys.argv[2]
rules_of(parse(text, "g", Variables("/h", "", "/", "/tmp", "/s", "/c", {}), profiles.text))
print(*sys.modules)
"""
ON_DEMAND = {"re2", "ipaddress", "mcpwrap.grant.hosts", "mcpwrap.grant.sockets", "mcpwrap.grant.conditions"}


@pytest.mark.parametrize(
    ("more", "loads"),
    [
        ("", set()),
        ('net = ["a.example"]', {"ipaddress", "mcpwrap.grant.hosts"}),
        ("args.a = { max = 1 }", {"mcpwrap.grant.conditions"}),
        ("args.a = { pattern = 'a' }", {"mcpwrap.grant.conditions", "re2"}),
    ],
)
def test_a_grant_loads_what_its_nouns_need_and_no_more(more: str, loads: set[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", NETWORKLESS, str(ROOT), more],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) & ON_DEMAND == loads


def test_the_package_depends_on_nothing_but_re2() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each.partition(">")[0] for each in project["dependencies"]] == ["google-re2"]


def test_the_development_pins_are_in_the_lock() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    for pin in project["optional-dependencies"]["dev"]:
        assert f"\n{pin} " in locked, pin


def test_the_help_in_the_readme_is_the_programs() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    _, found, rest = readme.partition("```console\n$ mcpwrap --help\n")
    assert found
    done = subprocess.run(
        [sys.executable, "-s", "-m", "mcpwrap", "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert rest.partition("```")[0] == done.stdout
