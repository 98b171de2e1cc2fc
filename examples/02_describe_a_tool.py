"""Describe tools with a type or a function, and check the arguments of a call.

The JSON schema comes from the annotations and the docstring.
"""

import json
from typing import Annotated, Literal

import msgspec

from steno import JsonObject, ToolCall, ToolDefinition


class Edit(msgspec.Struct):
    """Replace text in a file."""

    path: str
    old: Annotated[str, "The exact text to replace."]
    new: str
    count: Annotated[int, msgspec.Meta(ge=1, description="The number of replacements.")] = 1


async def search(pattern: str, kind: Literal["text", "regex"] = "text") -> list[str]:
    """Search the lines of the project.

    Args:
        pattern: The text to find.
        kind: How to interpret the pattern.
    """
    return [f"{kind}:{pattern}"]


tool = ToolDefinition.from_function(search)
print(json.dumps(JsonObject(tool.parameters).to_dict(), indent=2))

edit = ToolDefinition.from_type(Edit, name="edit")
good = ToolCall.create("edit", {"path": "a.py", "old": "x", "new": "y"})
print(good.arguments_as(Edit))

bad = ToolCall.create("edit", {"path": "a.py", "old": 5, "count": 0, "colour": "red"})
for problem in edit.check(bad):
    print("-", problem)
