"""Responses that violate the protocol: used as far as possible, and never a hang."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from steno.errors import ServerFailed
from steno.inputs.mcp.protocol import CallToolResult
from steno.ports import SetupNotice
from tests.inputs.mcp.connection_setup import ignore, plain_spec
from tests.inputs.mcp.real_servers import LiveConnection, open_connection
from tests.raised_errors import raises_code


@pytest.fixture(scope="module")
def plain(shared_folder: Path) -> Generator[LiveConnection, None, None]:
    with open_connection(plain_spec(), shared_folder) as server:
        yield server


def call(server: LiveConnection, tool: str) -> CallToolResult:
    return server.run(server.server.call(tool, {}, progress=ignore))


def test_one_odd_tool_does_not_hide_the_others(plain: LiveConnection) -> None:
    tools = plain.run(plain.server.tools())
    assert [tool.name for tool in tools] == ["good", "listed"]
    assert tools[0].hints == {"readOnlyHint": True}
    assert [*tools[1].schema] == ["not", "an", "object"]
    assert tools[1].description == ""


def test_lines_that_are_no_messages_are_passed_over(plain: LiveConnection) -> None:
    assert call(plain, "stray").content == ({"type": "text", "text": "fine"},)


def test_block_of_unknown_type_is_stored(plain: LiveConnection) -> None:
    assert call(plain, "new") == CallToolResult(
        content=({"type": "hologram", "data": [1]},), is_error=True
    )


def test_half_of_a_surrogate_pair_is_replaced(plain: LiveConnection) -> None:
    assert call(plain, "halves").content[0]["text"] == "a\ufffdb"


def test_number_that_json_does_not_know_is_written_as_text(plain: LiveConnection) -> None:
    assert call(plain, "number").structured == {"n": "nan"}


def test_answer_that_cannot_be_read_is_an_error_at_once(plain: LiveConnection) -> None:
    with raises_code(ServerFailed, "server_refused", place="mcp plain") as failed:
        call(plain, "deep")
    assert "cannot be read" in failed.value.message
    assert call(plain, "stray").content


def test_message_without_end_ends_the_server_and_not_us(plain: LiveConnection) -> None:
    with raises_code(ServerFailed, "server_gone") as failed:
        call(plain, "long")
    assert "more than 32 MB" in failed.value.message
    assert call(plain, "stray").content


def test_server_that_wants_our_model_is_refused(plain: LiveConnection) -> None:
    refusal = call(plain, "sample").structured
    assert refusal["id"] == "s1"
    assert "not supported" in refusal["error"]["message"]


def test_endless_pages_are_cut_off_with_one_notice(tmp_path: Path) -> None:
    told: list[SetupNotice] = []
    with open_connection(plain_spec("loop"), tmp_path, notify=told.append) as server:
        for _ in range(2):
            assert len(server.run(server.server.tools())) == 100
    assert [notice.code for notice in told] == ["server_list_truncated"]
    assert told[0].text.startswith("mcp plain: ")


def test_pages_that_are_too_large_together_are_cut_off(tmp_path: Path) -> None:
    with open_connection(plain_spec("long"), tmp_path) as server:
        assert len(server.run(server.server.tools())) == 4


def test_server_that_asks_without_end_and_never_listens_is_ended(plain: LiveConnection) -> None:
    with raises_code(ServerFailed, "server_gone") as failed:
        call(plain, "pester")
    assert "1,000 requests" in failed.value.message
    assert call(plain, "stray").content


def test_many_pages_are_one_list(own_server: LiveConnection) -> None:
    names = [tool.name for tool in own_server.run(own_server.server.tools())]
    assert len(names) == len(set(names)) == 50


def test_time_to_live_of_a_resource_is_returned(own_server: LiveConnection) -> None:
    read = own_server.run(own_server.server.read("own://note"))
    assert (read.contents[0].text, read.ttl_s) == ("noted", 90)


def test_question_in_return_is_a_failure(own_server: LiveConnection) -> None:
    with raises_code(ServerFailed, "server_needs_input", place="mcp own"):
        call(own_server, "ask")
