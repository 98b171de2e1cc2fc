"""Shared by the tests of connections."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from steno.inputs.mcp.connection import McpConnection
from steno.inputs.mcp.protocol import CallToolResult
from steno.inputs.mcp.server_spec import McpServerSpec

PLAIN_SERVER = str(Path(__file__).with_name("plain_server.py"))


def plain_spec(*arguments: str, **more: Any) -> McpServerSpec:
    args = (PLAIN_SERVER, *arguments)
    return McpServerSpec(name="plain", command=sys.executable, args=args, **more)


def ignore(_: str) -> None:
    """Ignore the progress."""


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children() -> set[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return {int(pid) for pid in listed.split()}


async def pid_of(server: McpConnection) -> int:
    answer = await server.call("pid", {}, progress=ignore)
    return int(answer.content[0]["text"])


async def start_endless_call(
    server: McpConnection, file: str = os.devnull
) -> asyncio.Task[CallToolResult]:
    """Start a call of our own server that never ends; it runs when this returns."""
    begun = asyncio.Event()
    call = asyncio.create_task(server.call("wait", {"file": file}, progress=lambda _: begun.set()))
    await begun.wait()
    return call
