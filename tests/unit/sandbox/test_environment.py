"""Which variables the server is given."""

from __future__ import annotations

import os

import pytest

from mcpwrap.errors import CannotConfine
from mcpwrap.sandbox.environment import choose, refuse_loader_variables, start_environment

OURS = {"HOME": "/home/u", "LC_ALL": "C", "PATH": "/bin", "API_KEY": "secret", "SSL_CERT_FILE": "/etc/ca.pem"}


def test_only_the_safe_list_passes_by_itself() -> None:
    found = choose(OURS, OURS)
    assert set(found.passed) == {"HOME", "LC_ALL", "PATH", "SSL_CERT_FILE"}
    assert found.withheld == ("API_KEY",)


def test_a_named_variable_passes() -> None:
    assert choose(OURS, OURS, named=["API_KEY", "ABSENT"]).passed["API_KEY"] == "secret"


@pytest.mark.parametrize("parent", [{"HOME": "/home/u"}, {"API_KEY": "other"}])
def test_what_the_parent_added_or_changed_for_this_child_passes(parent: dict[str, str]) -> None:
    assert choose(OURS, parent).passed["API_KEY"] == "secret"


def test_nothing_passes_for_that_reason_where_the_parent_cannot_be_read() -> None:
    assert "API_KEY" not in choose(OURS, None).passed


def test_values_of_the_grant_win() -> None:
    found = choose(OURS, OURS, named=["API_KEY"], values={"API_KEY": "granted", "NEW": "1"})
    assert found.passed["API_KEY"] == "granted"
    assert found.passed["NEW"] == "1"


def test_a_shells_bookkeeping_is_withheld_without_a_word() -> None:
    found = choose({"_": "/bin/x", "PWD": "/", "OLDPWD": "/", "SHLVL": "1"}, {})
    assert found == type(found)({}, ())


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_LIBRARY_PATH", "MCPWRAP_MUST_WORK"])
def test_loader_variables_and_mcpwraps_own_never_pass(name: str) -> None:
    found = choose({name: "x"}, {}, named=[name], values={name: "y"})
    assert found == type(found)({}, ())


def test_loader_variables_set_for_mcpwrap_itself_are_refused() -> None:
    refuse_loader_variables({"HOME": "/", "LDFLAGS": "-O"})
    with pytest.raises(CannotConfine, match="LD_AUDIT, LD_PRELOAD is set"):
        refuse_loader_variables({"LD_PRELOAD": "x.so", "LD_AUDIT": "y.so"})


def test_the_start_environment_of_a_process_is_read() -> None:
    if os.path.basename(os.readlink("/proc/self/exe")) in ("sh", "bash"):
        pytest.skip("this interpreter calls itself a shell")
    found = start_environment(os.getpid())
    assert found is not None
    assert "PATH" in found


def test_a_process_that_cannot_be_read_tells_nothing() -> None:
    assert start_environment(2**22 + 1) is None
