"""No server can give a tool a name that means something else."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steno import map_tool_name
from steno.inputs.mcp.tools import (
    mcp_server_name,
    mcp_tool_name,
    mcp_tool_name_for_models,
)
from steno.messages.call import is_tool_name

SERVERS = st.from_regex(r"[A-Za-z0-9_-]{1,32}", fullmatch=True)
TOOLS = st.text() | st.from_regex(r"[A-Za-z0-9_./:-]{0,200}", fullmatch=True)


def test_names_that_fit_stay_readable() -> None:
    assert mcp_tool_name("time", "convert_time") == "mcp__time__convert_time"
    assert mcp_server_name("time") == "mcp__time"


def test_names_with_dashes_get_a_hash_and_models_see_them_as_they_are() -> None:
    name = mcp_tool_name("everything", "get-sum")
    assert name == map_tool_name("mcp__everything__get-sum")
    assert name.startswith("mcp__everything__get_sum_")
    assert mcp_tool_name_for_models("everything", "get-sum") == "mcp__everything__get-sum"


@pytest.mark.parametrize("tool", ["fs.read", "x" * 300, "🙂", "convert_time", "../../etc"])
def test_models_see_our_name_where_some_provider_would_refuse_the_other(tool: str) -> None:
    assert mcp_tool_name_for_models("time", tool) is None


@given(SERVERS, TOOLS)
@example("time", "read")
@example("a", "")
@example("a" * 32, "b" * 300)
@example("_-_", "\ud800")
def test_any_tool_has_a_legal_name_that_begins_with_that_of_its_server(
    server: str, tool: str
) -> None:
    name = mcp_tool_name(server, tool)
    assert is_tool_name(name)
    assert name.startswith(f"{mcp_server_name(server)}__")
    assert name == mcp_tool_name(server, tool)


@given(SERVERS, TOOLS, SERVERS, TOOLS)
@example("a", "b__c", "a__b", "c")
@example("a", "_b", "a_", "b")
@example("a-b", "c", "a", "b__c")
def test_no_tool_has_the_name_of_one_of_another_server(
    server: str, tool: str, other: str, others_tool: str
) -> None:
    if mcp_server_name(server) != mcp_server_name(other):
        assert mcp_tool_name(server, tool) != mcp_tool_name(other, others_tool)


@given(SERVERS, st.data())
def test_no_server_reaches_into_another_by_the_choice_of_a_name(
    server: str, data: st.DataObject
) -> None:
    """It tries names that end where those of the other begin."""
    other = data.draw(SERVERS)
    goal = mcp_tool_name(other, "look")
    own = f"{mcp_server_name(server)}__"
    for length in range(len(goal)):
        if own != f"{mcp_server_name(other)}__":
            assert mcp_tool_name(server, goal[length:]) != goal


@given(st.lists(TOOLS, max_size=8, unique=True))
def test_tools_of_one_server_have_different_names(tools: list[str]) -> None:
    assert len({mcp_tool_name("s", tool) for tool in tools}) == len(tools)


@pytest.mark.parametrize("server", ["_", "--", "__"])
def test_a_server_without_a_letter_has_a_name_all_the_same(server: str) -> None:
    assert mcp_server_name(server) == "mcp__server"
