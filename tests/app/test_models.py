"""The models to choose from."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from steno.app.commands.table import Suggestion
from steno.app.models import list_models
from steno.app.settings import load_settings
from tests.app.project_setup import make_project, write_settings


@pytest.fixture(autouse=True)
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


@contextmanager
def listing(*models: dict[str, Any]) -> Generator[str]:
    """Run a server that lists these models, and give its address."""
    body = json.dumps({"data": models}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join(60)


def test_models_are_listed_with_what_is_known_of_them_the_offline_assistant_last(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with listing(
        {"id": "gpt-4o", "name": "GPT\x1b[2J 4o", "context_window": 1000},
        {"id": "small", "supports_image_input": True, "supports_tools": False},
        {"id": "hidden\x1b[2J"},
    ) as address:
        write_settings(home, f'[providers.openai]\nlike = "openai"\nbase_url = "{address}"\n')
        models = asyncio.run(list_models(load_settings(project)))
    priced = "GPT\\x1b[2J 4o · 1,000 tokens · $2.50 in, $10.00 out per million"
    assert models[0] == Suggestion("openai/gpt-4o", priced)
    assert models[1] == Suggestion("openai/small", "vision · no tools")
    assert "hidden" not in str(models)
    assert models[-1].text == "offline/assistant"


def test_models_are_described_as_they_would_be_used(project: Path, home: Path) -> None:
    with listing({"id": "told", "context_window": 1000}, {"id": "untold"}) as address:
        write_settings(
            home,
            f'[providers.lab]\nlike = "vllm"\nbase_url = "{address}"\ncontext_tokens = 4096\n'
            "capabilities = { vision = false }\n"
            '[models."lab/told"]\ncontext_tokens = 2000\nvision = true\ntools = false\n',
        )
        models = asyncio.run(list_models(load_settings(project)))
    assert Suggestion("lab/told", "2,000 tokens · vision · no tools") in models
    assert Suggestion("lab/untold", "4,096 tokens · no vision") in models


def test_unreachable_providers_are_left_out(project: Path, home: Path) -> None:
    with listing() as address:
        pass
    write_settings(home, f'[providers.lab]\nlike = "vllm"\nbase_url = "{address}"\n')
    models = asyncio.run(list_models(load_settings(project)))
    assert [model.text for model in models if model.text.startswith("lab/")] == []
    assert models[-1].text == "offline/assistant"
