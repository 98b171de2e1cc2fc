"""Describe tools by a type or a function, and check what a model made of them."""

import json
from typing import Annotated, Literal

import msgspec

from steno import JsonObject, ToolCall, ToolDefinition


class Edit(msgspec.Struct):
    """Replace text in a file."""

    path: str
    old: Annotated[str, "The exact text to replace."]
    new: str
    count: Annotated[int, msgspec.Meta(ge=1, description="How many times.")] = 1


async def search(pattern: str, kind: Literal["text", "regex"] = "text") -> list[str]:
    """Find lines in the project.

    Args:
        pattern: What to look for.
        kind: How to read the pattern.
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
