"""Secrets are hidden even if a variable moves them out of their usual folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.tools.shell.sandbox import Sandbox, find_hidden_paths
from steno.tools.workspace import Workspace
from tests.tools.command_setup import make_bash, real_sandboxes, run, text_of


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("XDG_CONFIG_HOME", "steno/grants.toml"),
        ("XDG_CONFIG_HOME", "gh/hosts.yml"),
        ("XDG_DATA_HOME", "steno/sessions.db"),
        ("XDG_STATE_HOME", "steno/x"),
        ("XDG_CACHE_HOME", "huggingface/token"),
    ],
)
@real_sandboxes
def test_secrets_in_a_moved_folder_are_not_read(
    tmp_path: Path, sandbox: Sandbox, variable: str, name: str
) -> None:
    work, secret = tmp_path / "work", tmp_path / "elsewhere" / name
    work.mkdir()
    secret.parent.mkdir(parents=True)
    secret.write_text("open sesame", encoding="utf-8")
    (tmp_path / "elsewhere" / "plain").write_text("nothing to hide", encoding="utf-8")
    environ = {variable: str(tmp_path / "elsewhere")}
    # In the sandbox with a private /tmp, only a workspace is visible there.
    seen = [tmp_path / "elsewhere"] if sandbox.has_own_files else []
    tool = make_bash(Workspace([work, *seen]), sandbox, home=tmp_path, environ=environ)
    said = text_of(run(tool, f"cat '{secret}' '{tmp_path}/elsewhere/plain'"))
    assert "open sesame" not in said
    assert "nothing to hide" in said


def test_a_variable_that_names_nothing_moves_nothing(tmp_path: Path) -> None:
    (tmp_path / "steno").mkdir()
    assert find_hidden_paths({"HOME": str(tmp_path), "XDG_CONFIG_HOME": ""}) == ()
