"""How often `steno -p` reads a resource of a real MCP server that sets no TTL."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import ScriptedVendor
from tests.cli.program import run_steno
from tests.cli.reference_setup import check_last_log, input_rows, last_text

SERVER = Path(__file__).parents[1] / "inputs" / "mcp" / "counting_server.py"
NOTE = "@counting:note://ab"
SAME_NOTE = "@counting:note://a%62"
"""Another spelling of the same URI (RFC 3986, 6.2.2.2)."""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, which is where we are."""
    return make_project(tmp_path, monkeypatch)


def server_settings(reads: Path, more: str = "") -> str:
    """Return settings that name the server, which writes its reads to a file."""
    command = f"command = {json.dumps(sys.executable)}\n"
    arguments = f"args = {json.dumps([str(SERVER), str(reads)])}\n"
    return f"[mcp_servers.counting]\n{command}{arguments}{more}"


def ask(*arguments: str) -> None:
    output = run_steno(*arguments, "-q")
    assert output.status == 0, output.err


def user_texts(model: ScriptedVendor) -> list[str]:
    """Return the texts of the user messages of the last request."""
    messages = [m for m in model.seen[-1]["messages"] if m["role"] == "user"]
    return [
        content if isinstance(content, str) else "".join([part["text"] for part in content])
        for content in [message["content"] for message in messages]
    ]


@pytest.mark.requirement("S2-32")
def test_a_server_that_sets_no_ttl_is_read_once_within_the_hour(home: Path, tmp_path: Path) -> None:
    reads = tmp_path / "reads"
    with scripted_model(home, "One.", "Two.", "Three.", settings=server_settings(reads)) as model:
        ask("-p", f"Compare {NOTE} with {SAME_NOTE}")
        assert last_text(model).count("edition 1 of ab") == 2
        assert reads.read_text() == "note://ab\n"
        ask("-c", "-p", f"And again: {NOTE}")
        assert last_text(model).count("edition 1 of ab") == 1
        ask("-c", "-p", "And without a reference?")
        assert [text.count("edition 1 of ab") for text in user_texts(model)] == [2, 1, 0]
    assert reads.read_text() == "note://ab\n"
    rows = input_rows("last")
    assert [row["since"] for row in rows] == ["fresh"] * 3
    assert [row["details"]["ttl_s"] for row in rows] == [3_600] * 3
    assert [row["details"]["from_cache"] for row in rows] == [False, True, True]
    check_last_log()


@pytest.mark.requirement("S2-32", "P-25")
def test_with_a_ttl_of_0_for_its_type_a_resource_is_read_once_in_each_turn(
    home: Path, tmp_path: Path
) -> None:
    reads = tmp_path / "reads"
    settings = server_settings(reads, 'ttl_s = { "text/*" = 0 }\n')
    with scripted_model(home, "One.", "Two.", "Three.", settings=settings) as model:
        ask("-p", f"Compare {NOTE} with {SAME_NOTE}")
        assert reads.read_text() == "note://ab\n"
        ask("-c", "-p", "And without a reference?")
        assert reads.read_text() == "note://ab\n"
        ask("-c", "-p", f"Compare {NOTE} with {SAME_NOTE}")
        assert reads.read_text() == "note://ab\n" * 2
        texts = user_texts(model)
    assert [text.count("edition 1 of ab") for text in texts] == [2, 0, 0]
    assert [text.count("edition 2 of ab") for text in texts] == [0, 0, 2]
    rows = input_rows("last")
    assert [row["since"] for row in rows] == ["stale"] * 4
    assert [row["details"]["from_cache"] for row in rows] == [False, True, False, True]
    check_last_log()


@pytest.mark.requirement("S2-32", "P-25")
def test_a_ttl_that_is_set_later_applies_to_what_was_read_before(
    home: Path, tmp_path: Path
) -> None:
    reads = tmp_path / "reads"
    with scripted_model(home, "One.", settings=server_settings(reads)):
        ask("-p", f"See {NOTE}")
    never = server_settings(reads, 'ttl_s = { "*" = 0 }\n')
    with scripted_model(home, "Two.", settings=never) as model:
        ask("-c", "-p", f"And again: {NOTE}")
        assert "edition 2 of ab" in last_text(model)
    assert reads.read_text() == "note://ab\n" * 2


@pytest.mark.requirement("S2-32")
def test_a_server_that_sets_no_ttl_sends_0(home: Path, tmp_path: Path) -> None:
    """The fact on which the default depends: the wire does not show that a server set no TTL."""
    with scripted_model(home, settings=server_settings(tmp_path / "reads")):
        output = run_steno("mcp", "read", "counting", "note://ab", "--json")
    assert output.status == 0, output.err
    assert json.loads(output.out)["ttl_s"] == 0
