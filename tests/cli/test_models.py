"""`steno models` lists usable models, and the reason why others cannot be used."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from steno.app.compose import target_for
from steno.app.settings import load_settings
from steno.providers import CATALOG
from steno.providers.model_discovery import find_model
from tests.app.project_setup import write_settings
from tests.app.scripted_vendor import run_vendor
from tests.cli.program import run_steno

LISTED = {
    "data": [
        {"id": "qwen", "max_model_len": 32768},
        {"id": "evil\x1b[31m\nname", "supports_tools": True},
    ]
}


class _Lists(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = json.dumps(LISTED).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Generator[str]:
    """A server with two models."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Lists) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listener.server_port}/v1"
        listener.shutdown()


@pytest.fixture(autouse=True)
def vendors(home: Path, server: str, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """No key, a server `lab`, and nothing else on this machine, whatever else runs on it."""
    monkeypatch.chdir(home)
    for variable in {name for row in CATALOG.values() for name in row.key_variables}:
        monkeypatch.delenv(variable, raising=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        closed_port = f"http://127.0.0.1:{taken.getsockname()[1]}"
        rows = [f'[providers.lab]\nlike = "vllm"\nbase_url = "{server}"']
        rows += [
            f'[providers."{row.name}"]\nlike = "{row.name}"\nbase_url = "{closed_port}"'
            for row in CATALOG.values()
            if not row.needs_key
        ]
        file = home / ".config" / "steno" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(rows), encoding="utf-8")
        yield


def test_usable_models_are_listed_with_name_and_capabilities() -> None:
    output = run_steno("models")
    assert output.status == 0
    assert output.err == ""
    usable, others, default = output.out.split("\n\n")
    rows = {line.split()[0]: line.split()[1:] for line in usable.splitlines()}
    assert rows["lab/qwen"] == ["32,768", "?", "?", "yes"]
    assert rows["embedded"] == ["8,192", "no", "no", "?", "SmolLM2-135M-Instruct.Q4_1"]
    assert rows["offline/assistant"][1] == "yes"
    assert "anthropic   no key; set ANTHROPIC_API_KEY" in others
    assert "google      no key; set GEMINI_API_KEY or GOOGLE_API_KEY" in others
    assert "ollama      127.0.0.1" in others
    assert default == "default without --model: lab/qwen\n"


def test_the_model_that_is_configured_is_the_one_that_is_used(home: Path) -> None:
    file = home / ".config" / "steno" / "config.toml"
    file.write_text(f'model = "offline"\n{file.read_text(encoding="utf-8")}', encoding="utf-8")
    assert run_steno("models").out.endswith("\n\ndefault without --model: offline\n")
    assert "default without" not in run_steno("models", "--provider", "lab").out


def test_the_reported_model_is_the_one_that_is_used() -> None:
    settings = load_settings().settings
    found = asyncio.run(find_model(vendors=settings.providers))
    assert run_steno("models").out.endswith(f"default without --model: {found.name}\n")


def test_other_protocols_of_a_server_are_listed_by_name_and_in_the_help() -> None:
    assert "openai-responses" not in run_steno("models").out
    assert "no key; set OPENAI_API_KEY" in run_steno("models", "--provider", "openai-responses").out
    output = " ".join(run_steno("models", "--help").out.split())
    assert "such as --provider openai-responses." in output


def configure(home: Path, more: str) -> None:
    """Write more into the settings."""
    with (home / ".config" / "steno" / "config.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{more}\n")


def shown(model: str) -> list[str]:
    """Return the row of a model in the table."""
    lines = run_steno("models", "--provider", model.partition("/")[0]).out.splitlines()
    [facts] = [line.split()[1:] for line in lines if line.startswith(f"{model} ")]
    return facts


def in_json(provider: str) -> list[dict[str, Any]]:
    """Return the JSON rows of the models of a provider."""
    models: list[dict[str, Any]] = json.loads(
        run_steno("models", "--provider", provider, "--json").out
    )["models"]
    return models


def test_settings_of_a_model_are_shown_instead_of_those_of_its_server(home: Path) -> None:
    configure(home, '[models."lab/qwen"]\ncontext_tokens = 32000\ntools = true')
    assert shown("lab/qwen") == ["32,000", "yes", "?", "yes"]
    qwen, other = in_json("lab")
    assert qwen["context_tokens"] == 32000
    assert qwen["capabilities"]["tools"] is True
    assert other["context_tokens"] is None


def test_the_row_of_a_vendor_is_shown_where_the_server_reports_nothing(
    home: Path, server: str
) -> None:
    able = "{ tools = false, vision = false, strict = true }"
    configure(
        home,
        f'[providers.own]\nlike = "vllm"\nbase_url = "{server}"\ncapabilities = {able}\n'
        "context_tokens = 4096",
    )
    assert shown("own/qwen") == ["32,768", "no", "no", "yes"]
    qwen, other = in_json("own")
    assert qwen["capabilities"] == {
        "tools": False,
        "vision": False,
        "thinking": True,
        "strict": True,
    }
    assert other["context_tokens"] == 4096
    assert other["capabilities"]["tools"] is True  # as its server reports


def test_the_table_shows_what_a_run_would_ask_for(home: Path) -> None:
    configure(home, '[models."lab/qwen"]\ncontext_tokens = 32000\nvision = false')
    settings = load_settings().settings
    found = asyncio.run(find_model("lab", vendors=settings.providers))
    target = target_for(found, settings)
    listed = in_json("lab")[0]
    assert found.name == listed["model"]
    assert target.context_tokens == listed["context_tokens"] == 32000
    assert target.vision is listed["capabilities"]["vision"] is False
    assert target.tools is listed["capabilities"]["tools"] is None


@pytest.mark.parametrize("name", ["own", "own/qwen"])
def test_a_run_uses_the_output_limit_of_the_model(home: Path, server: str, name: str) -> None:
    row = f'[providers.own]\nlike = "vllm"\nbase_url = "{server}"\nmax_output_tokens = 100'
    configure(home, row)
    settings = load_settings().settings
    found = asyncio.run(find_model(name, vendors=settings.providers))
    assert found.name == "own/qwen"
    target = target_for(found, settings)
    assert target.max_output_tokens == in_json("own")[0]["max_output_tokens"] == 100
    assert target.response_tokens is None
    assert target_for(found, replace(settings, max_tokens=5000)).response_tokens == 100


def test_a_run_asks_for_no_more_than_the_output_limit_and_reports_it(home: Path) -> None:
    with run_vendor("Hello.", "Hello.") as lab:
        settings = f'model = "lab/tester"\n{lab.settings}max_output_tokens = 100\n'
        write_settings(home, settings)
        outputs = [run_steno("-p", "x", "--max-tokens", asked) for asked in ("5000", "100")]
    assert [request["max_tokens"] for request in lab.seen] == [100, 100]
    notice = "steno: max_tokens: "
    assert [notice in one.err for one in outputs] == [True, False]


def test_names_from_a_server_cannot_touch_the_terminal() -> None:
    output = run_steno("models", "--provider", "lab")
    assert "\x1b" not in output.out
    assert "lab/evil name" in output.out


def test_one_provider_can_be_asked_about() -> None:
    output = run_steno("models", "--provider", "embedded")
    assert output.status == 0
    assert len(output.out.splitlines()) == 2
    assert run_steno("models", "--provider", "offline").out.count("offline/assistant") == 1


def test_a_provider_that_cannot_be_used_is_a_failure_with_its_reason() -> None:
    output = run_steno("models", "--provider", "anthropic")
    assert output.status == 1
    assert "no key; set ANTHROPIC_API_KEY" in output.out


def test_a_provider_is_named_once_where_it_lists_no_models(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    base = 'wire = "lab.lines"\npath = "/talk"\nbase_url = "http://127.0.0.1:9"'
    configure(home, f"[providers.lines]\n{base}\nneeds_key = false")
    reason = json.loads(run_steno("models", "--provider", "lines", "--json").out)["outcome"]
    [_, row] = run_steno("models", "--provider", "lines").out.splitlines()
    assert row.split(maxsplit=1) == ["lines", reason]
    output = run_steno("-p", "Hi", "--model", "lines")
    assert (output.code, output.place) == ("model_missing", "--model lines")
    assert reason in output.err


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    output = run_steno("models", "--provider", "unknown")
    assert (output.status, output.out) == (2, "")
    assert (output.code, output.place) == ("provider_unknown", "--provider unknown")
    assert run_steno("models", "--provider", "olama").err.endswith(" ollama?\n")


def test_programs_get_a_line_for_every_provider() -> None:
    output = run_steno("models", "--json")
    places = {place["provider"]: place for place in map(json.loads, output.out.splitlines())}
    assert places["lab"]["usable"] is True
    assert places["lab"]["default"] == "lab/qwen"
    assert places["lab"]["models"][0] == {
        "model": "lab/qwen",
        "id": "qwen",
        "title": None,
        "context_tokens": 32768,
        "max_output_tokens": None,
        "capabilities": {"tools": None, "vision": None, "thinking": True, "strict": None},
    }
    assert places["openai"]["usable"] is False
    assert places["openai"]["default"] is None
    assert places["openai"]["outcome"] == "no key; set OPENAI_API_KEY"
    assert places["offline"]["default"] == "offline/assistant"
