"""Helpers for tests of prompts with references: what the model receives and what is recorded."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from steno.inputs.mcp.server_spec import McpServerSpec
from steno.records.entry import Resolution
from steno.store import open_store
from tests.app.config_files import trust_project
from tests.app.scripted_vendor import PATIENCE_S, ScriptedVendor
from tests.cli.program import ProgramOutput, run_steno

WITHOUT_VISION = '[models."lab/tester"]\nvision = false\n'
WITH_VISION = '[models."lab/tester"]\nvision = true\n'


def last_text(model: ScriptedVendor, number: int = -1) -> str:
    """Return the text of the last message of a request."""
    content = model.seen[number]["messages"][-1]["content"]
    if isinstance(content, str):
        return content
    return "".join([part.get("text", "") for part in content])


def last_images(model: ScriptedVendor, number: int = -1) -> list[str]:
    """Return the images of the last message that the model got with a request, as addresses."""
    content = model.seen[number]["messages"][-1]["content"]
    parts = [] if isinstance(content, str) else content
    return [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]


def resolutions() -> list[Resolution]:
    """Return the resolutions of the last session."""
    with open_store() as store:
        [*_, last] = store.headers()
        payloads = [entry.payload for entry in store.open(last.id).entries()]
    return [payload for payload in payloads if isinstance(payload, Resolution)]


def check_last_log() -> None:
    """Check that the log of the last session is intact and can be replayed."""
    output = run_steno("verify", "last")
    assert (output.status, output.out.split()[0]) == (0, "intact")
    output = run_steno("replay", "last")
    assert (output.status, output.out.split()[0]) == (0, "same:")


def notices(output: ProgramOutput) -> list[str]:
    """Return the texts of the notices about inputs from JSON lines."""
    events = [json.loads(line) for line in output.out.splitlines()]
    return [event["text"] for event in events if event.get("code") == "input"]


def input_rows(*arguments: str) -> list[dict[str, Any]]:
    """Return the rows of `steno inputs` for the last session."""
    output = run_steno("inputs", *arguments, "--json")
    assert output.status == 0
    return [json.loads(line) for line in output.out.splitlines()]


# -- servers -------------------------------------------------------------------------------------


def write_servers(file: Path, *specs: McpServerSpec) -> None:
    """Name servers as `.mcp.json` does."""
    table = {
        spec.name: {"command": spec.command, "args": list(spec.args), "env": dict(spec.env)}
        for spec in specs
    }
    file.write_text(json.dumps({"mcpServers": table}), encoding="utf-8")


def trust_settings(project: Path) -> str:
    """Trust the configuration of a project as it is now; return settings for it, which are empty."""
    trust_project(project)
    return ""


@contextmanager
def image_at(data: bytes) -> Generator[str]:
    """Serve an image on loopback, and give its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "image/png")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/charts/shot.png"
        finally:
            server.shutdown()
            thread.join(PATIENCE_S)
