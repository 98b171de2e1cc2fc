"""A server on this machine that the command line uses: a model provider, and a proxy."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.acceptance.provider_responses import openai_stream

MODEL = "lab/tester"


class LocalVendor:
    """Answers each request for a response with the next text, and keeps the requests.

    As a proxy, it answers the request for a URL with the content that `pages` has for it.
    """

    def __init__(self, address: str, texts: Iterable[str], pages: Mapping[str, bytes]) -> None:
        self.address = address
        self.texts = iter(texts)
        self.pages = pages
        self.received: list[dict[str, Any]] = []
        self.settings = "\n".join(
            [
                *("[providers.lab]", 'like = "vllm"', f'base_url = "{address}/v1"'),
                *(f'[models."{MODEL}"]', "vision = true"),
            ]
        )
        """The lines of a configuration file."""


@contextmanager
def run_vendor(*texts: str, pages: Mapping[str, bytes] | None = None) -> Generator[LocalVendor]:
    """Run the server."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.vendor = LocalVendor(f"http://127.0.0.1:{server.server_port}", texts, pages or {})
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.vendor
        finally:
            server.shutdown()
            thread.join(60)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    vendor: LocalVendor


class _Handler(BaseHTTPRequestHandler):
    @property
    def vendor(self) -> LocalVendor:
        assert isinstance(self.server, _Server)
        return self.server.vendor

    def do_GET(self) -> None:
        page = self.vendor.pages.get(self.path)
        if page is not None:
            self._reply("image/png", page)
        else:
            self._reply("application/json", b'{"data": [{"id": "tester"}]}')

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.vendor.received.append(json.loads(self.rfile.read(length)))
        self._reply("text/event-stream", openai_stream({"content": next(self.vendor.texts)}))

    def _reply(self, content_type: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""
