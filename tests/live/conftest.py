"""A real server for the tests of this folder: llama.cpp, in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("puppet_server.py")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def llama_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server; yield its address; end it by its id, whatever happened."""
    log = tmp_path_factory.mktemp("llama") / "log.txt"
    for _ in range(3):  # another process may take the port before the server listens
        port = free_port()
        with log.open("wb") as sink, _start(port, sink.fileno()) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            try:
                if server.stdout.readline() == b"ready\n":
                    yield f"http://127.0.0.1:{port}"
                    return
            finally:
                server.stdin.close()
                try:
                    server.wait(timeout=60)
                except subprocess.TimeoutExpired:
                    server.kill()
    pytest.fail(f"llama.cpp did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _start(port: int, log: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(PROGRAM), str(port)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, close_fds=True
    )
