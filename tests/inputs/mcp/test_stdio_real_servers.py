"""Third-party servers of both generations of the protocol, over stdio."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from steno.errors import ServerFailed
from tests.inputs.mcp.real_servers import (
    LiveConnection,
    filesystem_spec,
    git_spec,
    memory_spec,
    open_connection,
)
from tests.raised_errors import raises_code


def ignore(_: str) -> None:
    """Ignore the progress."""


def text_of(content: object) -> str:
    assert isinstance(content, tuple)
    return "".join(block.get("text", "") for block in content)


def test_the_time_server_returns_the_time(time_server: LiveConnection) -> None:
    tools = time_server.run(time_server.server.tools())
    assert [tool.name for tool in tools] == ["get_current_time", "convert_time"]
    assert tools[0].schema["required"] == ["timezone"]
    arguments = {"timezone": "Asia/Tokyo"}
    told = time_server.run(time_server.server.call("get_current_time", arguments, progress=ignore))
    assert json.loads(text_of(told.content))["timezone"] == "Asia/Tokyo"
    assert not told.is_error


def test_failure_of_a_tool_is_an_answer_with_its_words(time_server: LiveConnection) -> None:
    arguments = {"timezone": "Nowhere/Land"}
    told = time_server.run(time_server.server.call("get_current_time", arguments, progress=ignore))
    assert told.is_error
    assert "Nowhere/Land" in text_of(told.content)


def test_server_without_resources_and_prompts_has_none(time_server: LiveConnection) -> None:
    assert time_server.run(time_server.server.resources()) == ()
    assert time_server.run(time_server.server.prompts()) == ()


def test_resource_that_is_not_there_is_refused_by_name_of_the_server(
    everything: LiveConnection,
) -> None:
    with raises_code(ServerFailed, "server_refused", place="mcp everything"):
        everything.run(everything.server.read("demo://nothing"))


def test_repository_is_looked_at(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "new.txt").write_text("new")
    with open_connection(git_spec(tmp_path), tmp_path) as git:
        arguments = {"repo_path": str(tmp_path)}
        status = git.run(git.server.call("git_status", arguments, progress=ignore))
    assert "new.txt" in text_of(status.content)


def test_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("what is in it")
    with open_connection(filesystem_spec(tmp_path), tmp_path) as files:
        hints = {tool.name: tool.hints for tool in files.run(files.server.tools())}
        assert hints["read_text_file"]["readOnlyHint"] is True
        arguments = {"path": str(tmp_path / "a.txt")}
        read = files.run(files.server.call("read_text_file", arguments, progress=ignore))
        assert text_of(read.content) == "what is in it"
        outside = {"path": "/etc/hostname"}
        refused = files.run(files.server.call("read_text_file", outside, progress=ignore))
        assert refused.is_error


def test_data_of_a_server_outlives_it(tmp_path: Path) -> None:
    spec = memory_spec(tmp_path / "memory.jsonl")
    entity = {"name": "steno", "entityType": "program", "observations": ["writes things down"]}
    with open_connection(spec, tmp_path) as memory:
        arguments = {"entities": [entity]}
        memory.run(memory.server.call("create_entities", arguments, progress=ignore))
    with open_connection(spec, tmp_path) as memory:
        graph = memory.run(memory.server.call("read_graph", {}, progress=ignore))
    assert graph.structured["entities"][0]["name"] == "steno"


# -- server-everything: the older protocol -------------------------------------------------------


def test_resources_templates_and_prompts_are_listed(everything: LiveConnection) -> None:
    resources = everything.run(everything.server.resources())
    assert [r.uri for r in resources if r.is_template and "{" in r.uri]
    assert [r.uri for r in resources if not r.is_template and r.mime_type == "text/markdown"]
    prompts = {prompt.name: prompt for prompt in everything.run(everything.server.prompts())}
    city, state = prompts["args-prompt"].arguments
    assert (city.name, city.is_required, state.is_required) == ("city", True, False)


def test_resource_of_text_and_of_bytes_is_read(everything: LiveConnection) -> None:
    text = everything.run(everything.server.read("demo://resource/dynamic/text/1"))
    assert text.contents[0].text is not None
    assert text.contents[0].data is None
    blob = everything.run(everything.server.read("demo://resource/dynamic/blob/1"))
    assert blob.contents[0].text is None
    assert b"Resource 1" in (blob.contents[0].data or b"")


def test_older_server_gives_no_time_to_live(everything: LiveConnection) -> None:
    read = everything.run(everything.server.read("demo://resource/dynamic/text/1"))
    assert read.ttl_s is None


def test_prompt_is_filled_in(everything: LiveConnection) -> None:
    messages = everything.run(everything.server.prompt("args-prompt", {"city": "Ulm"}))
    assert messages[0].role == "user"
    assert "Ulm" in messages[0].content["text"]


def test_picture_and_links_come_as_blocks(everything: LiveConnection) -> None:
    async def ask() -> list[str]:
        image, links, structured = await asyncio.gather(
            everything.server.call("get-tiny-image", {}, progress=ignore),
            everything.server.call("get-resource-links", {"count": 2}, progress=ignore),
            everything.server.call(
                "get-structured-content", {"location": "New York"}, progress=ignore
            ),
        )
        assert "temperature" in structured.structured
        return [block["type"] for block in (*image.content, *links.content)]

    kinds = everything.run(ask())
    assert {"image", "resource_link", "text"} <= set(kinds)


def test_progress_is_reported_and_many_calls_run_at_once(everything: LiveConnection) -> None:
    told: list[str] = []

    async def ask() -> list[str]:
        slow = everything.server.call(
            "trigger-long-running-operation", {"duration": 1, "steps": 2}, progress=told.append
        )
        quick = [
            everything.server.call("echo", {"message": f"number {n}"}, progress=ignore)
            for n in range(20)
        ]
        answers = await asyncio.gather(slow, *quick)
        return [text_of(answer.content) for answer in answers]

    slow, *quick = everything.run(ask())
    assert quick == [f"Echo: number {n}" for n in range(20)]
    assert "completed" in slow
    assert told[0].startswith("1/2")


def test_cancelled_call_leaves_the_connection_as_it_was(everything: LiveConnection) -> None:
    async def ask() -> str:
        begun = asyncio.Event()
        call = asyncio.create_task(
            everything.server.call(
                "trigger-long-running-operation",
                {"duration": 60, "steps": 600},
                progress=lambda _: begun.set(),
            )
        )
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        echo = await everything.server.call("echo", {"message": "still here"}, progress=ignore)
        return text_of(echo.content)

    assert everything.run(ask()) == "Echo: still here"
