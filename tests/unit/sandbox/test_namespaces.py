"""Why a machine refuses namespaces, in words, and the way out of each."""

from __future__ import annotations

import errno
import os

import pytest

from mcpwrap.sandbox import namespaces

CASES = {
    "Ubuntu": (
        {"kernel/apparmor_restrict_unprivileged_userns": "1"},
        errno.EPERM,
        "AppArmor restricts",
        "`userns,`",
    ),
    "a profile": ({"attr/apparmor/current": "code (enforce)"}, errno.EACCES, "profile `code`", "`userns,`"),
    "Debian": (
        {"unprivileged_userns_clone": "0"},
        errno.EPERM,
        "switched off",
        "unprivileged_userns_clone=1",
    ),
    "none": ({"user/max_user_namespaces": "0"}, errno.EPERM, "no further one", "max_user_namespaces="),
    "too many": ({}, errno.ENOSPC, "no further one", "max_user_namespaces="),
    "an old kernel": ({}, errno.EINVAL, "lacks a namespace", "CONFIG_USER_NS"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refusal_is_told_with_its_reason_and_the_way_out(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, number, reason, way_out = CASES[case]
    monkeypatch.setattr(namespaces, "in_container", lambda: False)
    monkeypatch.setattr(
        namespaces,
        "_read",
        lambda path: next((text for end, text in files.items() if path.endswith(end)), ""),
    )
    found = namespaces.refused("new namespaces", OSError(number, os.strerror(number)))
    assert "the kernel refuses new namespaces" in found.what and reason in found.what
    assert way_out in found.way_out


@pytest.mark.parametrize("label", ["unconfined", "code (complain)", "unconfined_t", ""])
def test_who_is_not_confined_by_apparmor_is_not_told_of_it(
    label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "_read", lambda path: label if "apparmor/current" in path else "")
    monkeypatch.setattr(namespaces, "in_container", lambda: True)
    found = namespaces.refused("new namespaces", PermissionError(errno.EPERM, "no"))
    assert "container" in found.what and "AppArmor" not in found.what
