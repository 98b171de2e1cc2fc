"""What `steno mcp` shows of answers and failures, with a server of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steno.messages.message import ToolResultMessage
from steno.store import open_store
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.cli.program import on_terminal, run_steno
from tests.inputs.mcp.real_servers import own_spec

PASSWORD = "hush-hush"
DATABASE = f"postgres://ada:{PASSWORD}@db.example/books"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are."""
    monkeypatch.setenv("DATABASE_URL", DATABASE)
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    """A file with our own server, which gets an address with a password."""
    spec = own_spec()
    row: dict[str, Any] = {"command": spec.command, "args": list(spec.args)}
    row["env"] = {"DATABASE_URL": "${DATABASE_URL}"}
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"own": row}}))
    return file


def test_structured_content_without_text_is_printed(servers: Path) -> None:
    output = run_steno("mcp", "call", "own", "environment", "--mcp-config", servers)
    assert output.status == 0
    assert "PATH" in json.loads(output.out)


def test_structured_content_that_repeats_a_text_is_not_printed(servers: Path) -> None:
    output = run_steno("mcp", "call", "own", "add", "a=1", "b=2", "--mcp-config", servers)
    assert output == (0, "3\n", "")


def test_a_terminal_is_shown_nothing_of_a_resource_with_parts_it_cannot_show(
    servers: Path,
) -> None:
    output = on_terminal("mcp", "read", "own", "own://mixed", "--mcp-config", str(servers))
    assert output.status == 1
    assert "own://mixed: contains 3 bytes" in output.out
    assert "noted" not in output.out


def test_secrets_in_the_last_output_of_a_server_are_redacted(home: Path, servers: Path) -> None:
    output = run_steno("mcp", "call", "own", "die", "--mcp-config", servers)
    assert output.status == 1
    assert "no database: ***" in output.err
    assert PASSWORD not in output.err
    with scripted_model(home, [Call("mcp__own__die", {})], "It is gone.") as model:
        output = run_steno("-p", "Try it.", "--allow", "mcp__own__*", "--mcp-config", servers)
    assert (output.status, output.out) == (0, "It is gone.\n")
    assert "no database: ***" in str(model.seen[-1]["messages"])
    assert PASSWORD not in output.err + str(model.seen)
    with open_store() as store:
        [session] = store.headers()
        messages = store.open(session.id).messages()
    [result] = [one for one in messages if isinstance(one, ToolResultMessage)]
    assert "no database: ***" in result.text
    files = [file for file in home.rglob("*") if file.is_file()]
    assert [file for file in files if PASSWORD.encode() in file.read_bytes()] == []
