"""The user's own seal: kept where nobody else can read it, or for this process alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steno.cli.seal import FILE_NAME, OwnSeal


def test_two_processes_of_a_user_have_the_same_seal(tmp_path: Path) -> None:
    file = tmp_path / "steno" / FILE_NAME
    assert OwnSeal(file)("text") == OwnSeal(file)("text") != OwnSeal(file)("other")


def test_nobody_else_may_read_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "steno" / FILE_NAME
    OwnSeal(file)("text")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert file.read_bytes().hex() not in OwnSeal(file)("text")


def test_nothing_is_made_before_something_is_sealed(tmp_path: Path) -> None:
    OwnSeal(tmp_path / "steno" / FILE_NAME)
    assert not (tmp_path / "steno").exists()


@pytest.mark.parametrize("problem", ["open", "short", "long", "empty"])
def test_a_secret_that_others_may_know_is_replaced(tmp_path: Path, problem: str) -> None:
    file = tmp_path / FILE_NAME
    before = OwnSeal(file)("text")
    if problem == "open":
        file.chmod(0o640)
    else:
        file.write_bytes({"short": b"x", "long": bytes(33), "empty": b""}[problem])
    after = OwnSeal(file)("text")
    assert after != before
    assert after == OwnSeal(file)("text")
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_secret_lies_beside_the_settings_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    OwnSeal()("text")
    assert os.listdir(tmp_path / "steno") == [FILE_NAME]  # noqa: PTH208 - names are enough


def test_without_a_home_a_seal_is_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    seal = OwnSeal()
    assert seal("text") == seal("text") != OwnSeal()("text")


def test_where_nothing_can_be_kept_a_seal_is_for_this_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    seal = OwnSeal(tmp_path / "file" / FILE_NAME)
    assert seal("text") == seal("text") != OwnSeal(tmp_path / "file" / FILE_NAME)("text")
