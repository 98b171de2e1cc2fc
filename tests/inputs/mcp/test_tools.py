"""Tools of servers work like built-in tools, and claims of a server are not trusted."""

from __future__ import annotations

import asyncio
import random

import pytest

from steno import ToolCall
from steno.errors import ServerFailed, ToolFailed
from steno.inputs.mcp.protocol import CallToolResult
from steno.inputs.mcp.tools import MAX_DEFINITION_BYTES, MAX_TOOLS, McpTool, list_mcp_tools
from steno.messages.content import Text
from steno.messages.outcome import Outcome
from steno.ports import Capability, Tool
from tests.inputs.mcp.tool_doubles import ScriptedMcpServer, listed_tool, load_tools, run
from tests.raised_errors import raises_code
from tests.tools.fake_tool_context import FakeToolContext

READS = {"readOnlyHint": True, "destructiveHint": False}


def names(tools: tuple[McpTool, ...]) -> list[str]:
    return [tool.definition.name for tool in tools]


def call_of(tool: McpTool, **arguments: object) -> ToolCall:
    return ToolCall.create(tool.definition.name, arguments)


def test_a_tool_of_a_server_is_one_of_ours() -> None:
    found = load_tools(ScriptedMcpServer("time", listed_tool("now", description="Tells the time.")))
    assert found.notices == ()
    tool: Tool = found.tools[0]
    assert tool.definition.name == "mcp__time__now"
    assert tool.definition.description == "[MCP server time] Tells the time."
    assert tool.subjects(call_of(found.tools[0])) == ()
    assert (found.tools[0].server, found.tools[0].original_name) == ("time", "now")


@pytest.mark.parametrize(("server", "name"), [("time", "mcp__time"), ("my-lab", "mcp__my_lab")])
def test_rules_that_deny_a_server_count_for_its_tools(server: str, name: str) -> None:
    (tool,) = load_tools(ScriptedMcpServer(server, listed_tool("now"))).tools
    assert tool.rule_aliases == (name,)


def test_claims_of_a_server_give_a_tool_no_rights() -> None:
    (tool,) = load_tools(ScriptedMcpServer("evil", listed_tool(hints=READS))).tools
    assert tool.capability is Capability.EXECUTE


def test_the_user_declares_which_tools_are_read_only() -> None:
    names = ["git_log", "git_show", "git-log", "xgit_log", "push"]
    found = load_tools(
        ScriptedMcpServer("git", *map(listed_tool, names), readers=("git_*", "push")),
        ScriptedMcpServer("other", listed_tool("push")),
    )
    reading = [t.original_name for t in found.tools if t.capability is Capability.READ]
    assert reading == ["git_log", "git_show", "push"]


@pytest.mark.parametrize(
    ("pattern", "does_read"),
    [
        ("a*b*c", True),
        ("*", True),
        ("*c", True),
        ("a*b", False),
        ("a.b.c", False),
        ("a*b*b*c", False),
    ],
)
def test_a_star_matches_any_text_and_other_characters_are_literal(
    pattern: str, does_read: bool
) -> None:
    (tool,) = load_tools(ScriptedMcpServer("s", listed_tool("a\nb-c"), readers=(pattern,))).tools
    assert (tool.capability is Capability.READ) == does_read


def test_a_preview_shows_the_arguments_and_marks_the_words_of_the_server() -> None:
    (tool,) = load_tools(ScriptedMcpServer("fs", listed_tool("rm\x1b[2J\nall", hints=READS))).tools
    assert run(tool.preview(call_of(tool, path="a", deep={"b": 1}))).text == (
        '"rm all" of the MCP server fs\n'
        '{\n  "path": "a",\n  "deep": {\n    "b": 1\n  }\n}\n'
        "The server claims that the tool only reads and is not destructive. steno does not verify this."
    )


def test_hints_of_the_wrong_type_are_no_hints() -> None:
    hints = {"readOnlyHint": "yes", "destructiveHint": 1, "openWorldHint": None}
    (tool,) = load_tools(ScriptedMcpServer("fs", listed_tool("a", hints=hints))).tools
    assert run(tool.preview(call_of(tool))).text == '"a" of the MCP server fs\n{}'


def test_a_call_reaches_the_server_under_its_own_name() -> None:
    server = ScriptedMcpServer("everything", listed_tool("get-sum"))
    (tool,) = load_tools(server).tools
    output = run(tool.run(call_of(tool, a=1, b=[2]), FakeToolContext()))
    assert server.calls == [("get-sum", {"a": 1, "b": [2]})]
    assert (output.content, output.outcome) == ((Text("ok"),), Outcome.OK)


def test_progress_is_shown_once_each_cleaned_and_not_for_ever() -> None:
    said = ["1/2", "1/2", "\x1b[31m", "2/2 do\nne\x07", *[f"{n}" for n in range(10_000)]]
    (tool,) = load_tools(ScriptedMcpServer("slow", listed_tool(), progress=said)).tools
    context = FakeToolContext()
    run(tool.run(call_of(tool), context))
    assert context.reported[:3] == ["1/2\n", "2/2 do ne\n", "0\n"]
    assert len(context.reported) == 500


def test_a_server_that_fails_in_a_call_is_a_failed_tool() -> None:
    gone = ServerFailed("the server is gone", code="server_gone", place="mcp time")
    (tool,) = load_tools(ScriptedMcpServer("time", listed_tool(), called=gone)).tools
    with raises_code(ToolFailed, "server_gone", place="mcp time") as caught:
        run(tool.run(call_of(tool), FakeToolContext()))
    assert caught.value.recoverable


