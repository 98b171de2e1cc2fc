"""`steno doctor` reports what is configured, what can be reached, and what is missing."""

from __future__ import annotations

import json
import socket
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from steno.app.trust import TRUST_COMMAND
from steno.providers import CATALOG
from steno.store import open_store
from tests.app.project_setup import make_project, write_settings
from tests.app.scripted_vendor import run_vendor
from tests.cli.program import ProgramOutput, on_terminal, run_process, run_steno


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a file in it, which is where we are."""
    return make_project(tmp_path, monkeypatch)


@pytest.fixture
def no_servers() -> Generator[str]:
    """Settings by which no server is on this machine, whatever else runs on it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        rows = [
            f'[providers."{row.name}"]\nlike = "{row.name}"\nbase_url = "{address}"'
            for row in CATALOG.values()
            if not row.needs_key
        ]
        yield "\n".join(rows) + "\n"


def findings(output: ProgramOutput) -> dict[str, tuple[str, str]]:
    """Return state and detail of each check; the last line of a name counts."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in output.out.splitlines()]
    assert all(set(line) == {"check", "state", "text"} for line in lines)
    return {line["check"]: (line["state"], line["text"]) for line in lines}


def test_with_nothing_configured_everything_is_listed_and_nothing_is_broken(
    home: Path, project: Path, no_servers: str
) -> None:
    write_settings(home, no_servers)
    output = run_steno("doctor", "--json")
    found = findings(output)
    assert output.status == 0
    assert output.err == ""
    assert found["user settings"][0] == "ok"
    assert found["project"] == ("ok", f"none ({project / '.steno' / 'config.toml'})")
    assert found["instructions"] == ("ok", "none (AGENTS.md)")
    assert found["store"] == (
        "ok",
        f"sqlite:{home}/.local/share/steno/steno.db (created on first use)",
    )
    assert found["model anthropic"] == ("missing", "no key; set ANTHROPIC_API_KEY")
    assert found["model ollama"][0] == "missing"
    assert found["model offline"][0] == "ok"
    assert found["model in use"][0] == "ok"
    assert {"steno", "sandbox", "search", "aiohttp", "genai-prices"} <= found.keys()
    assert "in a separate process" in found["xllamacpp"][1]
    assert found["grants"] == ("ok", f"none ({home}/.config/steno/grants.toml)")
    assert not (home / ".local").exists()


def test_vendors_without_a_key_take_one_line_after_the_local_setup(
    home: Path, project: Path, no_servers: str
) -> None:
    write_settings(home, no_servers)
    (project / ".mcp.json").write_text('{"mcpServers": {"lab": {"command": "no-such-program"}}}')
    shown = run_steno("doctor").out.splitlines()
    [keyless] = [line for line in shown if "no key for" in line]
    assert keyless.startswith("hosted models  ")
    assert "anthropic, " in keyless
    assert "openai" in keyless
    order = [line.split("  ")[0] for line in shown]
    assert order.index("sandbox") < order.index("mcp lab") < order.index("hosted models")
    assert len(shown) < 45


def test_the_existing_setup_is_listed(home: Path, project: Path, no_servers: str) -> None:
    (project / "AGENTS.md").write_text("Be brief.")
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text('model = "evil/x"\ndeny = ["bash"]\n')
    with open_store() as store:
        store.new()
    with run_vendor() as lab:
        file = write_settings(home, f'model = "lab/tester"\n{no_servers}{lab.settings}')
        output = run_steno("doctor", "--json")
    found = findings(output)
    assert output.status == 0
    assert found["user settings"] == ("ok", str(file))
    assert found["project"][0] == "missing"
    assert " model" in found["project"][1]
    assert found["instructions"] == ("ok", str(project / "AGENTS.md"))
    assert found["store"][1].endswith("steno.db, 1 session")
    assert found["model lab"][0] == "ok"
    assert found["model in use"] == ("ok", "lab/tester (configured)")


@pytest.mark.parametrize("text", ["nonsense", "max_turns = 0"])
def test_broken_settings_do_not_hide_the_rest(home: Path, text: str) -> None:
    file = write_settings(home, text)
    output = run_steno("doctor", "--json")
    found = findings(output)
    assert output.status == 1
    assert found["settings"][0] == "broken"
    assert found["settings"][1].startswith(f"{file}: ")
    assert {"sandbox", "search", "aiohttp"} <= found.keys()


def test_a_model_that_cannot_be_used_is_broken(home: Path, no_servers: str) -> None:
    write_settings(home, f'model = "anthropic/claude"\n{no_servers}')
    output = run_steno("doctor", "--json")
    assert output.status == 1
    assert findings(output)["model in use"][0] == "broken"


def test_a_store_that_cannot_be_read_is_broken(home: Path, tmp_path: Path, no_servers: str) -> None:
    write_settings(home, no_servers)
    (tmp_path / "bad.db").write_bytes(b"not a database, but long enough to be one" * 100)
    output = run_steno("doctor", "--json", "--store", f"sqlite:{tmp_path / 'bad.db'}")
    assert output.status == 1
    assert findings(output)["store"][0] == "broken"


@pytest.mark.parametrize("place", ["sqlite:note.txt/store.db", "jsonl:note.txt/deep/store"])
def test_a_store_that_cannot_be_written_is_broken(home: Path, place: str, no_servers: str) -> None:
    write_settings(home, no_servers)
    output = run_steno("doctor", "--json", "--store", place)
    assert output.status == 1
    assert findings(output)["store"] == (
        "broken",
        f"{place}: not writable; choose another with --store, or use --no-session",
    )


@pytest.mark.parametrize("home_variable", ["", "/proc"])
def test_a_missing_home_is_reported(home_variable: str) -> None:
    output = run_process("doctor", "--json", HOME=home_variable)
    found = findings(output)
    assert output.err == ""
    assert found["user settings"][0] == ("ok" if home_variable else "missing")
    assert "search" in found


def test_the_name_of_a_project_is_escaped_on_the_terminal(
    tmp_path: Path, home: Path, no_servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_settings(home, no_servers)
    evil = tmp_path / "a\x1b[2J\nb"
    evil.mkdir()
    monkeypatch.chdir(evil)
    output = on_terminal("doctor", environment={"NO_COLOR": "1", "TERM": "dumb"})
    assert output.status == 0
    assert "\x1b[2J" not in output.out


def test_mcp_servers_are_listed_and_none_is_started(
    home: Path, project: Path, no_servers: str
) -> None:
    none = findings(run_steno("doctor", "--json"))["mcp servers"]
    assert none == ("ok", f"none ({project / '.mcp.json'})")
    marker = project / "started"
    row = {"command": "touch", "args": [str(marker)]}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"theirs": row}}))
    servers = '[mcp_servers.ours]\ncommand = "touch"\nargs = ["started"]\n'
    servers += '[mcp_servers.poor]\ncommand = "touch"\nenv = { A = "${NOT_THERE_AT_ALL}" }\n'
    file = write_settings(home, no_servers + servers)
    output = run_steno("doctor", "--json")
    found = findings(output)
    assert output.status == 0
    assert found["mcp ours"] == ("ok", f"configured ({file})")
    assert found["mcp poor"][0] == "missing"
    assert "needs the variable NOT_THERE_AT_ALL" in found["mcp poor"][1]
    assert found["mcp theirs"] == ("missing", f"not trusted ({project / '.mcp.json'})")
    assert TRUST_COMMAND in found["mcp servers"][1]
    assert found["trust"][0] == "missing"
    assert found["trust"][1].startswith("theirs: ")
    assert not marker.exists()


def test_servers_of_a_project_that_make_no_sense_are_missing(
    home: Path, project: Path, no_servers: str
) -> None:
    (project / ".mcp.json").write_text("{")
    write_settings(home, no_servers)
    output = run_steno("doctor", "--json")
    assert output.status == 0
    assert findings(output)["mcp servers"][0] == "missing"


def test_the_trust_in_a_project_is_checked(home: Path, project: Path, no_servers: str) -> None:
    write_settings(home, no_servers)
    assert findings(run_steno("doctor", "--json"))["trust"][0] == "ok"
    (project / ".steno").mkdir()
    (project / ".steno" / "config.toml").write_text("network = true\n")
    assert findings(run_steno("doctor", "--json"))["trust"][0] == "missing"
    assert run_steno("trust", "--yes").status == 0
    assert findings(run_steno("doctor", "--json"))["trust"] == ("ok", f"{project}: trusted")
    (home / ".config" / "steno" / "trust.toml").write_text("?")
    assert findings(run_steno("doctor", "--json"))["trust"][0] == "broken"


@pytest.mark.parametrize(
    ("setting", "detail"), [("auto", "rapidocr "), ("tesseract", "tesseract "), ("off", "off: ")]
)
def test_the_ocr_engine_is_listed(home: Path, no_servers: str, setting: str, detail: str) -> None:
    write_settings(home, f'ocr = "{setting}"\n{no_servers}')
    found = findings(run_steno("doctor", "--json"))["text in images"]
    assert found[0] == "ok"
    assert found[1].startswith(detail)
