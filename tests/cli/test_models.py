"""`steno models` lists what can be used, and says of everything else why it cannot."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from steno.providers import CATALOG
from tests.cli.program import steno

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
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        rows = [f'[providers.lab]\nlike = "vllm"\nbase_url = "{server}"']
        rows += [
            f'[providers."{row.name}"]\nlike = "{row.name}"\nbase_url = "{nobody}"'
            for row in CATALOG.values()
            if not row.needs_key
        ]
        file = home / ".config" / "steno" / "config.toml"
        file.parent.mkdir(parents=True)
        file.write_text("\n".join(rows), encoding="utf-8")
        yield


def test_what_can_be_used_is_listed_with_its_name_and_what_it_can() -> None:
    told = steno("models")
    assert told.status == 0
    assert told.err == ""
    usable, others = told.out.split("\n\n")
    rows = {line.split()[0]: line.split()[1:] for line in usable.splitlines()}
    assert rows["lab/qwen"] == ["32,768", "?", "?", "?"]
    assert rows["embedded"] == ["8,192", "no", "no", "?", "SmolLM2-135M-Instruct.Q4_1"]
    assert rows["offline/assistant"][1] == "yes"
    assert "anthropic   no key; set ANTHROPIC_API_KEY" in others
    assert "google      no key; set GEMINI_API_KEY or GOOGLE_API_KEY" in others
    assert "ollama      127.0.0.1" in others


def test_names_from_a_server_cannot_touch_the_terminal() -> None:
    told = steno("models", "--provider", "lab")
    assert "\x1b" not in told.out
    assert "lab/evil name" in told.out


def test_one_provider_can_be_asked_about() -> None:
    told = steno("models", "--provider", "embedded")
    assert told.status == 0
    assert len(told.out.splitlines()) == 2
    assert steno("models", "--provider", "offline").out.count("offline/assistant") == 1


def test_a_provider_that_cannot_be_used_is_a_failure_with_its_reason() -> None:
    told = steno("models", "--provider", "anthropic")
    assert told.status == 1
    assert "no key; set ANTHROPIC_API_KEY" in told.out


def test_an_unknown_provider_is_answered_with_the_known_ones() -> None:
    told = steno("models", "--provider", "nobody")
    assert (told.status, told.out) == (2, "")
    assert "--provider nobody: there is none; there are anthropic, " in told.err
    assert "do you mean ollama?" in steno("models", "--provider", "olama").err


def test_programs_get_a_line_for_every_provider() -> None:
    told = steno("models", "--json")
    places = {place["provider"]: place for place in map(json.loads, told.out.splitlines())}
    assert places["lab"]["usable"] is True
    assert places["lab"]["default"] == "lab/qwen"
    assert places["lab"]["models"][0] == {
        "model": "lab/qwen",
        "id": "qwen",
        "title": None,
        "context_tokens": 32768,
        "max_output_tokens": None,
        "capabilities": {"tools": None, "vision": None, "thinking": None, "strict": None},
    }
    assert places["openai"]["usable"] is False
    assert places["openai"]["default"] is None
    assert places["openai"]["outcome"] == "no key; set OPENAI_API_KEY"
    assert places["offline"]["default"] == "offline/assistant"
