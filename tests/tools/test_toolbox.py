"""The built-in tools of a workspace."""

from __future__ import annotations

from pathlib import Path

from steno.messages.call import BUILTIN_TOOL_NAMES
from steno.tools import Toolbox, Workspace


def test_permission_rules_know_the_name_of_every_built_in_tool(tmp_path: Path) -> None:
    tools = Toolbox(Workspace([tmp_path])).tools
    assert tuple(tool.definition.name for tool in tools) == BUILTIN_TOOL_NAMES
