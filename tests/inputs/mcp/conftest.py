"""Real servers as fixtures, each started at most once for a file of tests."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.inputs.mcp import real_servers
from tests.inputs.mcp.real_servers import LiveConnection


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder for the servers of a file of tests to work in."""
    return tmp_path_factory.mktemp("mcp")


@pytest.fixture(scope="module")
def time_server(shared_folder: Path) -> Generator[LiveConnection, None, None]:
    """mcp-server-time from PyPI: tools alone, protocol 2026-07-28."""
    with real_servers.open_connection(real_servers.time_spec(), shared_folder) as server:
        yield server


@pytest.fixture(scope="module")
def everything(shared_folder: Path) -> Generator[LiveConnection, None, None]:
    """server-everything from npm: tools, resources, templates, prompts, protocol 2025-11-25."""
    with real_servers.open_connection(real_servers.everything_spec(), shared_folder) as server:
        yield server


@pytest.fixture(scope="module")
def own_server(shared_folder: Path) -> Generator[LiveConnection, None, None]:
    """Our `own_server.py` over stdio, protocol 2026-07-28."""
    with real_servers.open_connection(real_servers.own_spec(), shared_folder) as server:
        yield server


@pytest.fixture(scope="module")
def http_url() -> Generator[str, None, None]:
    """The URL of our `own_server.py` over streamable HTTP."""
    with real_servers.http_process() as url:
        yield url
