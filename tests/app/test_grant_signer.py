"""The signer of grants: its key is in a private file, or in this process only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steno.app.permissions import KEY_FILE_NAME, KeyFileSigner


def test_two_processes_of_a_user_have_the_same_seal(tmp_path: Path) -> None:
    file = tmp_path / "steno" / KEY_FILE_NAME
    assert (
        KeyFileSigner(file)("text") == KeyFileSigner(file)("text") != KeyFileSigner(file)("other")
    )


def test_other_users_cannot_read_the_secret(tmp_path: Path) -> None:
    file = tmp_path / "steno" / KEY_FILE_NAME
    KeyFileSigner(file)("text")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert file.read_bytes().hex() not in KeyFileSigner(file)("text")


def test_nothing_is_made_before_something_is_sealed(tmp_path: Path) -> None:
    KeyFileSigner(tmp_path / "steno" / KEY_FILE_NAME)
    assert not (tmp_path / "steno").exists()


@pytest.mark.parametrize("problem", ["open", "short", "long", "empty"])
def test_a_secret_that_others_may_know_is_replaced(tmp_path: Path, problem: str) -> None:
    file = tmp_path / KEY_FILE_NAME
    before = KeyFileSigner(file)("text")
    if problem == "open":
        file.chmod(0o640)
    else:
        file.write_bytes({"short": b"x", "long": bytes(33), "empty": b""}[problem])
    after = KeyFileSigner(file)("text")
    assert after != before
    assert after == KeyFileSigner(file)("text")
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_secret_lies_beside_the_settings_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    KeyFileSigner()("text")
    assert os.listdir(tmp_path / "steno") == [KEY_FILE_NAME]  # noqa: PTH208 - names are enough


def test_without_a_home_a_seal_is_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "")
    seal = KeyFileSigner()
    assert seal("text") == seal("text") != KeyFileSigner()("text")


def test_without_storage_a_signature_is_valid_in_this_process(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    seal = KeyFileSigner(tmp_path / "file" / KEY_FILE_NAME)
    assert seal("text") == seal("text") != KeyFileSigner(tmp_path / "file" / KEY_FILE_NAME)("text")
