"""A vendor on loopback whose answers are scripted, as a configuration file names it.

It speaks the chat completions protocol. Nothing here waits for time to pass: a response continues
when the test lets it, or ends when the client hangs up.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, TypeAlias

PATIENCE_S = 60
MODEL = "lab/tester"


class Call(NamedTuple):
    """The model calls a tool."""

    name: str
    arguments: dict[str, Any]
    id: str = "call_1"


class Thought(NamedTuple):
    """The model thinks."""

    text: str


class Fault(NamedTuple):
    """The server refuses the request."""

    status: int
    message: str


Step: TypeAlias = str | Thought | Call | threading.Event
"""One step of a response; an event is waited for."""
Turn: TypeAlias = Iterable[Step] | str | Fault


class ScriptedVendor:
    """Answers each request with the next turn, and remembers the requests."""

    def __init__(self, port: int, turns: Iterable[Turn]) -> None:
        self.turns = iter(turns)
        self.seen: list[dict[str, Any]] = []
        self.settings = f'[providers.lab]\nlike = "vllm"\nbase_url = "http://127.0.0.1:{port}/v1"\n'

    def sent_roles(self, number: int = -1) -> list[str]:
        """Return the roles of the messages of a request."""
        return [message["role"] for message in self.seen[number]["messages"]]


@contextmanager
def run_vendor(*turns: Turn) -> Generator[ScriptedVendor]:
    """Run a server with a script."""
    with _Server(("127.0.0.1", 0), _Handler) as listener:
        listener.known = known = ScriptedVendor(listener.server_port, turns)
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield known
        finally:
            listener.shutdown()
            thread.join(PATIENCE_S)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    known: ScriptedVendor


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._reply(200, {"data": [{"id": "tester"}]})

    def do_POST(self) -> None:
        assert isinstance(self.server, _Server)
        known = self.server.known
        known.seen.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        turn = next(known.turns, Fault(400, "the script has no turn for this"))
        with suppress(ConnectionError):  # the client may hang up at any time
            if isinstance(turn, Fault):
                self._refuse(turn)
            else:
                self._speak([turn] if isinstance(turn, str) else turn)

    def _refuse(self, fault: Fault) -> None:
        self._reply(fault.status, {"error": {"message": fault.message}})

    def _reply(self, status: int, payload: dict[str, Any]) -> None:
        body = json.dumps(payload).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _speak(self, steps: Iterable[Step]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        finish, calls = "stop", 0
        for step in steps:
            if isinstance(step, threading.Event):
                step.wait(PATIENCE_S)
            elif isinstance(step, str):
                self._send(_chunk({"content": step}))
            elif isinstance(step, Thought):
                self._send(_chunk({"reasoning_content": step.text}))
            else:
                self._send(_chunk({"tool_calls": [_call(step, calls)]}))
                finish, calls = "tool_calls", calls + 1
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self._send({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        self._send({"choices": [], "usage": usage})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, payload: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(payload)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta}]}


def _call(call: Call, index: int) -> dict[str, Any]:
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"index": index, "id": call.id, "type": "function", "function": function}
