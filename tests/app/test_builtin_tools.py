"""The names that permission rules may use for built-in tools are those of the toolbox."""

from __future__ import annotations

from pathlib import Path

from steno.app.permissions import BUILTIN_TOOL_NAMES
from steno.tools import Toolbox, Workspace


def test_rules_know_every_built_in_tool(tmp_path: Path) -> None:
    tools = Toolbox(Workspace([tmp_path])).tools
    assert {tool.definition.name for tool in tools} == set(BUILTIN_TOOL_NAMES)
