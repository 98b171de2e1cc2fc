"""Real servers from PyPI and npm, and one of our own: how to find and start them."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any, TypeVar

from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.server_spec import McpServerSpec
from steno.ports import SetupNotice

T = TypeVar("T")

_BIN = Path(sys.prefix) / "bin"
_NPM = Path(sys.prefix) / "node" / "node_modules" / ".bin"
OWN_SERVER = Path(__file__).with_name("example_server.py")


def search_path() -> str:
    """Return a PATH on which the node of the virtual environment is found first."""
    return os.pathsep.join([str(_BIN), os.environ.get("PATH", os.defpath)])


def time_spec(name: str = "time") -> McpServerSpec:
    """Returns and converts times; protocol 2026-07-28."""
    args = ("-m", "mcp_server_time", "--local-timezone", "UTC")
    return McpServerSpec(name=name, command=sys.executable, args=args)


def git_spec(repository: Path, name: str = "git") -> McpServerSpec:
    """Reads a repository; protocol 2026-07-28."""
    args = ("-m", "mcp_server_git", "--repository", str(repository))
    return McpServerSpec(name=name, command=sys.executable, args=args)


def everything_spec(name: str = "everything") -> McpServerSpec:
    """Has something of everything: tools, resources, templates, prompts; protocol 2025-11-25."""
    return _npm_spec(name, "mcp-server-everything", "stdio")


def filesystem_spec(folder: Path, name: str = "filesystem") -> McpServerSpec:
    """Works with the files of a folder; protocol 2025-11-25."""
    return _npm_spec(name, "mcp-server-filesystem", str(folder))


def memory_spec(file: Path, name: str = "memory") -> McpServerSpec:
    """Keeps a graph of facts in a file; protocol 2025-11-25."""
    spec = _npm_spec(name, "mcp-server-memory")
    return McpServerSpec(
        name=spec.name,
        command=spec.command,
        args=spec.args,
        env={**spec.env, "MEMORY_FILE_PATH": str(file)},
    )


def own_spec(*arguments: str, name: str = "own", **more: Any) -> McpServerSpec:
    """`own_server.py` over stdio."""
    args = (str(OWN_SERVER), *arguments)
    return McpServerSpec(name=name, command=sys.executable, args=args, **more)


def _npm_spec(name: str, program: str, *arguments: str) -> McpServerSpec:
    return McpServerSpec(
        name=name,
        command=str(_BIN / "node"),
        args=(str(_NPM / program), *arguments),
        env={"PATH": search_path()},
    )


class LiveConnection:
    """A connection and its event loop, for any number of tests."""

    def __init__(
        self,
        spec: McpServerSpec,
        folder: Path,
        notify: Callable[[SetupNotice], object] = lambda _: None,
    ) -> None:
        self._runner = asyncio.Runner()
        self.server = McpConnection(spec, folder=folder, notify=notify)

    def run(self, main: Coroutine[Any, Any, T], limit_s: float = 60) -> T:
        """Run a coroutine on the loop, with a time limit."""

        async def limited() -> T:
            async with asyncio.timeout(limit_s):
                return await main

        return self._runner.run(limited())

    def close(self) -> None:
        """End the server and the loop."""
        with self._runner:
            self.run(self.server.aclose())


@contextmanager
def open_connection(
    spec: McpServerSpec, folder: Path, notify: Callable[[SetupNotice], object] = lambda _: None
) -> Generator[LiveConnection, None, None]:
    """Yield a connection, and close it at the end."""
    it = LiveConnection(spec, folder, notify)
    try:
        yield it
    finally:
        it.close()


@contextmanager
def http_process(*arguments: str) -> Generator[str, None, None]:
    """Run `own_server.py` over streamable HTTP on a free port of 127.0.0.1; give its address.

    The listening socket is ours and is handed down, so that the port is answered from the
    beginning: whoever connects early waits for the server, not for a second try.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, str(OWN_SERVER), f"--fd={listening.fileno()}", *arguments]
        process = Popen(command, pass_fds=[listening.fileno()], stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


_LISTEN_HERE = """
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, { fd: Number(process.env.LISTEN_FD) }, ...rest);
};
"""


class EverythingHttp:
    """server-everything over streamable HTTP, on the same port of 127.0.0.1 after every restart.

    By itself it listens to the whole world. So it is given a socket that listens already, which
    also answers from the beginning.
    """

    def __init__(self, folder: Path) -> None:
        self._preload = folder / "listen.cjs"
        self._preload.write_text(_LISTEN_HERE)
        self._port = 0
        self._process: Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self._port}/mcp"

    def start(self) -> None:
        """Start the server."""
        program = [str(_NPM / "mcp-server-everything"), "streamableHttp"]
        command = [str(_BIN / "node"), "--require", str(self._preload), *program]
        with socket.create_server(("127.0.0.1", self._port)) as listening:
            self._port = listening.getsockname()[1]
            fd = listening.fileno()
            environment = {"PATH": search_path(), "LISTEN_FD": str(fd)}
            self._process = Popen(
                command, pass_fds=[fd], env=environment, stdout=DEVNULL, stderr=DEVNULL
            )

    def kill(self) -> None:
        """Kill the server."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@contextmanager
def everything_http(folder: Path) -> Generator[EverythingHttp, None, None]:
    """Run server-everything over HTTP inside the block."""
    server = EverythingHttp(folder)
    try:
        yield server
    finally:
        server.kill()
