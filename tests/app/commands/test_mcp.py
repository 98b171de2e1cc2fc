"""`/mcp`, with real servers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from steno import Missing
from steno.errors import ServerFailed
from steno.render.markdown_escape import escape_markdown
from tests.app.command_setup import run_with_context
from tests.app.project_setup import make_project, write_settings
from tests.cli.reference_setup import trust_settings, write_servers
from tests.inputs.mcp.real_servers import everything_spec, time_spec


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


def mcp_text(project: Path, argument: str = "") -> str:
    return run_with_context(project, "mcp", argument).body


def add(file: Path, **rows: Any) -> None:
    table = json.loads(file.read_text())
    table["mcpServers"] |= rows
    file.write_text(json.dumps(table))


def test_without_a_server_the_reply_shows_how_to_add_one(project: Path, home: Path) -> None:
    text = mcp_text(project)
    assert not any(line.startswith("- `") for line in text.splitlines())
    assert f"`{project / '.mcp.json'}`" in text
    assert "`[mcp_servers.time]`" in text
    assert f"`{home / '.config/steno/config.toml'}`" in text


def test_each_server_is_listed_with_its_state_and_its_offers(project: Path, home: Path) -> None:
    file = project / ".mcp.json"
    write_servers(file, time_spec())
    add(
        file,
        broken={"command": sys.executable, "args": ["-c", "raise SystemExit('*no*')"]},
        off={"command": "x", "disabled": True},
        poor={"command": "x", "env": {"A": "${NOT_SET}"}},
    )
    write_settings(home, trust_settings(project))
    report = run_with_context(project, "mcp")
    [table] = report.tables
    broken, off, poor, time = table.rows
    assert broken[0] == "broken"
    [failure] = [notice for notice in report.notices if notice.startswith("mcp broken: ")]
    assert "*no*" in failure
    assert off == ["off", "stdio", "disabled", str(file)]
    assert poor[0] == "poor"
    assert "NOT_SET" in poor[2]
    assert time[0] == "time"
    assert time[2].endswith(" 2 tools, 0 resources, 0 prompts")
    assert "| `off` | stdio | disabled |" in report.body
    assert '"name"' not in report.body


def test_servers_of_an_untrusted_project_are_not_started(project: Path) -> None:
    marker = project / "started"
    (project / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"evil": {"command": "touch", "args": [str(marker)]}}})
    )
    text = mcp_text(project)
    assert "\n| `evil` |" in text
    assert "\\: evil" in text
    assert text.count("run \\`steno trust\\`") == 1
    assert not marker.exists()
    with pytest.raises(ServerFailed) as caught:
        mcp_text(project, "evil")
    assert (caught.value.code, caught.value.place) == ("not_trusted", "mcp evil")


def test_a_name_lists_what_a_server_offers(project: Path, home: Path) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    write_settings(home, trust_settings(project))
    text = mcp_text(project, "everything")
    assert "| `mcp__everything__echo` |" in text
    resource = "demo://resource/static/document/features.md"
    assert f"| `everything` | {escape_markdown(resource)} | text/markdown |" in text
    assert "`@everything:URI`" in text
    assert "| `/everything:args-prompt city=… [state=…]` |" in text


def test_a_server_that_there_is_not_or_that_cannot_be_used_is_refused(
    project: Path, home: Path
) -> None:
    write_settings(
        home, trust_settings(project) + '[mcp_servers.time]\ncommand = "x"\ndisabled = true\n'
    )
    with pytest.raises(Missing) as caught:
        mcp_text(project, "tme")
    assert (caught.value.code, caught.value.place) == ("server_not_found", "/mcp")
    assert "time" in caught.value.message
    with pytest.raises(ServerFailed) as refused:
        mcp_text(project, "time")
    assert (refused.value.code, refused.value.place) == ("server_disabled", "mcp time")
