"""Definitions of tools for the offline assistant."""

from __future__ import annotations

from collections.abc import Sequence

from steno import ToolDefinition


def tool(name: str, *arguments: str, required: Sequence[str] | None = None) -> ToolDefinition:
    kinds = {"offset": "integer", "limit": "integer", "replace_all": "boolean"}
    properties = {each: {"type": kinds.get(each, "string")} for each in arguments}
    needed = [*arguments] if required is None else [*required]
    parameters = {"type": "object", "properties": properties, "required": needed}
    return ToolDefinition(name=name, description="It does.", parameters=parameters, strict=False)


TOOLS = (
    tool("read", "path", "offset", "limit", required=["path"]),
    tool("write", "path", "content"),
    tool("edit", "path", "old", "new", "replace_all", required=["path", "old", "new"]),
    tool("bash", "command"),
    tool("grep", "pattern", "path", required=["pattern"]),
    tool("glob", "pattern", "path", required=["pattern"]),
)
