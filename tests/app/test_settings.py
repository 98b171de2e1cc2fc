"""Settings: their sources, their precedence, and the errors of invalid ones."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from steno import InvalidValue
from steno.agent.permissions.rules import AgentRole, AutoRun
from steno.agent.steering import SteeringPolicy
from steno.app.commands.arguments import UsageError
from steno.app.folders import config_folder, find_project
from steno.app.settings import (
    DEFAULTS,
    SCALAR_NAMES,
    SETTING_NAMES,
    OcrEngineSetting,
    load_settings,
    variable_name,
)
from steno.messages.content import RecognitionMode
from steno.providers import CATALOG
from steno.records.entry import Mode
from steno.tools.shell.sandbox import SandboxSetting as Sandbox
from tests.app.config_files import EVERY_SETTING, ConfigFolders

VARIABLES: list[tuple[str, str, object]] = [
    ("model", "ollama/llama", "ollama/llama"),
    ("mode", "plan", Mode.PLAN),
    ("role", "planner", AgentRole.PLANNER),
    ("auto_run", "read", AutoRun.READ),
    ("max_turns", "3", 3),
    ("max_total_tokens", "3", 3),
    ("max_seconds", "1.5", 1.5),
    ("max_cost", "2", 2.0),
    ("max_tokens", "3", 3),
    ("temperature", "0.5", 0.5),
    ("store", "memory:", "memory:"),
    ("system_prompt", "12", "12"),
    ("append_system_prompt", "null", "null"),
    ("sandbox", "off", Sandbox.OFF),
    ("network", "true", True),
    ("command_memory_mb", "512", 512),
    ("command_processes", "64", 64),
    ("command_file_mb", "100", 100),
    ("theme", "steno-light", "steno-light"),
    ("plain", "true", True),
    ("steering", "after_run", SteeringPolicy.AFTER_RUN),
    ("telemetry", "1", True),
    ("capture_content", "TRUE", True),
    ("image_mode", "vision", RecognitionMode.VISION),
    ("ocr", "off", OcrEngineSetting.OFF),
    ("resource_ttl_s", "0", 0.0),
    ("resource_tokens", "500", 500),
]


@pytest.fixture
def places(tmp_path: Path) -> ConfigFolders:
    return ConfigFolders(tmp_path / "places")


# -- where settings are ----------------------------------------------------------------------


def test_without_files_everything_is_at_its_default(tmp_path: Path) -> None:
    loaded = load_settings(tmp_path, environ={"HOME": str(tmp_path / "nowhere")})
    assert loaded.settings == DEFAULTS
    assert (loaded.origins, loaded.notices) == ({}, ())
    assert loaded.settings.max_turns == 50


def test_the_user_s_file_can_set_everything(places: ConfigFolders) -> None:
    loaded = places.load(EVERY_SETTING)
    settings = loaded.settings
    assert set(loaded.origins) == set(SETTING_NAMES)
    assert [
        name for name in SETTING_NAMES if getattr(settings, name) == getattr(DEFAULTS, name)
    ] == []
    assert (settings.mode, settings.role, settings.steering, settings.sandbox) == (
        Mode.PLAN,
        AgentRole.PLANNER,
        SteeringPolicy.INTERRUPT,
        Sandbox.REQUIRE,
    )
    assert list(map(str, settings.allow)) == ["bash(git log *)", "read"]
    assert settings.add_dirs == (places.home / "notes",)
    assert settings.providers["lab"].base_url == "http://gpu.example:8000/v1"
    assert settings.providers["openai"] is CATALOG["openai"]
    assert settings.models["lab/large"].context_tokens == 32768


def test_limits_are_those_of_the_agent(places: ConfigFolders) -> None:
    limits = places.load(EVERY_SETTING).settings.limits
    assert (limits.turns, limits.tokens, limits.seconds) == (7, 100_000, 60)
    assert limits.cost == Decimal("0.5")
    assert DEFAULTS.limits.cost is None


def test_later_places_win(places: ConfigFolders) -> None:
    user, project = places.trusting('model = "a/user"'), 'model = "a/project"'
    variable = {"STENO_MODEL": "a/variable"}
    winners = [
        places.load(user),
        places.load(user, project),
        places.load(user, project, environ=variable),
        places.load(user, project, environ=variable, model="a/flag"),
    ]
    assert [loaded.settings.model for loaded in winners] == [
        "a/user",
        "a/project",
        "a/variable",
        "a/flag",
    ]
    assert [loaded.origins["model"] for loaded in winners] == [
        (str(places.user_file),),
        (str(places.project_file),),
        ("STENO_MODEL",),
        ("--model",),
    ]


def test_lists_tables_and_appended_texts_add_up(places: ConfigFolders) -> None:
    row = '[providers.{}]\nlike = "{}"\nbase_url = "http://{}.example/v1"\n'
    loaded = places.load(
        places.trusting(
            'deny = ["bash(rm *)"]\nappend_system_prompt = "One."\n' + row.format("a", "vllm", "a")
        ),
        'deny = ["write(x)", "bash(rm *)"]\nappend_system_prompt = "Two."\n'
        + row.format("b", "a", "b"),
        deny=["read(.env)"],
    )
    settings = loaded.settings
    assert list(map(str, settings.deny)) == ["bash(rm *)", "write(x)", "read(.env)"]
    assert settings.append_system_prompt == "One.\n\nTwo."
    assert settings.providers["b"].wire == settings.providers["a"].wire == "openai_chat"
    files = (str(places.user_file), str(places.project_file))
    assert loaded.origins["deny"] == (*files, "--deny")
    assert loaded.origins["providers"] == loaded.origins["append_system_prompt"] == files


def test_an_absent_flag_counts_as_not_given(places: ConfigFolders) -> None:
    loaded = places.load("max_turns = 3", max_turns=None, allow=[], add_dirs=())
    assert loaded.settings.max_turns == 3
    assert set(loaded.origins) == {"max_turns"}


def test_flags_may_be_false_or_zero(places: ConfigFolders) -> None:
    settings = places.load("network = true\ntemperature = 1", network=False, temperature=0).settings
    assert (settings.network, settings.temperature) == (False, 0)


@pytest.mark.parametrize(("name", "text", "value"), VARIABLES)
def test_every_scalar_has_a_variable(
    places: ConfigFolders, name: str, text: str, value: object
) -> None:
    loaded = places.load(environ={variable_name(name): text})
    assert getattr(loaded.settings, name) == value
    assert loaded.origins == {name: (f"STENO_{name.upper()}",)}


def test_the_variables_above_are_all_of_them() -> None:
    assert [name for name, _, _ in VARIABLES] == list(SCALAR_NAMES)


@pytest.mark.parametrize(
    ("text", "expected"), [("yes", True), ("ON", True), ("1", True), ("no", False), ("off", False)]
)
def test_a_boolean_variable_may_be_a_word(
    places: ConfigFolders, text: str, *, expected: bool
) -> None:
    assert places.load(environ={"STENO_PLAIN": text}).settings.plain is expected


def test_an_empty_variable_sets_nothing(places: ConfigFolders) -> None:
    assert places.load(environ={"STENO_MODEL": "", "STENO_MODE": ""}).origins == {}


def test_the_folder_of_settings_follows_the_standard(tmp_path: Path) -> None:
    assert config_folder({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}) == Path("/x/steno")
    assert config_folder({"XDG_CONFIG_HOME": "x", "HOME": "/h"}) == Path("/h/.config/steno")
    assert config_folder({"HOME": ""}) is None
    assert load_settings(tmp_path, environ={"HOME": ""}).user_file is None


@pytest.mark.parametrize("marker", [".git", ".steno"])
def test_a_project_begins_at_the_nearest_marker(tmp_path: Path, marker: str) -> None:
    inner = tmp_path / "outer" / "inner"
    (inner / "deep").mkdir(parents=True)
    (tmp_path / "outer" / ".git").mkdir()
    (inner / marker).mkdir()
    assert find_project(inner / "deep") == inner
    assert find_project(tmp_path / "outer") == tmp_path / "outer"


def test_a_world_writable_folder_is_no_project(tmp_path: Path) -> None:
    work = tmp_path / "shared" / "work"
    (tmp_path / "shared" / ".steno").mkdir(parents=True)
    work.mkdir()
    assert find_project(work) == tmp_path / "shared"
    (tmp_path / "shared").chmod(0o1777)
    assert find_project(work) != tmp_path / "shared"


def test_paths_of_a_project_and_of_flags_start_where_they_stand(places: ConfigFolders) -> None:
    settings = places.load("", 'add_dirs = ["docs"]', add_dirs=["../other", "/srv"]).settings
    assert settings.add_dirs == (
        places.project / "docs",
        places.project / "src" / "other",
        Path("/srv"),
    )


# -- what is wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "code"),
    [
        ("max_turn = 3", "max_turn", "setting_unknown"),
        ("zzz = 3", "zzz", "setting_unknown"),
        ('"a\\nb" = 3', "a b", "setting_unknown"),
        ("max_turns = '3'", "max_turns", "wrong_type"),
        ("max_turns = true", "max_turns", "wrong_type"),
        ("max_turns = 0", "max_turns", "out_of_range"),
        ("max_tokens = '3'", "max_tokens", "wrong_type"),
        ("max_cost = nan", "max_cost", "out_of_range"),
        ("temperature = 2.1", "temperature", "out_of_range"),
        ("mode = 'fly'", "mode", "not_a_choice"),
        ("sandbox = 'maybe'", "sandbox", "not_a_choice"),
        ("image_mode = 'blind'", "image_mode", "not_a_choice"),
        ("ocr = 'yes'", "ocr", "not_a_choice"),
        ("ocr_languages = ['../x']", "ocr_languages[0]", "name_malformed"),
        ("resource_ttl_s = -1", "resource_ttl_s", "out_of_range"),
        ("network = 'yes'", "network", "wrong_type"),
        ("allow = 'bash'", "allow", "wrong_type"),
        ("allow = ['read', 3]", "allow[1]", "wrong_type"),
        ("env = ['A', 'B=C']", "env[1]", "name_malformed"),
        ("env = ['A\\n']", "env[0]", "name_malformed"),
        ("store = 'ftp://x'", "store", "store_address_invalid"),
        ("add_dirs = ['/', 'x']", "add_dirs[1]", "path_relative"),
        ("add_dirs = ['/\\u0000']", "add_dirs[0]", "invalid_path"),
        ("trusted_projects = ['.']", "trusted_projects[0]", "path_relative"),
        ("providers = 3", "providers", "wrong_type"),
        ("[providers.a]\nwire = 'chat'", "providers.a.base_url", "field_missing"),
        ("store = ''", "store", "empty"),
        ("[providers.a]\nlike = 'vllm'\nneeds_key = 1", "providers.a.needs_key", "wrong_type"),
        ("[providers.a]\nlike = 'vllm'\nbase_ulr = 'x'", "providers.a", "field_unknown"),
        (
            "[providers.a]\nlike = 'vllm'\n[providers.a.capabilities]\ntool = true",
            "providers.a.capabilities",
            "field_unknown",
        ),
        ("deny = ['read', 'Bash(git *)']", "deny[1]", "tool_unknown"),
        ("deny = ['read', 'bash(git']", "deny[1]", "rule_brackets"),
        ("deny = ['zzz']", "deny[0]", "tool_unknown"),
        ("[models.'a/b']\ncontext = 3", "models.a/b", "field_unknown"),
        ("[models.'a/b']\nvision = 3", "models.a/b.vision", "wrong_type"),
        ("[models.'a/b']\ncontext_tokens = 0", "models.a/b.context_tokens", "out_of_range"),
        ("[mcp_servers.a]\nurl = 3", "mcp_servers.a.url", "not_a_string"),
        ("[mcp_servers.a]\ncommand = 'x'\narg = []", "mcp_servers.a.arg", "field_unknown"),
        ("[mcp_servers.'a b']\ncommand = 'x'", "mcp_servers", "invalid_server_name"),
    ],
)
def test_an_error_in_a_file_names_its_place(
    places: ConfigFolders, text: str, place: str, code: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        places.load(text.replace("'", '"'))  # escapes mean something in these
    assert (caught.value.place, caught.value.code) == (f"{places.user_file}: {place}", code)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a = 1\nb = \n", "file_not_toml"),
        ("a = " + "[" * 50_000, "file_too_complex"),
        ("a = " + "1" * 5_000, "file_too_complex"),
        ("# " + "x" * 300_000, "file_too_large"),
    ],
)
def test_a_file_that_is_not_toml_is_named(places: ConfigFolders, text: str, code: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        places.load(text)
    assert (caught.value.place, caught.value.code) == (str(places.user_file), code)


@pytest.mark.parametrize(
    ("text", "code", "facts"),
    [
        ("max_turn = 3", "setting_unknown", " max_turns?"),
        ("max_turns = '3'", "wrong_type", " a string"),
        ("mode = 'fly'", "not_a_choice", " plan or act"),
        ("[providers.a]\nlike = 'vllm'\nbase_ulr = 'x'", "field_unknown", " base_url?"),
    ],
)
def test_an_error_is_explained_in_terms_of_a_settings_file(
    places: ConfigFolders, text: str, code: str, facts: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        places.load(text.replace("'", '"'))
    assert (caught.value.code, facts in caught.value.message) == (code, True)


def test_a_file_that_is_not_utf_8_is_named_with_the_line(places: ConfigFolders) -> None:
    places.user_file.write_bytes(b"# fine\n# \xff\n")
    with pytest.raises(InvalidValue) as caught:
        load_settings(places.work, environ={"HOME": str(places.home)})
    error = caught.value
    assert (error.code, error.place) == ("not_utf8", str(places.user_file))
    assert "line 2" in error.message


def test_a_file_that_cannot_be_read_is_no_file_that_is_not_there(places: ConfigFolders) -> None:
    places.user_file.mkdir()
    with pytest.raises(InvalidValue) as caught:
        load_settings(places.work, environ={"HOME": str(places.home)})
    assert caught.value.code == "is_a_folder"


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("STENO_MAX_TURNS", "many", "wrong_type"),
        ("STENO_MODE", "fly", "not_a_choice"),
        ("STENO_MODE", "\udcff", "not_utf8"),
        ("STENO_THEME", "\udcff", "not_utf8"),
        ("STENO_SYSTEM_PROMPT", "\udcff", "not_utf8"),
        ("STENO_STORE", "ftp://x", "store_address_invalid"),
    ],
)
def test_a_variable_that_makes_no_sense_is_named(
    places: ConfigFolders, name: str, text: str, code: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        places.load(environ={name: text})
    assert (caught.value.place, caught.value.code) == (name, code)


def test_a_flag_that_makes_no_sense_is_named_as_it_was_typed(places: ConfigFolders) -> None:
    flags: list[tuple[dict[str, Any], str, str]] = [
        ({"max_turns": 0}, "--max-turns", "out_of_range"),
        ({"max_turn": 1}, "--max-turn", "setting_unknown"),
        ({"allow": ["bash("]}, "--allow[0]", "rule_brackets"),
    ]
    for flag, place, code in flags:
        with pytest.raises(UsageError) as caught:
            places.load(**flag)
        assert (caught.value.place, caught.value.code) == (place, code)


def test_the_message_of_an_error_holds_no_values(places: ConfigFolders) -> None:
    with pytest.raises(InvalidValue) as caught:
        places.load('[providers.a]\nwire = "chat"\nbase_url = "hush://hush"')
    assert "hush" not in str(caught.value)
    assert "Be somebody else" not in repr(places.load(EVERY_SETTING).settings)
