"""`steno config`, and the guide to what it shows."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from pathlib import Path

import pytest

from steno.app.settings import SCALAR_NAMES, SETTING_NAMES, variable_name
from steno.cli import config
from steno.errors import InvalidValue
from tests.app.config_files import ConfigFolders

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "configuration.md"


@pytest.fixture
def places(tmp_path: Path) -> ConfigFolders:
    return ConfigFolders(tmp_path / "places")


@pytest.fixture
def here(places: ConfigFolders, monkeypatch: pytest.MonkeyPatch) -> ConfigFolders:
    monkeypatch.setenv("HOME", str(places.home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in SCALAR_NAMES:
        monkeypatch.delenv(variable_name(name), raising=False)
    monkeypatch.chdir(places.work)
    return places


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    config.add_commands(parser.add_subparsers())
    options = parser.parse_args(["config", *arguments])
    status: int = options.run(options)
    return status


def test_show_prints_every_setting_and_where_it_is_from(
    here: ConfigFolders, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here.user_file.write_text('deny = ["bash(rm *)", "write(.env)"]\nnetwork = true')
    here.project_file.write_text('mode = "plan"\nstore = "memory:"')
    monkeypatch.setenv("STENO_MAX_TURNS", "5")
    assert run("show") == 0
    output = capsys.readouterr()
    rows = {line.split()[0]: re.split(r" {2,}", line)[1:] for line in output.out.splitlines()}
    assert list(rows) == ["setting", *SETTING_NAMES]
    assert rows["deny"] == ["bash(rm *), write(.env)", str(here.user_file)]
    assert rows["network"] == ["true", str(here.user_file)]
    assert rows["mode"] == ["plan", str(here.project_file)]
    assert rows["max_turns"] == ["5", "STENO_MAX_TURNS"]
    assert rows["store"] == ["-", "default"]
    assert rows["providers"] == ["-", "default"]
    assert output.err.startswith(f"steno: {here.project_file}: ")
    assert "store" in output.err


def test_show_as_json_holds_no_secrets(
    here: ConfigFolders, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    here.user_file.write_text("""
store = "postgresql://ada:hush@db.example/work"
[providers.lab]
like = "vllm"
base_url = "http://gpu.example:8000/v1"
headers = { x-secret = "hush" }
[models."lab/large"]
context_tokens = 32768
[mcp_servers.lab]
url = "https://ada:hush@mcp.example/mcp?key=hush"
headers = { Authorization = "Bearer hush" }
[mcp_servers.shell]
command = "server"
args = ["--token=hush"]
env = { TOKEN = "hush" }
""")
    assert run("show", "--json") == 0
    printed = capsysbinary.readouterr().out
    shown = json.loads(printed)
    assert b"hush" not in printed
    assert list(shown) == list(SETTING_NAMES)
    assert shown["store"] == {
        "value": "postgresql://db.example/work",
        "from": [str(here.user_file)],
    }
    assert shown["providers"]["value"] == {
        "lab": {
            "wire": "openai_chat",
            "base_url": "http://gpu.example:8000/v1",
            "key_variables": ["VLLM_API_KEY"],
        }
    }
    assert shown["models"]["value"] == {"lab/large": {"context_tokens": 32768}}
    file = str(here.user_file)
    lab = {"kind": "http", "url": "https://mcp.example/mcp", "state": "configured", "from": file}
    shell = {"kind": "stdio", "command": "server", "state": "configured", "from": file}
    assert shown["mcp_servers"]["value"] == {"lab": lab, "shell": shell}
    assert shown["max_turns"] == {"value": 50, "from": []}


def test_path_prints_both_files(here: ConfigFolders, capsys: pytest.CaptureFixture[str]) -> None:
    here.user_file.write_text("")
    assert run("path") == 0
    assert capsys.readouterr().out.splitlines() == [
        f"user     {here.user_file}",
        f"project  {here.project_file} (not found)",
        f"servers  {here.project / '.mcp.json'} (not found)",
    ]


# -- the guide -------------------------------------------------------------------------------


def test_the_files_in_the_guide_can_be_read(places: ConfigFolders) -> None:
    blocks = re.findall(
        r"^```toml\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(blocks) >= 2
    names: set[str] = set()
    for block in blocks:
        names |= tomllib.loads(block).keys()
        places.load(block)
    assert {"model", "allow", "deny", "providers", "models"} <= names


def test_the_guide_names_every_setting_and_its_variable() -> None:
    guide = GUIDE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\|", guide, re.MULTILINE)
    assert [name for name, _ in rows] == list(SETTING_NAMES)
    for name, variable in rows:
        assert variable == (variable_name(name) if name in SCALAR_NAMES else "")


@pytest.mark.parametrize(
    ("row", "table"),
    [
        ('[lab]\nlike = "vllm"', "[providers.lab]"),
        ('[lab]\nwire = "openai_chat"', "[providers.lab]"),
        ('["my.lab"]\nbase_url = "http://lab.example"', '[providers."my.lab"]'),
    ],
)
def test_a_misplaced_provider_table_is_refused_with_its_place(
    here: ConfigFolders, row: str, table: str
) -> None:
    here.user_file.write_text(row)
    with pytest.raises(InvalidValue) as caught:
        run("show")
    assert caught.value.code == "provider_misplaced"
    assert caught.value.message.endswith(table)


def test_another_table_is_answered_with_what_there_is(here: ConfigFolders) -> None:
    here.user_file.write_text('[modls]\nlab = "x"')
    with pytest.raises(InvalidValue) as caught:
        run("show")
    assert caught.value.code == "setting_unknown"
    assert caught.value.message.endswith(" models?")
