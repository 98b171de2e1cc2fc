"""The built-in tools for one workspace, created and closed together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self, final

from steno.ports import PrepareImage, Tool
from steno.tools.bash import BashKillTool, BashOutputTool, BashTool
from steno.tools.edit import EditTool
from steno.tools.read import ReadTool
from steno.tools.search_tools import GlobTool, GrepTool
from steno.tools.shell.confined_command import CommandAccess
from steno.tools.shell.network_proxy import FindUpstream
from steno.tools.shell.process import CommandLimits
from steno.tools.shell.sandbox import Sandbox, SandboxSetting
from steno.tools.workspace import Workspace
from steno.tools.write import WriteTool


@final
class Toolbox:
    """The tools that read, write, edit, search and run commands in one workspace.

        async with Toolbox(Workspace(folder)) as toolbox:
            agent = Agent(provider, conversation, tools=toolbox.tools)

    Closing the toolbox ends the commands that run in the background.
    """

    def __init__(
        self,
        workspace: Workspace,
        *,
        sandbox: Sandbox | SandboxSetting = SandboxSetting.AUTO,
        access: CommandAccess | None = None,
        limits: CommandLimits | None = None,
        environ: Mapping[str, str] | None = None,
        find_upstream: FindUpstream | None = None,
        prepare_image: PrepareImage | None = None,
    ) -> None:
        """Create the tools. `prepare_image` applies to `read`, the other options to commands.

        Commands inherit variables from `environ`, by default the environment of this process.
        `find_upstream` finds the user's own proxy, through which commands contact domains.
        """
        self._bash = BashTool(
            workspace,
            sandbox=sandbox,
            access=access,
            limits=limits,
            environ=environ,
            find_upstream=find_upstream,
        )
        self.tools: Final[tuple[Tool, ...]] = (
            ReadTool(workspace, prepare_image=prepare_image),
            WriteTool(workspace),
            EditTool(workspace),
            GlobTool(workspace),
            GrepTool(workspace),
            self._bash,
            BashOutputTool(self._bash.jobs),
            BashKillTool(self._bash.jobs),
        )

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox of commands; the first use tests what works and may block for a moment."""
        return self._bash.sandbox

    async def aclose(self) -> None:
        """End the background jobs."""
        await self._bash.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.aclose()
