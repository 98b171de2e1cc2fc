"""A server on loopback in a separate process, so that its CPU time is not counted for the client.

It implements just enough HTTP/1.1 to send prepared responses, and does not know their content.
Connections stay open, and each has a thread.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import ClassVar, NamedTuple

HOST = "127.0.0.1"
PAUSE_S = 0.0002
"""The pause between two pieces of a paced response: far shorter than that of any model."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


class Body(NamedTuple):
    """The body of a response, in the pieces that become HTTP chunks."""

    pieces: list[bytes]
    is_paced: bool = False
    """Whether each piece is sent in its own packet, with a pause after it."""


@contextmanager
def server(bodies: Mapping[str, Body]) -> Generator[int]:
    """Serve each body under `/<its name>/...`; yield the port."""
    command = [sys.executable, "-m", "bench.loopback_server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            pickle.dump({name: tuple(body) for name, body in bodies.items()}, child.stdin)
            child.stdin.flush()
            yield int(child.stdout.readline())
        finally:
            child.stdin.close()


def main() -> None:
    """Serve the bodies from standard input, until it is closed."""
    for name, (pieces, is_paced) in pickle.load(sys.stdin.buffer).items():
        chunks = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        _Connection.bodies[name] = Body(chunks if is_paced else [b"".join(chunks)], is_paced)
    with _Listener((HOST, 0), _Connection) as listener:
        print(listener.server_address[1], flush=True)
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        sys.stdin.buffer.read()
        listener.shutdown()


class _Listener(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


class _Connection(StreamRequestHandler):
    disable_nagle_algorithm = True
    bodies: ClassVar[dict[str, Body]] = {}

    def handle(self) -> None:
        try:
            while (name := self._read_request()) is not None:
                self._send(self.bodies[name])
        except ConnectionError:
            pass  # a client may disconnect early

    def _read_request(self) -> str | None:
        first, length = self.rfile.readline(), 0
        while line := self.rfile.readline().strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        self.rfile.read(length)
        return first.split()[1].split(b"/")[1].decode() if first else None

    def _send(self, body: Body) -> None:
        self.wfile.write(_HEAD)
        due = time.perf_counter()
        for chunk in body.pieces:
            self.wfile.write(chunk)
            if body.is_paced:
                due += PAUSE_S
                while time.perf_counter() < due:
                    pass  # busy waiting: a sleep would take far longer than this
        self.wfile.write(_END)


if __name__ == "__main__":
    main()
