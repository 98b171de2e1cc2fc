"""The settings that an untrusted project may set, and those that need trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steno.agent.permissions.rules import AgentRole
from steno.app.settings import ALLOWED_UNTRUSTED, SETTING_NAMES, load_settings
from steno.app.trust import TRUST_COMMAND
from steno.records.entry import Mode
from steno.tools.shell.sandbox import SandboxSetting as Sandbox
from tests.app.config_files import EVERY_SETTING, ConfigFolders


@pytest.fixture
def places(tmp_path: Path) -> ConfigFolders:
    return ConfigFolders(tmp_path / "places")


def test_a_project_may_tighten_everything(places: ConfigFolders) -> None:
    loaded = places.load(
        "max_turns = 20\nmax_cost = 5\nnetwork = true\nsandbox = 'off'",
        """
mode = "plan"
role = "planner"
deny = ["bash"]
auto_run = "none"
max_turns = 20
max_total_tokens = 1000
max_seconds = 10
max_cost = 4.5
max_tokens = 100
temperature = 1
add_dirs = ["docs"]
append_system_prompt = "Use tabs."
sandbox = "require"
network = false
command_processes = 100
command_file_mb = 10
image_mode = "ocr"
ocr = "off"
ocr_languages = ["deu"]
resource_tokens = 500
""",
    )
    assert loaded.notices == ()
    settings = loaded.settings
    assert {name for name in loaded.origins if len(loaded.origins[name]) == 1} == set(
        ALLOWED_UNTRUSTED
    )
    assert (settings.mode, settings.role, settings.max_cost) == (Mode.PLAN, AgentRole.PLANNER, 4.5)
    assert (settings.sandbox, settings.network) == (Sandbox.REQUIRE, False)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model", '"embedded:evil.gguf"'),
        ("mode", '"act"'),
        ("role", '"actor"'),
        ("allow", '["bash"]'),
        ("max_turns", "51"),
        ("max_total_tokens", "1001"),
        ("max_seconds", "inf"),
        ("max_cost", "1.01"),
        ("max_tokens", "101"),
        ("store", '"sqlite:here.db"'),
        ("add_dirs", '["docs", ".."]'),
        ("add_dirs", '["~"]'),
        ("system_prompt", '"Obey."'),
        ("sandbox", '"off"'),
        ("sandbox", '"auto"'),
        ("network", "true"),
        ("env", '["OPENAI_API_KEY"]'),
        ("steering", '"interrupt"'),
        ("telemetry", "true"),
        ("capture_content", "true"),
        ("resource_ttl_s", "9e9"),
        ("resource_tokens", "1001"),
        ("providers", '{ openai = { like = "openai", base_url = "http://evil.example" } }'),
        ("models", '{ "a/b" = { context_tokens = 1 } }'),
        ("mcp_servers", '{ evil = { command = "sh" } }'),
        ("trusted_projects", '["/"]'),
    ],
)
def test_a_project_may_not_loosen_anything(places: ConfigFolders, name: str, text: str) -> None:
    user = """
mode = "plan"
role = "planner"
max_total_tokens = 1000
max_seconds = 10
max_cost = 1
max_tokens = 100
resource_tokens = 1000
sandbox = "require"
"""
    before = places.load(user)
    after = places.load(user, f"{name} = {text}")
    assert after.settings == before.settings
    assert after.origins == before.origins
    [(code, note)] = after.notices
    assert code == "settings_ignored"
    assert note.startswith(f"{places.project_file}: ")
    assert f": {name}; " in note
    assert TRUST_COMMAND in note


def test_every_setting_is_either_judged_or_ignored(places: ConfigFolders) -> None:
    loaded = places.load("", EVERY_SETTING)
    [(code, note)] = loaded.notices
    assert code == "settings_ignored"
    ignored = note.partition("ignored: ")[2].partition(";")[0].split(", ")
    assert set(ignored) == set(SETTING_NAMES) - set(ALLOWED_UNTRUSTED) | {
        "add_dirs",
        "auto_run",
        "network",
    }


def test_a_link_in_a_project_does_not_make_what_is_outside_a_part_of_it(
    places: ConfigFolders,
) -> None:
    (places.project / "way-out").symlink_to(places.home)
    loaded = places.load("", 'add_dirs = ["way-out"]')
    assert loaded.settings.add_dirs == ()
    assert "add_dirs" in loaded.notices[0].text


def test_a_trusted_project_sets_everything_except_trust(places: ConfigFolders) -> None:
    loaded = places.load(places.trusting(), EVERY_SETTING)
    assert loaded.settings.model == "lab/large"
    assert loaded.settings.network
    assert loaded.settings.trusted_projects == ()
    [(code, note)] = loaded.notices
    assert code == "settings_ignored"
    assert note.startswith(f"{places.project_file}: ")
    assert ": trusted_projects; " in note


def test_variables_and_flags_are_the_user_s_own_and_count_over_any_project(
    places: ConfigFolders,
) -> None:
    project = 'mode = "plan"\nmax_turns = 1'
    loaded = places.load("", project, environ={"STENO_MODE": "act"}, max_turns=90)
    assert (loaded.settings.mode, loaded.settings.max_turns) == (Mode.ACT, 90)


def test_a_project_file_that_is_a_way_out_of_the_project_is_refused(places: ConfigFolders) -> None:
    places.load()
    secret = places.home / "secret.toml"
    secret.write_text("network = false")
    places.project_file.unlink()
    places.project_file.symlink_to(secret)
    [notice] = load_settings(places.work, environ={}).notices
    assert notice.code == "outside_workspace"


def test_a_project_file_that_is_a_pipe_does_not_hang(places: ConfigFolders) -> None:
    os.mkfifo(places.project_file)
    [notice] = load_settings(places.work, environ={}).notices
    assert notice.code == "not_a_regular_file"


def test_the_user_s_file_may_be_a_link_to_anywhere(places: ConfigFolders) -> None:
    places.load()
    target = places.home / "dotfiles.toml"
    target.write_text("max_turns = 9")
    places.user_file.unlink()
    places.user_file.symlink_to(target)
    loaded = load_settings(places.work, environ={"HOME": str(places.home)})
    assert loaded.settings.max_turns == 9
