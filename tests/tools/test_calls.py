"""Headlines and contents of calls whose tools are not open."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.messages.call import BUILTIN_TOOL_NAMES, AnyToolCall, InvalidToolCall, ToolCall
from steno.ports import PreviewKind, PreviewPart, default_headline
from steno.tools import Toolbox, Workspace
from steno.tools.calls import call_content, call_headline


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("bash", {"command": "ls", "path": "a"}, "ls"),
        ("read", {"path": "a.py", "offset": 3}, "a.py"),
        ("write", {"command": "x", "path": "a.py"}, "a.py"),
        ("grep", {"pattern": "x", "path": "src"}, "src"),
        ("glob", {"pattern": "*.py"}, "*.py"),
        ("bash_kill", {"job": "7"}, "7"),
        ("mcp__maps__find", {"limit": 3, "query": "Oslo"}, "Oslo"),
        ("mcp__maps__find", {"limit": 3}, '{"limit":3}'),
        ("bash", {"command": 7}, '{"command":7}'),
        ("bash", {}, ""),
    ],
)
def test_a_headline_is_the_main_argument(
    name: str, arguments: dict[str, object], expected: str
) -> None:
    assert call_headline(ToolCall.create(name, arguments)) == expected


@pytest.mark.parametrize(
    "call",
    [
        InvalidToolCall(id="c", name="bash", arguments='{"command": "ls', reason="torn"),
        ToolCall(id="c", name="bash", arguments='{"command": 1e999}'),
    ],
)
def test_a_headline_of_broken_arguments_is_their_text(call: AnyToolCall) -> None:
    assert call_headline(call) == default_headline(call) == call.arguments


def test_every_built_in_tool_gives_the_headline_of_the_table(tmp_path: Path) -> None:
    tools = {tool.definition.name: tool for tool in Toolbox(Workspace([tmp_path])).tools}
    assert set(tools) == set(BUILTIN_TOOL_NAMES)
    for name, tool in tools.items():
        call = ToolCall.create(name, {"path": "a", "command": "b", "job": "c"})
        assert tool.headline(call) == call_headline(call)


def test_the_content_of_a_call_is_the_text_that_it_writes() -> None:
    written = ToolCall.create("write", {"path": "a.py", "content": "x = 1"})
    assert call_content(written) == PreviewPart(PreviewKind.CODE, "x = 1", "py")
    edited = ToolCall.create("edit", {"path": "a.py", "old": "a\nb", "new": "c"})
    assert call_content(edited) == PreviewPart(PreviewKind.DIFF, "-a\n-b\n+c")
    for name in ("write", "edit", "bash"):
        assert call_content(ToolCall.create(name, {"path": "a.py"})) is None
    assert call_content(ToolCall(id="c", name="write", arguments='{"content": 1e999}')) is None
