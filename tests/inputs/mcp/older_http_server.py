"""An HTTP server of the older protocol, which misbehaves as a test sets."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

INFO = {"name": "older", "version": "1"}


@dataclass
class OlderServer:
    """The requests that it received, and its behaviour."""

    url: str = ""
    headers: list[dict[str, str]] = field(default_factory=list)
    sessions: int = 0
    forget: bool = False
    """Do not know the session any more, once."""
    redirect: str = ""
    status: int = 0
    body: bytes = b""
    """What to answer to a call."""
    encoding: str = ""


@contextmanager
def run_older_server() -> Generator[OlderServer, None, None]:
    """Serve on a free port of 127.0.0.1 inside the block."""
    older = OlderServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._send(405)

        def do_DELETE(self) -> None:
            self._send(204)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            older.headers.append({key.lower(): value for key, value in self.headers.items()})
            if older.redirect:
                self._send(307, location=older.redirect)
            elif older.status:
                self._send(older.status)
            elif "id" not in message:
                self._send(202)
            elif message["method"] == "initialize":
                older.sessions += 1
                version = message["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {}, "serverInfo": INFO}
                self._answer(message, result, session=f"session-{older.sessions}")
            elif message["method"] == "server/discover" or older.forget:
                older.forget = older.forget and message["method"] == "server/discover"
                self._send(404)
            elif older.body:
                extra = {"content_encoding": older.encoding} if older.encoding else {}
                self._send(200, older.body, content_type="application/json", **extra)
            else:
                text = self.headers["mcp-session-id"]
                self._answer(message, {"content": [{"type": "text", "text": text}]})

        def _answer(self, message: Any, result: Any, session: str = "") -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
            extra = {"mcp_session_id": session} if session else {}
            self._send(200, body, content_type="application/json", **extra)

        def _send(self, status: int, body: bytes = b"", **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except ConnectionError:
                self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        older.url = f"http://127.0.0.1:{server.server_port}/mcp"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield older
        finally:
            server.shutdown()
            thread.join()
