"""How it stands with an MCP server, as far as that can be told without starting it."""

from __future__ import annotations

import shutil

from steno.cli.folders import working_folder
from steno.cli.servers import state_of
from steno.inputs.mcp.specs import ServerSpec


def standing(spec: ServerSpec) -> str:
    """Say why a server cannot be used, or that its program is not there, or else nothing of it."""
    if spec.is_usable and spec.command and not _is_there(spec):
        return f"not found: {spec.redact_secrets(spec.command)}"
    return state_of(spec)


def _is_there(spec: ServerSpec) -> bool:
    """Tell whether there is such a program, where the system will look for it."""
    command = spec.command
    if "/" in command:
        command = str((spec.cwd or working_folder()) / command)
    return shutil.which(command, path=spec.env.get("PATH")) is not None