def test_an_error_that_a_tool_reports_keeps_its_content() -> None:
    called = CallToolResult(content=({"type": "text", "text": "no such town"},), is_error=True)
    (tool,) = load_tools(ScriptedMcpServer("time", listed_tool(), called=called)).tools
    output = run(tool.run(call_of(tool), FakeToolContext()))
    assert (output.content, output.outcome) == ((Text("no such town"),), Outcome.ERROR)


def test_a_server_that_fails_has_no_tools_and_a_note_and_the_others_have_theirs() -> None:
    text = "cannot be started: \x1b[31mno such file"
    failure = ServerFailed(text, code="server_not_started", place="mcp b")
    found = load_tools(
        ScriptedMcpServer("b", listed_tool(), failure=failure),
        ScriptedMcpServer("a", listed_tool("x")),
    )
    assert names(found.tools) == ["mcp__a__x"]
    assert found.notices == (("server_not_started", "mcp b: cannot be started: no such file"),)


def test_servers_are_queried_at_once_and_order_of_responses_does_not_matter() -> None:
    async def ask(order: list[str]) -> list[str]:
        ready = {name: asyncio.Event() for name in order}
        servers = [
            ScriptedMcpServer(
                name, listed_tool("b"), listed_tool("a"), listed_tool("a.b"), ready=ready[name]
            )
            for name in order
        ]
        asking = asyncio.create_task(list_mcp_tools(servers))
        for name in order:  # all of them wait at the same time; one after the other would never end
            ready[name].set()
            await asyncio.sleep(0)
        return names((await asking).tools)

    once = run(ask(["a", "b", "c"]))
    assert once == run(ask(["c", "a", "b"]))
    assert once[:2] == ["mcp__a__a", "mcp__a__a_b_" + once[1][-8:]]
    assert len(once) == 9


def test_the_order_of_a_list_makes_no_difference() -> None:
    tools = [listed_tool(name) for name in ("a-b", "a_b", "a.b", "a/b", "z", "🙂", "A")]
    expected = names(load_tools(ScriptedMcpServer("s", *tools)).tools)
    random.Random(0).shuffle(tools)
    assert names(load_tools(ScriptedMcpServer("s", *tools)).tools) == expected
    assert len(set(expected)) == 7


def test_two_servers_with_ambiguous_names_are_not_mixed_up() -> None:
    found = load_tools(
        ScriptedMcpServer("web_search", listed_tool()),
        ScriptedMcpServer("web-search", listed_tool("x")),
    )
    assert names(found.tools) == ["mcp__web_search__x"]
    (notice,) = found.notices
    assert notice.code == "server_name_ambiguous"
    assert notice.text.startswith("mcp web_search: ")
    assert "web-search" in notice.text


def test_a_tool_whose_name_is_taken_is_left_out() -> None:
    forged = (
        load_tools(ScriptedMcpServer("s", listed_tool("a.b")))
        .tools[0]
        .definition.name[len("mcp__s__") :]
    )
    found = load_tools(
        ScriptedMcpServer(
            "s", listed_tool("a.b"), listed_tool(forged), listed_tool("c"), listed_tool("c")
        )
    )
    assert [tool.original_name for tool in found.tools] == ["a.b", "c"]
    assert [notice.code for notice in found.notices] == ["duplicate_tool_name"] * 2
    for notice, name in zip(found.notices, (forged, "c"), strict=True):
        assert f'"{name}"' in notice.text


def test_a_tool_that_makes_no_sense_is_left_out_and_the_others_stay() -> None:
    bad = listed_tool("bad\x1b[31m", schema=["a list"])
    found = load_tools(
        ScriptedMcpServer("s", listed_tool("good"), bad, listed_tool(""), listed_tool(" \n"))
    )
    assert names(found.tools) == ["mcp__s__good"]
    codes = ["no_name", "no_name", "schema_not_an_object"]
    assert [notice.code for notice in found.notices] == codes
    assert found.notices[2].text == 'mcp s: left out the tool "bad": the schema is not an object'


def test_the_number_of_tools_is_limited() -> None:
    found = load_tools(ScriptedMcpServer("s", *[listed_tool(f"tool_{n:05}") for n in range(3_000)]))
    assert len(found.tools) == MAX_TOOLS
    assert names(found.tools)[-1] == f"mcp__s__tool_{MAX_TOOLS - 1:05}"
    assert {notice.code for notice in found.notices[:-1]} == {"too_many_tools"}
    assert '"tool_00128"' in found.notices[0].text
    assert found.notices[-1].code == "more_tools_left_out"
    assert f"{3_000 - MAX_TOOLS - 20:,}" in found.notices[-1].text


def test_no_more_is_taken_than_so_many_bytes_in_all() -> None:
    large = {"type": "object", "properties": {"a": {"enum": ["x" * 60_000]}}}
    found = load_tools(
        ScriptedMcpServer("s", *[listed_tool(f"t{n}", large) for n in range(6)], listed_tool("z"))
    )
    assert names(found.tools) == [
        "mcp__s__t0",
        "mcp__s__t1",
        "mcp__s__t2",
        "mcp__s__t3",
        "mcp__s__z",
    ]
    assert {notice.code for notice in found.notices} == {"definitions_too_long"}
    assert f" {MAX_DEFINITION_BYTES // 1024} KB " in found.notices[0].text
