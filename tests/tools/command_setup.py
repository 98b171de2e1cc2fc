"""Shared by the tests of commands: tools for a test, and a list of running processes."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pytest

from steno import ToolCall
from steno.messages.content import Text
from steno.ports import ToolOutput
from steno.tools.bash import BashTool
from steno.tools.shell.confined_command import CommandAccess
from steno.tools.shell.process import CommandLimits
from steno.tools.shell.sandbox import (
    LandlockSandbox,
    NoSandbox,
    Sandbox,
    find_working_sandboxes,
)
from steno.tools.workspace import Workspace
from tests.tools.fake_tool_context import FakeToolContext

PATIENCE_S: Final = 60.0
SANDBOXES: Final = find_working_sandboxes()
EVERY_SANDBOX: Final[tuple[Sandbox, ...]] = (*SANDBOXES, NoSandbox("a test"))


def sandbox_id(sandbox: Sandbox) -> str:
    """Return a name that also tells the two forms of Landlock apart."""
    is_alone = isinstance(sandbox, LandlockSandbox) and not sandbox.has_namespaces
    return f"{sandbox.name}-alone" if is_alone else sandbox.name


real_sandboxes = pytest.mark.parametrize("sandbox", SANDBOXES, ids=sandbox_id)
every_sandbox = pytest.mark.parametrize("sandbox", EVERY_SANDBOX, ids=sandbox_id)
owning_sandboxes = pytest.mark.parametrize(
    "sandbox", [each for each in SANDBOXES if each.has_own_files], ids=sandbox_id
)
"""The sandboxes that protect and hide paths everywhere."""


class WaitableToolContext(FakeToolContext):
    """A context whose output a test can wait for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()

    def report_output(self, text: str) -> None:
        super().report_output(text)
        self._changed.set()

    async def wait_for_output(self, text: str) -> None:
        """Return when the reported output contains a text."""
        async with asyncio.timeout(PATIENCE_S):
            while text not in "".join(self.reported):
                self._changed.clear()
                await self._changed.wait()


class FakeSandbox:
    """A sandbox that is in force, as far as permissions can tell; it runs nothing."""

    name = "fake"
    is_wrapper = True
    is_confining = True


def bash_in_fake_sandbox(workspace: Workspace) -> BashTool:
    """Return a tool whose commands count as confined."""
    return BashTool(workspace, sandbox=cast("Sandbox", FakeSandbox()))


def make_bash(
    workspace: Workspace,
    sandbox: Sandbox,
    *,
    home: Path | None = None,
    limits: CommandLimits | None = None,
    access: CommandAccess | None = None,
    environ: Mapping[str, str] | None = None,
) -> BashTool:
    """Return a tool with its own environment. Only the workspace is writable."""
    return BashTool(
        workspace,
        sandbox=sandbox,
        access=access if access is not None else CommandAccess(temporary=()),
        limits=limits if limits is not None else CommandLimits(grace_s=0.5),
        environ={
            "PATH": os.environ["PATH"],
            "HOME": str(home if home is not None else workspace.root),
            **(environ or {}),
        },
    )


def call(command: str, **arguments: object) -> ToolCall:
    return ToolCall.create("bash", {"command": command, **arguments})


def run(
    tool: BashTool, command: str, context: FakeToolContext | None = None, **arguments: object
) -> ToolOutput:
    """Run one command in a new event loop, and close the tool."""

    async def main() -> ToolOutput:
        try:
            return await tool.run(
                call(command, **arguments), context if context is not None else FakeToolContext()
            )
        finally:
            await tool.aclose()

    return bounded(main())


def bounded(work: Coroutine[Any, Any, ToolOutput]) -> ToolOutput:
    """Run a coroutine with a time limit."""
    return asyncio.run(asyncio.wait_for(work, 3 * PATIENCE_S))


def text_of(output: ToolOutput) -> str:
    return "".join([block.text for block in output.content if isinstance(block, Text)])


def details_of(output: ToolOutput) -> dict[str, Any]:
    assert output.details is not None
    return dict(output.details)


# -- processes -----------------------------------------------------------------------------------


def unique_seconds() -> str:
    """Return a long time that no other process sleeps for, by which a `sleep` can be found."""
    return f"{10_000 + secrets.randbelow(80_000)}.{secrets.randbelow(10**9):09}"


def running_processes(mark: str) -> list[int]:
    """Return the processes that have a text in their command lines."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in line:
            found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, by polling."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
