"""A session with real MCP servers: their tools are offered and their prompts sent, with any model."""

from __future__ import annotations

from pathlib import Path

import pytest

from steno.agent import PromptInput
from steno.app.mcp import McpOptions
from steno.messages.message import ToolResultMessage
from tests.app.project_setup import make_project, scripted_model
from tests.app.scripted_vendor import Call
from tests.app.session_setup import SessionUser, offered_mcp_tools, open_user_session, run
from tests.cli.reference_setup import WITH_VISION, trust_settings, write_servers
from tests.inputs.images.image_samples import encode_image, red_image
from tests.inputs.mcp.real_servers import everything_spec, time_spec

pytestmark = pytest.mark.requirement("S4-15")
OPEN = McpOptions()


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make_project(tmp_path, monkeypatch)


async def convert(user: SessionUser, call: str) -> str:
    """Send a prompt to which the model calls a tool, allow it, and return the result."""
    before = len(user.session.entries())
    await user.session.send(PromptInput("When is that in Paris?"))
    await user.asked(call)
    user.allow(call)
    await user.until(lambda: not user.session.is_running)
    results = [entry.payload for entry in user.session.entries()[before:]]
    [result] = [one for one in results if isinstance(one, ToolResultMessage)]
    return result.text


def test_tools_of_servers_are_offered_allowed_and_run_also_after_another_model_came(
    project: Path, home: Path
) -> None:
    write_servers(project / ".mcp.json", time_spec())
    times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}

    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            assert "T21:00" in await convert(user, "c1")
            assert "time" in (await user.session.run_command("mcp")).body
            await user.session.change_model("offline")
            assert "`time` | stdio | responds" in (await user.session.run_command("mcp")).body
            await user.session.change_model("lab/tester")
            assert "T21:00" in await convert(user, "c2")

    def call(id: str) -> list[Call]:
        return [Call("mcp__time__convert_time", times, id)]

    with scripted_model(
        home, call("c1"), "Nine.", call("c2"), "Nine.", settings=trust_settings(project)
    ) as m:
        run(main())
    assert all(
        offered_mcp_tools(request) == ["mcp__time__convert_time", "mcp__time__get_current_time"]
        for request in m.seen
    )


def test_a_server_prompt_is_sent_with_its_content_and_can_be_edited(
    project: Path, home: Path
) -> None:
    write_servers(project / ".mcp.json", everything_spec())
    data = encode_image(red_image())
    prompt = PromptInput("/everything:args-prompt city=Paris", (data,))

    async def main() -> None:
        async with open_user_session(project, outside=OPEN) as user:
            await user.send(prompt.text, *prompt.images)
            [entry] = [entry for entry in user.session.entries() if "origin" in (entry.audit or {})]
            assert "Paris" in user.texts[0]
            assert user.session.branches.fork_before(entry.id) == prompt
            await user.session.send(PromptInput("/everything:simple-prompt"))
            await user.end(1)
            assert user.texts[0].startswith("This is a simple prompt")

    settings = f"{trust_settings(project)}{WITH_VISION}"
    with scripted_model(home, "Rain.", "Yes.", settings=settings):
        run(main())
